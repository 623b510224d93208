#include "runtime/executor/cuda_parameters.h"

#include <algorithm>
#include <cstring>

namespace lockstep::runtime {

using artifact::ParameterKind;

/// Of each kernel's constants; tables are read 16 bytes at a time.
static constexpr int64_t alignment = 256;

StatusOr<CudaParameters> CudaParameters::create(const artifact::PlanT &plan,
                                                cuda::CudaDevice &device) {
  CudaParameters parameters;
  parameters.plan = &plan;
  parameters.api = &device.gpu().driver();
  LOCKSTEP_RETURN_IF_ERROR(parameters.fill(plan, device));
  return parameters;
}

Status CudaParameters::fill(const artifact::PlanT &plan,
                            cuda::CudaDevice &device) {
  std::vector<uint8_t> all;
  int64_t scratchBytes = 0;
  for (const auto &kernel : plan.kernels) {
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    constantOffsets.push_back(int64_t(all.size()));
    all.insert(all.end(), kernel->constants.begin(), kernel->constants.end());
    for (const auto &parameter : kernel->parameters)
      if (parameter->kind == ParameterKind::Scratch)
        scratchBytes =
            std::max(scratchBytes, parameter->offset + parameter->bytes);
  }
  const cuda::Gpu &gpu = device.gpu();
  if (!all.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        constants,
        cuda::Buffer::create(gpu, int64_t(all.size()), "kernels' constants"));
    LOCKSTEP_RETURN_IF_ERROR(
        api->check(api->memcpyHtoD(constants.address(), all.data(), all.size()),
                   "copying kernels' constants to the GPU"));
    device.addMemory({"kernels' constants", constants.bytes()});
  }
  if (!scratchBytes)
    return Status::success();
  LOCKSTEP_ASSIGN_OR_RETURN(
      scratch, cuda::Buffer::create(gpu, scratchBytes, "kernels' scratch"));
  device.addMemory({"kernels' scratch", scratchBytes});
  LOCKSTEP_RETURN_IF_ERROR(api->check(
      api->memsetD8Async(scratch.address(), 0, size_t(scratchBytes), nullptr),
      "clearing kernels' scratch"));
  return api->check(api->streamSynchronize(nullptr),
                    "clearing kernels' scratch");
}

template <typename T>
static void store(CudaParameter &parameter, const T &value) {
  static_assert(sizeof(T) <= sizeof(parameter.bytes));
  std::memcpy(parameter.bytes, &value, sizeof(T));
}

StatusOr<std::vector<CudaParameter>>
CudaParameters::resolve(uint32_t index,
                        const std::vector<cuda::Address> &operands) const {
  std::vector<CudaParameter> arguments;
  for (const auto &parameter : plan->kernels[index]->parameters) {
    CudaParameter &argument = arguments.emplace_back();
    auto operand = [&] {
      return operands[parameter->operand] +
             cuda::Address(parameter->byte_offset);
    };
    switch (parameter->kind) {
    case ParameterKind::Pointer:
      store(argument, operand());
      break;
    case ParameterKind::TensorMap: {
      LOCKSTEP_ASSIGN_OR_RETURN(
          cuda::TensorMap map,
          cuda::encodeTensorMap(*api, *parameter, operand()));
      store(argument, map);
      break;
    }
    case ParameterKind::Constant:
      store(argument,
            constants.address() +
                cuda::Address(constantOffsets[index] + parameter->offset));
      break;
    case ParameterKind::Scratch:
      store(argument, scratch.address() + cuda::Address(parameter->offset));
      break;
    case ParameterKind::Int32:
      store(argument, int32_t(parameter->value));
      break;
    case ParameterKind::Int64:
      store(argument, parameter->value);
      break;
    case ParameterKind::Float32:
      store(argument, parameter->real);
      break;
    case ParameterKind::Null:
      store(argument, cuda::Address(0));
      break;
    }
  }
  return arguments;
}

} // namespace lockstep::runtime
