//===- LowerToLLVM.h - From scf, arith and math to LLVM IR -----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_X86_LOWERTOLLVM_H
#define LOCKSTEP_COMPILER_EMIT_X86_LOWERTOLLVM_H

#include "mlir/IR/BuiltinOps.h"
#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace lockstep::emit {

/// Lowers the kernels' functions (llvm.func with scf, arith and math inside)
/// and translates them. Null, with an error emitted, where an operation has no
/// lowering. Several threads may lower different modules of one MLIR context.
std::unique_ptr<llvm::Module> lowerToLLVM(mlir::ModuleOp module,
                                          llvm::LLVMContext &context);

} // namespace lockstep::emit

#endif
