#include "runtime/device/cuda/tensor_map.h"

#include <vector>

namespace lockstep::runtime::cuda {

static StatusOr<int> elementType(artifact::DType type) {
  switch (type) {
  case artifact::DType::F32:
    return tensorMapFloat32;
  case artifact::DType::BF16:
    return tensorMapBFloat16;
  default:
    return internalFault(std::string("no kernel copies tensors of ") +
                         artifact::EnumNameDType(type));
  }
}

/// CUtensorMapSwizzle.
static int swizzleOf(int bytes) {
  return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

StatusOr<TensorMap> encodeTensorMap(const Driver &api,
                                    const artifact::KernelParameterT &parameter,
                                    Address address) {
  LOCKSTEP_ASSIGN_OR_RETURN(int type, elementType(parameter.dtype));
  std::vector<uint64_t> dims(parameter.dims.begin(), parameter.dims.end());
  std::vector<uint64_t> strides(parameter.strides.begin(),
                                parameter.strides.end());
  std::vector<unsigned> box(parameter.box.begin(), parameter.box.end());
  std::vector<unsigned> steps(dims.size(), 1);
  TensorMap map = {};
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.tensorMapEncodeTiled(
          &map, type, unsigned(dims.size()), reinterpret_cast<void *>(address),
          dims.data(), strides.data(), box.data(), steps.data(),
          /*interleave=*/0, swizzleOf(parameter.swizzle), tensorMapPromote256,
          /*fill=*/0),
      "describing a tensor for the copy engine"));
  return map;
}

} // namespace lockstep::runtime::cuda
