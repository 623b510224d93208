//===- Activation.h - Activations in an epilogue ---------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_ACTIVATION_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_ACTIVATION_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include "compiler/emit/nvptx/gemm/KernelBuilder.h"

namespace lockstep::gemm {

/// activation(x), and its derivative at x, in f32.
mlir::Value emitActivation(KernelBuilder &b, Activation kind, mlir::Value x);
mlir::Value emitActivationGradient(KernelBuilder &b, Activation kind,
                                   mlir::Value x);

} // namespace lockstep::gemm

#endif
