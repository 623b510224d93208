//===- WorkTable.h - Which block computes which rows when ------*- C++ -*-===//
//
// Attention kernels are persistent: one block on each multiprocessor walks its
// own list of items, made at compile time. With a causal mask items differ in
// cost: the lists come from a simulation of dynamic scheduling, the longest
// items first inside groups of heads. Groups of about two waves of items keep
// the heads' keys in the L2 cache and leave the end even (0.99 of the blocks'
// time is used at 4096 causal queries, 0.955 in plain order).
//
// Alternative: an atomic counter in global memory. It balances what the costs
// do not foresee, but each block then waits for its next item, and the order of
// f32 reductions changes from run to run.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_WORKTABLE_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_WORKTABLE_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include <vector>

namespace lockstep::attention {

struct AttentionSize {
  int64_t batch = 1, queryHeads = 1, keyHeads = 1;
  int64_t queries = 1, keys = 1;
  /// The tensors' own, which the kernel's may exceed.
  int64_t headDim = 64;
  /// Of Mask::CausalWindow.
  int64_t window = 0;
};

/// One tile of queries against some blocks of keys (forward, query gradient).
struct QueryItem {
  int32_t row = 0, head = 0, keyHead = 0, batch = 0;
  /// Of getKeyBlock keys; taken from the last to the first.
  int32_t firstBlock = 0, blocks = 0;
  int32_t unused[2] = {0, 0};
};

/// One block of keys against tiles of queries of each of its query heads
/// (backward). A head's tiles go from `start` to `end`, then from `first`.
struct KeyItem {
  int32_t row = 0, keyHead = 0, batch = 0, firstHead = 0;
  /// Over all heads.
  int32_t steps = 0;
  int32_t first = 0, start = 0, end = 0;
};
static_assert(sizeof(QueryItem) == 32 && sizeof(KeyItem) == 32,
              "kernels read 32 bytes an item");

template <typename Item> struct WorkTable {
  std::vector<Item> items;
  /// Block b does the items bounds[b] up to bounds[b + 1].
  std::vector<int32_t> bounds;
  int32_t gridBlocks = 0;
  /// Share of the blocks' time that is used, by the costs assumed.
  double balance = 1;
};

/// Empty, or what the kernels cannot take of the size.
std::string checkSize(int kernelHeadDim, Mask mask, const AttentionSize &size);

WorkTable<QueryItem> buildWorkTable(const ForwardConfig &config,
                                    const AttentionSize &size,
                                    int multiprocessors);
WorkTable<QueryItem> buildWorkTable(const QueryGradientConfig &config,
                                    const AttentionSize &size,
                                    int multiprocessors);
WorkTable<KeyItem> buildWorkTable(const BackwardConfig &config,
                                  const AttentionSize &size,
                                  int multiprocessors);

} // namespace lockstep::attention

#endif
