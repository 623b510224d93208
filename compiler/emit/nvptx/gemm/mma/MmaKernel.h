//===- MmaKernel.h - GEMM kernels by mma.sync ------------------*- C++ -*-===//
//
// Arguments, in order:
//
//   ptr x 5   A, B, D, the second tensor (null where there is none), bias
//   i32 x 3   M, N, K
//   i64 x 3   leading dimensions of A, B, D, in elements
//   i64 x 3   elements from one matrix of a batch to the next, of A, B, D
//
// The grid is (tiles along M, tiles along N, batch), a block has mmaThreads
// threads and mmaSharedBytes of dynamic shared memory.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMAKERNEL_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMAKERNEL_H

#include "compiler/emit/nvptx/gemm/mma/MmaConfig.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::gemm {

/// Adds a kernel to a module, which lowerToPtx is to take without optimization.
/// Fails, with the reason as an error at the module, where checkConfig refuses
/// the configuration. Needs loadPtxDialects.
mlir::LogicalResult buildMmaKernel(mlir::ModuleOp module,
                                   const MmaConfig &config,
                                   llvm::StringRef symbol);

} // namespace lockstep::gemm

#endif
