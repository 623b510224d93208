//===- BuildKernels.h - Regions of kernels ----------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_BUILDKERNELS_H
#define LOCKSTEP_COMPILER_FUSE_BUILDKERNELS_H

#include "compiler/fuse/Grouping.h"

namespace lockstep::fuse {

/// A kernel and the values of the original block that its call takes and gives.
struct BuiltKernel {
  /// Detached; null for updates, whose kernels are built by the table.
  plan::KernelOp kernel;
  /// Each is read from memory: a root, behind views where the call reads a
  /// contiguous part.
  llvm::SmallVector<FoldedOperand> arguments;
  llvm::SmallVector<mlir::Value> results;
};

/// A loop kernel that gives `outputs`.
BuiltKernel buildLoopKernel(const Node &node, Operands &operands,
                            llvm::ArrayRef<mlir::Value> outputs);
/// The kernel of an anchor, but for sgd and adam.
BuiltKernel buildAnchorKernel(mlir::Operation *op, Operands &operands);

/// What the call of an update (sgd or adam) takes and gives.
BuiltKernel describeUpdate(mlir::Operation *op, Operands &operands);
/// The update as work on one element; detached.
plan::KernelOp buildUpdateKernel(mlir::Operation *op, Operands &operands);
/// The type that an operand has in there.
mlir::Type getUpdateType(mlir::Operation *op, unsigned index);

} // namespace lockstep::fuse

#endif
