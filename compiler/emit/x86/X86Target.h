//===- X86Target.h - x86-64 shared objects ---------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_X86_X86TARGET_H
#define LOCKSTEP_COMPILER_EMIT_X86_X86TARGET_H

#include "compiler/emit/Target.h"
#include "llvm/Target/TargetMachine.h"

namespace lockstep::emit {

class X86Target : public Target {
public:
  explicit X86Target(llvm::StringRef level) : level(level) {}
  /// x86-64-v3, x86-64-v4, native; null for another name.
  static std::unique_ptr<X86Target> create(llvm::StringRef name);

  llvm::StringRef getName() const override { return level; }
  bool hasLibrary(plan::KernelKind kind) const override;
  mlir::LogicalResult compile(mlir::ModuleOp module,
                              llvm::MutableArrayRef<GeneratedKernel> kernels,
                              std::vector<std::string> &objects) override;

  /// The assembly of the kernels, for people (lockstep-compile --dump-ir-dir,
  /// and to check vectorisation).
  mlir::LogicalResult
  compileToAssembly(mlir::ModuleOp module,
                    llvm::MutableArrayRef<GeneratedKernel> kernels,
                    std::string &assembly);

private:
  mlir::LogicalResult
  compileGroup(llvm::MutableArrayRef<GeneratedKernel> kernels,
               llvm::CodeGenFileType type,
               llvm::SmallVectorImpl<char> &bytes) const;

  std::string level;
};

/// Links relocatable objects to a shared object without dependencies. Empty
/// `error` on success.
std::string linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
                             std::string &error);

} // namespace lockstep::emit

#endif
