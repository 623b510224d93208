//===- LaunchParameters.h - What launches of kernels pass -------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_LAUNCHPARAMETERS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_LAUNCHPARAMETERS_H

#include "compiler/emit/KernelLaunch.h"
#include "compiler/emit/nvptx/gemm/GemmLaunch.h"
#include <algorithm>

namespace lockstep::emit {

/// The scratch memory that the kernels of one artifact share, one launch after
/// the other: counters, which every kernel leaves zero, in front of what may
/// hold anything.
struct ScratchLayout {
  int64_t counterBytes = 0;

  void includeCounters(int64_t bytes) {
    counterBytes = std::max(counterBytes, bytes);
  }
  /// Where what need not be zero begins.
  int64_t getWorkspaceOffset() const {
    return (counterBytes + 1023) / 1024 * 1024;
  }
};

/// A tensor map of a bf16 or f32 tensor.
void describeMap(const gemm::TensorMapShape &map,
                 artifact::KernelParameterT &parameter);

} // namespace lockstep::emit

#endif
