// Descriptors for the tensor copy engine of sm_90 and newer.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_TENSOR_MAP_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_TENSOR_MAP_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/device/cuda/driver.h"

namespace lockstep::runtime::cuda {

/// The descriptor that a parameter of kind TensorMap asks for, of the tensor
/// at `address`. Errors: an element type that no kernel copies; what the driver
/// refuses (an address or stride that is no multiple of 16 bytes, a box of more
/// than 256).
StatusOr<TensorMap> encodeTensorMap(const Driver &api,
                                    const artifact::KernelParameterT &parameter,
                                    Address address);

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_TENSOR_MAP_H
