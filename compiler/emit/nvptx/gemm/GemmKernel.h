//===- GemmKernel.h - Generated GEMM kernels -------------------*- C++ -*-===//
//
// bf16 GEMM for sm_90a: a persistent kernel of warpgroups with roles, operands
// by the tensor copy engine, products by wgmma. Arguments, in order:
//
//   4 tensor maps   A, B, D, the second tensor (D's again where there is none);
//                   128 bytes each, boxes by getBoxA and so on
//   ptr             bias, bf16 [N]
//   ptr             tile table (TileTable.h)
//   ptr, ptr        split K: workspace, counters
//   ptr             column sums, f32 [getColumnSumLines][N]
//   i32, i32        itemCount of the tile table; N
//
// Unused pointers may be null. planLaunch (GemmLaunch.h) says all of it for a
// size.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMKERNEL_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMKERNEL_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::gemm {

/// Adds a kernel to a module, which lowerToPtx is to take for sm_90a and
/// without optimization. Fails, with the reason as an error at the module,
/// where checkConfig refuses the configuration. Needs loadPtxDialects.
mlir::LogicalResult buildGemmKernel(mlir::ModuleOp module,
                                    const GemmConfig &config,
                                    llvm::StringRef symbol);

} // namespace lockstep::gemm

#endif
