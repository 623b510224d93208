//===- DivideBatch.h - A program for one micro batch ------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_DIVIDEBATCH_H
#define LOCKSTEP_COMPILER_SHARDING_DIVIDEBATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::sharding {

/// Rewrites a forward program from the whole batch to one of `steps` micro
/// batches: dimension 0 of every input and label argument that is not
/// `train.whole` is divided by `steps`, and all that follows from it. The
/// program then has the property that its results, per micro batch, make up
/// those of the whole batch:
///   - a result with the batch in some dimension is that part of it (the
///   logits);
///   - any other floating-point result is to be summed over the micro batches
///   (the loss sum, the label count), if it depends on the batch. A
///     mean by a constant of the whole batch is such a sum as well;
///   - batch statistics are those of the micro batch, and the running
///   statistics are carried from one to the next.
/// Fails with one error where that cannot be, at the operation that needs the
/// whole batch, and where the batch is not divisible. The function must have
/// global shapes and `train.role` attributes; afterwards it is ordinary `train`
/// IR.
mlir::LogicalResult divideBatch(mlir::func::FuncOp forward, int64_t steps);

} // namespace lockstep::sharding

#endif
