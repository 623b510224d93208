//===- Activation.h - Activations in an epilogue ---------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_ACTIVATION_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_ACTIVATION_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include "compiler/emit/nvptx/gemm/KernelBuilder.h"

namespace lockstep::gemm {

/// activation(x) for each x, in f32. Some values at a time take each step
/// together: one warp has nobody else to hide an instruction's latency.
llvm::SmallVector<mlir::Value> emitActivation(KernelBuilder &b, Activation kind,
                                              llvm::ArrayRef<mlir::Value> xs);

/// The derivative at each x, in f32.
llvm::SmallVector<mlir::Value>
emitActivationGradient(KernelBuilder &b, Activation kind,
                       llvm::ArrayRef<mlir::Value> xs);

} // namespace lockstep::gemm

#endif
