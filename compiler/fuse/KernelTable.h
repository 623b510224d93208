//===- KernelTable.h - One kernel per structure -----------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_KERNELTABLE_H
#define LOCKSTEP_COMPILER_FUSE_KERNELTABLE_H

#include "compiler/fuse/Operands.h"
#include <map>
#include <unordered_map>

namespace lockstep::fuse {

/// The kernels of a module, one per structure.
class KernelTable {
public:
  /// Knows the kernels that the module has.
  explicit KernelTable(mlir::ModuleOp module);

  /// The symbol of the kernel equal to `kernel`: `kernel` itself, inserted into
  /// the module, or an earlier one, and then `kernel` is erased.
  plan::KernelOp insert(plan::KernelOp kernel);
  /// The same for the kernel of an update, which is built only where its like
  /// is not known: models have hundreds of parameters and one or two kernels.
  plan::KernelOp insertUpdate(mlir::Operation *op, Operands &operands);

private:
  mlir::ModuleOp module;
  /// By a hash of the structure.
  std::unordered_map<size_t, llvm::SmallVector<plan::KernelOp, 1>> kernels;
  /// By everything that an update's kernel depends on.
  std::map<llvm::SmallVector<const void *>, plan::KernelOp> updates;
  int64_t count = 0;
};

} // namespace lockstep::fuse

#endif
