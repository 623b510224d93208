//===- KernelLaunch.h - Kernels with their own parameters -------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_KERNELLAUNCH_H
#define LOCKSTEP_COMPILER_EMIT_KERNELLAUNCH_H

#include "runtime/artifact/artifact_generated.h"
#include <memory>
#include <vector>

namespace lockstep::emit {

/// What the launch of a CUDA kernel takes besides threads and shared memory
/// where its arguments are not one pointer per operand; the fields are those of
/// the artifact's Kernel (artifact.fbs).
struct KernelLaunch {
  std::vector<std::unique_ptr<artifact::KernelParameterT>> parameters;
  std::vector<uint8_t> constants;
  uint32_t grid = 0, cluster = 0;
  bool overlap = false;
};

} // namespace lockstep::emit

#endif
