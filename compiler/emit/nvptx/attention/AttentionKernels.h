//===- AttentionKernels.h - Generated attention kernels --------*- C++ -*-===//
//
// Each function adds one kernel to a module of its own: lowerToPtx with no
// optimization, for sm_90a, makes PTX of it. They fail, with the reason as an
// error at the module, where checkConfig refuses the configuration, and need
// loadPtxDialects.
//
// Arguments in order. Tensor maps (128 bytes, by value) have the dimensions
// (column, row, head, batch) with boxes of 64 columns and the rows given here,
// bf16, zeros outside. Tables and bounds are those of WorkTable.h. The scale is
// positive.
//
//   forward         maps: query (getQueryRows), key and value (getKeyBlock),
//                   output (64); ptr lse f32 [B, H, T], key bias, table,
//                   bounds; i32 queries, keys, query heads, window; f32 scale;
//                   MASK
//   prepare         ptr out, dout (bf16), lse, logSum, rowSum, dq's sums;
//                   i32 rows (B H padded rows), queries, padded rows, query
//                   heads, head dimension; i64 strides in elements: out's row,
//                   head, batch, dout's row, head, batch. Grid: one block for
//                   getPrepareRows rows
//   backward        maps: query, key, value, dout, both gradients
//                   dk and dv (64); ptr logSum, rowSum, dq's sums, key bias,
//                   table, bounds; i32 queries' tiles (padded rows /
//                   getQueryRows), keys, query heads, window; f32 scale;
//                   MASK
//   convert         map: dq (64); ptr dq's sums; i32 queries' tiles, query
//                   heads; f32 scale. Grid: 2 blocks for each head's tile
//   query gradient  maps: query, key, value, dout, dq (64), boxes as above;
//                   ptr out, dout, lse, logSum, rowSum, key bias, table,
//                   bounds; i32 queries, keys, padded rows, query heads,
//                   window, head dimension; i64 the six strides of prepare;
//                   f32 scale; MASK
//   key bias        ptr mask ([batch][key]), key bias; i32 rows (B
//                   padded keys), keys, padded keys; i64 the mask's stride from
//                   batch to batch, 0 for one that is shared; f32 scale. Grid:
//                   one block for keyBiasThreads rows
//   mask pieces     ptr mask, pieces; i32 rows and columns of the mask; rows
//                   and columns of pieces (getMaskPieces); heads that differ;
//                   i64 the mask's strides in elements: row, column, head,
//                   batch (0 where it is shared); f32 scale. Rows are queries,
//                   for backward keys. Grid: one block for each piece
//
// MASK: ptr pieces, i32 pieces from one row of pieces, head, batch to the next
// (0 where the mask is shared).
//
// The key bias, f32 [B, padded keys], is added to the scores before the scale.
// logSum and rowSum, f32 [B, H, padded rows], are what prepare or the query
// gradient leaves for backward: minus lse in base 2 (minus infinity in padding)
// and the sum over a row of dout times out. Unused pointers may be null.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONKERNELS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONKERNELS_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::attention {

/// What a mask consists of: i8, 0 hides the key; or numbers, added to the
/// scaled scores.
enum class MaskElement { Boolean, F32, BFloat16 };

mlir::LogicalResult buildMaskPiecesKernel(mlir::ModuleOp module,
                                          MaskElement element,
                                          llvm::StringRef symbol);
mlir::LogicalResult buildKeyBiasKernel(mlir::ModuleOp module,
                                       MaskElement element,
                                       llvm::StringRef symbol);
mlir::LogicalResult buildForwardKernel(mlir::ModuleOp module,
                                       const ForwardConfig &config,
                                       llvm::StringRef symbol);
mlir::LogicalResult buildPrepareKernel(mlir::ModuleOp module,
                                       const BackwardConfig &config,
                                       llvm::StringRef symbol);
mlir::LogicalResult buildBackwardKernel(mlir::ModuleOp module,
                                        const BackwardConfig &config,
                                        llvm::StringRef symbol);
mlir::LogicalResult buildConvertKernel(mlir::ModuleOp module,
                                       const BackwardConfig &config,
                                       llvm::StringRef symbol);
mlir::LogicalResult buildQueryGradientKernel(mlir::ModuleOp module,
                                             const QueryGradientConfig &config,
                                             llvm::StringRef symbol);

} // namespace lockstep::attention

#endif
