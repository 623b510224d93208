//===- BuildKernels.h - Regions of kernels ----------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_BUILDKERNELS_H
#define LOCKSTEP_COMPILER_FUSE_BUILDKERNELS_H

#include "compiler/fuse/Grouping.h"
#include <unordered_map>

namespace lockstep::fuse {

/// A kernel and the values of the original block that its call takes and gives.
struct BuiltKernel {
  plan::KernelOp kernel;
  /// Each is read from memory: a root, behind views where the call reads a
  /// contiguous part.
  llvm::SmallVector<FoldedOperand> arguments;
  llvm::SmallVector<mlir::Value> results;
};

/// A loop kernel that gives `outputs`; detached.
BuiltKernel buildLoopKernel(const Node &node, Operands &operands,
                            llvm::ArrayRef<mlir::Value> outputs);
/// The kernel of an anchor, sgd or adam; detached.
BuiltKernel buildAnchorKernel(mlir::Operation *op, Operands &operands);

/// The kernels of a module, one per structure.
class KernelTable {
public:
  /// Knows the kernels that the module has.
  explicit KernelTable(mlir::ModuleOp module);

  /// The symbol of the kernel equal to `kernel`: `kernel` itself, inserted into
  /// the module, or an earlier one, and then `kernel` is erased.
  plan::KernelOp insert(plan::KernelOp kernel);

private:
  mlir::ModuleOp module;
  /// By a hash of the structure.
  std::unordered_map<size_t, llvm::SmallVector<plan::KernelOp, 1>> kernels;
  int64_t count = 0;
};

} // namespace lockstep::fuse

#endif
