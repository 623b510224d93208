//===- TileTable.h - Which block multiplies which tile when ----*- C++ -*-===//
//
// A GEMM kernel is persistent: one block on each multiprocessor walks a list of
// items made at compile time. With C clusters, cluster c takes the items c,
// c + C, c + 2C, ... Neighbouring items share operands in the L2 cache.
//
// With split K the tiles that do not fill a last wave are cut into slices along
// k. One cluster does a tile's first slices and finishes it; others leave
// partial sums in a workspace, a slot each, which it adds in the order of the
// slots: the same bits in every run. The clusters of partial sums come first,
// so that whoever is waited for has been started.
//
// Alternative: stream-K, whose items begin and end anywhere along k. It fills
// the last wave a little better, but a tile is then cut differently from its
// neighbours, which breaks the sharing in the L2 cache.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_TILETABLE_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_TILETABLE_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include <vector>

namespace lockstep::gemm {

struct GemmSize {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};

/// What an item's block does with its sum.
enum class ItemKind : int32_t { Whole = 0, Partial = 1, Finish = 2 };

/// One tile, or some of a tile's blocks along k. The kernel reads two vectors
/// of four numbers.
struct TileItem {
  /// First row and column of D, of the cluster's first block.
  int32_t row = 0, column = 0;
  /// First block along k, and how many.
  int32_t firstBlock = 0, blocks = 0;
  ItemKind kind = ItemKind::Whole;
  /// Partial: the slot written. Finish: the first slot added.
  int32_t slot = 0;
  /// Finish: how many slots.
  int32_t partials = 0;
  int32_t batch = 0;
};
static_assert(sizeof(TileItem) == 32, "the kernel reads 32 bytes an item");

struct TileTable {
  /// Ends with items of nothing, since a warpgroup looks ahead. With split K
  /// the tail holds, packed, one number for each cluster: the index at which
  /// its items end.
  std::vector<TileItem> items;
  /// The kernel's argument: how many items there are, the tail excluded.
  int32_t itemCount = 0;
  int32_t gridBlocks = 0;
  /// Slices along k of a tile that is cut.
  int32_t slices = 1;
  /// Slots of the workspace; one of a block of a cluster.
  int64_t slots = 0;
};

/// Bytes of the workspace for partial sums: no value is assumed in it.
int64_t getWorkspaceBytes(const GemmConfig &config, const TileTable &table);
/// Bytes of the counters, zero before the first launch and after each.
int64_t getCounterBytes(const GemmConfig &config, const TileTable &table);

/// Empty, or what the kernels cannot take of the size.
std::string checkSize(const GemmConfig &config, const GemmSize &size);

/// `group` tiles along M are taken together before the next column of tiles
/// (along N, where it is negative, before the next row).
TileTable buildTileTable(const GemmConfig &config, const GemmSize &size,
                         int multiprocessors, int group = 8);

} // namespace lockstep::gemm

#endif
