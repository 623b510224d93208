//===- Inference.h - Helpers of type inference and verification -*- C++ -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_INFERENCE_H
#define LOCKSTEP_DIALECTS_TRAIN_INFERENCE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace lockstep::train {

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return tensorType(value).getShape();
}
inline mlir::Type elementOf(mlir::Value value) {
  return tensorType(value).getElementType();
}

/// f32 for f16 and bf16, else the type itself: what saved statistics and long
/// sums are kept in.
inline mlir::Type accumulationType(mlir::Type element) {
  return element.isF16() || element.isBF16()
             ? mlir::Float32Type::get(element.getContext())
             : element;
}

/// True when `dims` are strictly increasing dimensions of a tensor of rank
/// `rank`.
inline bool areIncreasingDims(llvm::ArrayRef<int64_t> dims, int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim < 0 || dim >= rank || (i > 0 && dim <= dims[i - 1]))
      return false;
  return true;
}

inline bool areDistinctDims(llvm::ArrayRef<int64_t> dims, int64_t rank) {
  llvm::SmallVector<bool> seen(rank, false);
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank || seen[dim])
      return false;
    seen[dim] = true;
  }
  return true;
}

/// The shape without the dimensions `dims`.
inline llvm::SmallVector<int64_t> dropDims(llvm::ArrayRef<int64_t> shape,
                                           llvm::ArrayRef<int64_t> dims) {
  llvm::SmallVector<int64_t> kept;
  for (auto [i, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
      kept.push_back(size);
  return kept;
}

/// Number of window positions along one dimension; negative when the window
/// does not fit.
inline int64_t windowCount(int64_t size, int64_t window, int64_t stride,
                           int64_t low, int64_t high, int64_t dilation) {
  int64_t span = size + low + high - ((window - 1) * dilation + 1);
  return span < 0 ? -1 : span / stride + 1;
}

} // namespace lockstep::train

#endif
