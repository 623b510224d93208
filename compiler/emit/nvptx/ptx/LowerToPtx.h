//===- LowerToPtx.h - From scf, arith, NVVM to PTX -------------*- C++ -*-===//
//
// In process: conversions to the LLVM dialect, translation to LLVM IR, LLVM's
// NVPTX code generator at -O3. Nothing here needs a CUDA toolkit.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_PTX_LOWERTOPTX_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_PTX_LOWERTOPTX_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace lockstep::emit {

/// What LLVM's middle end does to a kernel before code generation.
enum class PtxOptimization {
  /// Nothing: the kernel is built in its final form (the GEMM kernels, whose
  /// instruction order carries meaning that LLVM does not see).
  None,
  /// LLVM's own pipeline at -O3, for kernels that are plain loops.
  Full,
};

/// Dialects and translations that lowerToPtx needs. Before the kernels are
/// built, since several threads may lower modules of one context.
void loadPtxDialects(mlir::MLIRContext &context);

/// Whether code can be generated for the chip: sm_80, sm_90a or sm_100a.
bool isPtxChip(llvm::StringRef chip);

/// The PTX of a module of llvm.func kernels with scf, cf, arith, math, NVVM and
/// LLVM operations inside; the module is lowered in place. Fails, with an error
/// emitted, where an operation has no lowering or the chip is unknown. Several
/// threads may lower different modules of one MLIR context.
mlir::FailureOr<std::string>
lowerToPtx(mlir::ModuleOp module, llvm::StringRef chip,
           PtxOptimization optimization = PtxOptimization::Full);

} // namespace lockstep::emit

#endif
