//===- BatchArguments.h - Which arguments hold the batch --------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_BATCHARGUMENTS_H
#define LOCKSTEP_COMPILER_SHARDING_BATCHARGUMENTS_H

#include "compiler/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::sharding {

/// The argument's dimension 0 is the batch: an input or label that is not
/// `train.whole`.
bool isBatchArgument(mlir::func::FuncOp function, unsigned number);

/// Sets `dist.sharding` on every batch argument: dimension 0 divided over
/// `axis`. Each must be divisible by `parts` (a multiple of the axis's size),
/// which the error counts in `unit` ("ranks"): "batch 8 is not divisible by 3
/// ranks".
mlir::LogicalResult divideBatchArguments(mlir::func::FuncOp function,
                                         MeshOp mesh, llvm::StringRef axis,
                                         int64_t parts, llvm::StringRef unit);

} // namespace lockstep::sharding

#endif
