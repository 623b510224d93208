// Advanced indexing, shared by reads (index) and writes (index_put).
#ifndef LOCKSTEP_COMPILER_IMPORT_ATEN_INDEXING_H
#define LOCKSTEP_COMPILER_IMPORT_ATEN_INDEXING_H

#include "compiler/import/aten/Lowering.h"

namespace lockstep::aten {

/// x[i0, :, i2, ...]: index tensors of one shape, the dimensions they index,
/// and where their dimensions go in the result.
struct AdvancedIndex {
  llvm::SmallVector<mlir::Value> indices;
  Shape dims;
  /// First dimension of the result that comes from the index tensors.
  int64_t position = 0;
  Shape shape; ///< of the index tensors

  /// Brings the list (null: a whole dimension) to this form for an operand of
  /// that shape. Masks must be constants.
  bool build(Emitter &emit, llvm::ArrayRef<mlir::Value> list, Dims operand);
  /// The permutation from [index dimensions, others] to the result's order, for
  /// a result of that rank.
  Shape toResult(int64_t rank) const;
};

/// index < 0 ? index + size : index, as i64.
mlir::Value wrapNegative(Emitter &emit, mlir::Value index, int64_t size);
/// torch.take_along_dim: index has x's rank and, but for `dim`, its sizes.
mlir::Value takeAlong(Emitter &emit, mlir::Value x, mlir::Value index,
                      int64_t dim);

} // namespace lockstep::aten

#endif // LOCKSTEP_COMPILER_IMPORT_ATEN_INDEXING_H
