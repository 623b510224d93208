//===- AttentionConfig.h - What a generated attention kernel is -*- C++ -*-===//
//
// out = softmax(scale q k^T + mask) v and its gradients, bf16 operands, f32
// inside. One configuration is one kernel, for every batch, number of heads
// and length: the sizes come in through tensor maps, work tables (WorkTable.h)
// and a few arguments. No MLIR here, since whoever launches a kernel needs the
// same facts.
//
//   forward          out and lse, the natural logarithm of each row's sum
//   key bias         what is added to the scores of each key, from a mask
//   mask pieces      a mask over queries and keys in the order of registers
//   prepare          what backward reads of each query besides q and dout
//   backward         dk and dv, and dq as f32 sums in the order of registers
//   convert          dq as bf16 rows
//   query gradient   dq alone: with a backward of QueryGradient::None the pair
//                    that gives the same bits in every run
//
// Tensors are [batch][head][row][column] with any strides that are multiples of
// 16 bytes, the column contiguous, so that q, k and v may be parts of one
// joined projection [B, T, 3, H, D]. Key heads divide query heads (grouped
// queries). A kernel of head dimension 64, 128 or 256 takes every smaller one
// that is a multiple of 8: the tensor copy engine reads zeros beyond it and
// writes nothing there.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONCONFIG_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONCONFIG_H

#include <cstdint>
#include <string>

namespace lockstep::attention {

/// Which keys a query sees.
enum class Mask {
  Full,
  /// Row t sees the keys s <= t.
  Causal,
  /// Row t sees the keys t - window < s <= t; the window is an argument.
  CausalWindow,
};

/// A mask over queries and keys, besides the other one.
enum class TensorMask {
  None,
  /// Says which keys a query sees: a bit each.
  Boolean,
  /// Is added to the scaled scores: f32.
  Added,
};

struct ForwardConfig {
  int headDim = 64;
  Mask mask = Mask::Full;
  /// Something is added to every score of a key, the same for all queries and
  /// heads: minus infinity hides a key, as padding does.
  bool keyBias = false;
  TensorMask tensorMask = TensorMask::None;
  /// Warpgroups that multiply, each with 64 rows of queries.
  int consumers = 2;
  /// Blocks of 128 keys and of their values in flight, tiles of queries.
  int stages = 2, queryStages = 2;
  /// One exponential in so many is a polynomial on the FMA units (relative
  /// error 7.5e-5), since the special function units are the limit; 0: none.
  int polynomial = 0;
};

/// How backward adds up dq over the blocks of keys.
enum class QueryGradient {
  /// Vector reductions, f32, in whatever order the blocks come.
  Reduce,
  /// The same through shared memory, by the bulk copy engine.
  BulkReduce,
  /// Not at all.
  None,
};

struct BackwardConfig {
  int headDim = 64;
  Mask mask = Mask::Full;
  bool keyBias = false;
  TensorMask tensorMask = TensorMask::None;
  /// Tiles of queries, and of dout, in flight; blocks of keys and values.
  int stages = 2, keyStages = 1;
  QueryGradient queryGradient = QueryGradient::Reduce;
  /// dk's product of a step runs under the next step's scores.
  bool deferKeyGradient = false;
  /// dv's product is issued after the scores' gradient is computed, instead of
  /// before.
  bool lateValueGradient = false;
};

struct QueryGradientConfig {
  int headDim = 64;
  Mask mask = Mask::Full;
  bool keyBias = false;
  TensorMask tensorMask = TensorMask::None;
  int stages = 2, queryStages = 1;
};

/// Rows of a block of keys.
constexpr int getKeyBlock(int headDim) { return headDim > 128 ? 64 : 128; }
/// Bytes of the bias of a block of keys.
constexpr int getKeyBiasBytes(int headDim) { return getKeyBlock(headDim) * 4; }
/// Whether both warpgroups that multiply have the same rows of gradients, and
/// half of their columns each: registers hold no more. Both then compute the
/// scores.
constexpr bool sharesRows(int headDim) { return headDim > 128; }
constexpr int maxSharedBytes = 232448;
constexpr double log2E = 1.4426950408889634;

/// Empty, or what is wrong with the configuration: "expected ..., but got ...".
std::string checkConfig(const ForwardConfig &config);
std::string checkConfig(const BackwardConfig &config);
std::string checkConfig(const QueryGradientConfig &config);

/// The least kernel that takes a head dimension of up to 256.
int getKernelHeadDim(int64_t headDim);

/// What is fastest of those measured on an H200 (docs/gpu-kernels.md). Above a
/// head dimension of 128 a backward has no dq, even where it need not give the
/// same bits in every run.
ForwardConfig getForwardConfig(int headDim, Mask mask);
BackwardConfig getBackwardConfig(int headDim, Mask mask, bool deterministic);
QueryGradientConfig getQueryGradientConfig(int headDim, Mask mask);

//===----------------------------------------------------------------------===//
// What follows from a configuration
//===----------------------------------------------------------------------===//

/// Rows of queries of one item of the work table.
int getQueryRows(const ForwardConfig &config);
int getQueryRows(const QueryGradientConfig &config);
/// Rows of queries of one step of backward. Vectors of queries and the sums of
/// dq are padded to whole steps (getPaddedRows).
int getQueryRows(const BackwardConfig &config);
int64_t getPaddedRows(const BackwardConfig &config, int64_t queries);
/// Keys are padded to whole blocks, of any kernel, in the key bias.
constexpr int keyPadding = 128;
int64_t getPaddedKeys(int64_t keys);
/// Whether data hides keys: those past the end as well, and all of a row
/// perhaps.
template <typename Config> bool hidesByData(const Config &config) {
  return config.keyBias || config.tensorMask != TensorMask::None;
}

/// A mask over queries and keys is read in pieces of 64 rows by 64 columns of a
/// warpgroup's product (of backward: keys by queries), each with the threads'
/// sums together: 32 bits, or 8 times 4 f32 with those of all threads side by
/// side.
constexpr int maskPiece = 64, maskPieceThreads = 128;
int getMaskPieceBytes(TensorMask mask);
/// How many pieces cover a head, so that no warpgroup reads beyond.
struct MaskPieceCounts {
  int64_t rows, columns;
};
MaskPieceCounts getMaskPieces(const ForwardConfig &config, int64_t queries,
                              int64_t keys);
MaskPieceCounts getMaskPieces(const QueryGradientConfig &config,
                              int64_t queries, int64_t keys);
MaskPieceCounts getMaskPieces(const BackwardConfig &config, int64_t queries,
                              int64_t keys);

/// Bytes of dq's sums for one head.
int64_t getQuerySumBytes(const BackwardConfig &config, int64_t queries);

int getThreads(const ForwardConfig &config);
int getThreads(const BackwardConfig &config);
int getThreads(const QueryGradientConfig &config);
/// Columns that a warpgroup stages to be stored, of rows of the result.
int getStagedColumns(const ForwardConfig &config);
int getStagedColumns(const QueryGradientConfig &config);
/// Of the pre and post passes.
constexpr int prepareThreads = 256, convertThreads = 128, keyBiasThreads = 256;
/// Rows of one block of the prepare kernel.
int getPrepareRows(int headDim);
/// Dynamic shared memory of a block of the convert kernel.
constexpr int convertSharedBytes = 64 * 128;

/// Rows of a tensor map's box; its other sizes are 64 columns, 1 head and 1 of
/// the batch, with the 128-byte swizzle. Everything that is stored goes out in
/// boxes of storeBoxRows.
constexpr int boxColumns = 64, storeBoxRows = 64;

/// Offsets into the block's shared memory, which begins at 1024 bytes.
struct ForwardLayout {
  int queryBytes, keyBytes; // one tile of queries, one block of keys
  int query, key, value, output;
  /// One vector for each block of keys in flight; nothing without a bias.
  int keyBias;
  int barriers, barrierCount;
  int totalBytes;
};
ForwardLayout getSharedLayout(const ForwardConfig &config);

struct BackwardLayout {
  int queryBytes, keyBytes, vectorBytes, scoreBytes;
  int key, value, query, outputGradient;
  /// dS for the product that gives dq; dq on its way to the bulk reduction; dk
  /// on its way out. Absent ones have no bytes.
  int scoreGradient, queryGradient, keyGradient;
  /// Of each query: minus lse in base 2, and the sum of dout times out.
  int logSum, rowSum;
  int barriers, barrierCount;
  int totalBytes;
};
BackwardLayout getSharedLayout(const BackwardConfig &config);

struct QueryGradientLayout {
  int queryBytes, keyBytes;
  int query, outputGradient, key, value, output, keyBias;
  int barriers, barrierCount;
  int totalBytes;
};
QueryGradientLayout getSharedLayout(const QueryGradientConfig &config);

} // namespace lockstep::attention

#endif
