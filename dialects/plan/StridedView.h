//===- StridedView.h - Views as strides of a buffer ------------*- C++ -*-===//
//
// Library kernels (products, attention) read and write through strides, so that
// transposes, head splits and slices around them cost nothing. Fuse asks here
// whether a chain of views can be folded into the anchor; emit asks for the
// numbers. Offsets and strides are in elements.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_PLAN_STRIDEDVIEW_H
#define LOCKSTEP_DIALECTS_PLAN_STRIDEDVIEW_H

#include "dialects/plan/Plan.h"
#include <optional>

namespace lockstep::plan {

/// Where element (i0, i1, ...) of a tensor lies in the row-major buffer of
/// `base`: offset + sum of ik * strides[k].
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape, strides;

  bool isContiguous() const;
};

/// The row-major buffer of `base` itself.
StridedView getContiguousView(mlir::Value base);

/// The result of a view operation (isViewOp) whose operand lies as `operand`
/// says; nothing where strides cannot say it.
std::optional<StridedView> applyView(mlir::Operation *view,
                                     const StridedView &operand);

/// `value` as a view of the first value above it that no view operation
/// defines; nothing where the whole chain cannot be folded.
std::optional<StridedView> foldOperandViews(mlir::Value value);

/// What follows from the result of an anchor by reshapes and transposes, each
/// the only use of the one before, up to the operand of a concatenation that
/// the last of them may be.
struct ResultViews {
  llvm::SmallVector<mlir::Operation *> chain;
  mlir::OpOperand *part = nullptr;
};
ResultViews getResultViews(mlir::Value result);

/// Where the elements of `result` (of an anchor) lie in the buffer of the last
/// value of getResultViews, which is `base`. Nothing where strides cannot say
/// it.
std::optional<StridedView> foldResultViews(mlir::Value result);

/// The same for a chain of reshapes and transposes, in the order of
/// computation: where the elements of the first operand lie in the last result.
std::optional<StridedView> invertViews(llvm::ArrayRef<mlir::Operation *> views);

/// A product as the library computes it: c[batch, i, j] = sum over p of
/// a[batch, i, p] * b[batch, p, j].
struct GemmShape {
  int64_t m = 1, n = 1, k = 1;
  int64_t aRow = 0, aColumn = 0, bRow = 0, bColumn = 0, cRow = 0, cColumn = 0;
  llvm::SmallVector<int64_t> batch, aBatch, bBatch, cBatch;
};

/// The product with its operands and result at these places. Free dimensions
/// that have no common stride become batch dimensions (at most six in all);
/// nothing where the contracted dimensions have none.
std::optional<GemmShape> foldContraction(train::DotGeneralOp dot,
                                         const StridedView &lhs,
                                         const StridedView &rhs,
                                         const StridedView &result);

/// True if the innermost stride is 1, as attention's operands and results need
/// it.
bool hasUnitInnermostStride(const StridedView &view);

} // namespace lockstep::plan

#endif
