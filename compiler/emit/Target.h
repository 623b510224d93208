//===- Target.h - Machine code for the kernels of a program ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_TARGET_H
#define LOCKSTEP_COMPILER_EMIT_TARGET_H

#include "compiler/emit/loops/KernelFunction.h"
#include "dialects/plan/Plan.h"
#include <memory>
#include <string>

namespace lockstep::emit {

/// A kernel to generate. `symbol` must be unique among the kernels of one
/// object; `shape` is what compile found.
struct GeneratedKernel {
  plan::KernelOp kernel;
  std::string symbol;
  KernelShape shape;
};

/// Turns generated kernels into the code section of an artifact.
class Target {
public:
  virtual ~Target() = default;

  /// The target of this name (x86-64-v3, x86-64-v4, native: the higher of these
  /// that this machine has); null for a name that is none.
  static std::unique_ptr<Target> create(llvm::StringRef name);

  /// Name of the code section: the instruction set that the code needs.
  virtual llvm::StringRef getName() const = 0;
  /// Compiles all kernels into one self-contained object and sets their shapes.
  /// The same kernels give the same bytes. Errors are emitted at the kernels,
  /// or at `module` where they belong to none.
  virtual mlir::LogicalResult
  compile(mlir::ModuleOp module, llvm::MutableArrayRef<GeneratedKernel> kernels,
          std::string &object) = 0;
};

/// Dialects and translations that code generation needs; before emission, since
/// kernels are compiled by several threads.
void loadEmitDialects(mlir::MLIRContext &context);

} // namespace lockstep::emit

#endif
