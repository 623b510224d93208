//===- Propagation.h - Shardings for a whole function -----------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_PROPAGATION_H
#define LOCKSTEP_COMPILER_SHARDING_PROPAGATION_H

#include "compiler/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::sharding {

/// Finds how every operation of a function with global shapes is divided, from
/// the `dist.sharding` attributes of its arguments (none: whole) and of its
/// results (none: divided as computed, but not partial).
///
/// Forward, each operation is decided from its operands (Decision.h), and
/// composites that cannot be divided otherwise are expanded in place. A partial
/// value that one user needs reduced is reduced for all users. Backward, values
/// that are computed whole but used divided in one way only are computed
/// divided (a bias broadcast to the batch), and constants and broadcasts are
/// copied per use.
///
/// Leaves the attributes `dist.operand_shardings` and `dist.result_shardings`
/// on every operation, for `localize`; one rank needs none. With `temporal` the
/// mesh is that of micro batches: results may stay partial, and batch
/// statistics are per micro batch.
mlir::LogicalResult propagate(mlir::func::FuncOp function, MeshOp mesh,
                              bool temporal = false);

/// The shardings that propagation left on an operation.
llvm::SmallVector<ShardingAttr> getOperandShardings(mlir::Operation *op);
llvm::SmallVector<ShardingAttr> getResultShardings(mlir::Operation *op);

} // namespace lockstep::sharding

#endif
