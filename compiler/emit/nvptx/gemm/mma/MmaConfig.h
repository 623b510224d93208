//===- MmaConfig.h - GEMM kernels by mma.sync ------------------*- C++ -*-===//
//
// The path for GPUs without wgmma (sm_80 and the like): blocks of 8 warps, a
// tile of 128 by 128 each, operands by cp.async, products by mma.sync, results
// straight from registers. D, its epilogues and what is asked of leading
// dimensions are as in GemmConfig.h; there is no split K and no column sums.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMACONFIG_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMACONFIG_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"

namespace lockstep::gemm {

struct MmaConfig {
  Major a = Major::K, b = Major::K;
  Output output = Output::BFloat16;
  bool bias = false;
  Activation activation = Activation::None;
  Side side = Side::None;
};

/// What a configuration for wgmma says of operands and epilogue.
MmaConfig getMmaConfig(const GemmConfig &config);

constexpr int mmaTile = 128; // rows and columns of D
constexpr int mmaTileK = 32; // of a stage
constexpr int mmaStages = 4;
constexpr int mmaThreads = 256;
constexpr int mmaOperandBytes = mmaTile * mmaTileK * 2;
constexpr int mmaSharedBytes = mmaStages * 2 * mmaOperandBytes;

/// Empty, or what is wrong with the configuration.
std::string checkConfig(const MmaConfig &config);

} // namespace lockstep::gemm

#endif
