// Kernels with parameter lists of their own (artifact.fbs, KernelParameter):
// what their launches pass, and the memory behind constants and scratch.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PARAMETERS_H
#define LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PARAMETERS_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/tensor_map.h"

#include <vector>

namespace lockstep::runtime {

/// One argument, as the launch copies it: a pointer, a number, or a tensor map.
struct alignas(64) CudaParameter {
  std::byte bytes[sizeof(cuda::TensorMap)] = {};
};

class CudaParameters {
public:
  /// Takes memory for the constants and the scratch of all kernels and fills
  /// it.
  static StatusOr<CudaParameters> create(const artifact::PlanT &plan,
                                         cuda::CudaDevice &device);

  /// The arguments of a launch of kernel `index` on operands at these
  /// addresses. Error: a tensor that the copy engine does not take.
  StatusOr<std::vector<CudaParameter>>
  resolve(uint32_t index, const std::vector<cuda::Address> &operands) const;

private:
  Status fill(const artifact::PlanT &plan, cuda::CudaDevice &device);

  const artifact::PlanT *plan = nullptr;
  const cuda::Driver *api = nullptr;
  std::vector<int64_t> constantOffsets; ///< of each kernel
  cuda::Buffer constants, scratch;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PARAMETERS_H
