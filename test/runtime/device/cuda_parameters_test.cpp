// What kernels with parameter lists of their own are given.
#include "runtime/executor/cuda_parameters.h"
#include "test/runtime/device/fake_driver.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using artifact::ParameterKind;

namespace {
/// A plan of kernels with one parameter each.
struct Plan {
  artifact::PlanT plan;

  artifact::KernelParameterT &add(ParameterKind kind,
                                  std::vector<uint8_t> constants = {}) {
    plan.kernels.push_back(std::make_unique<artifact::KernelT>());
    plan.kernels.back()->constants = std::move(constants);
    auto &parameters = plan.kernels.back()->parameters;
    parameters.push_back(std::make_unique<artifact::KernelParameterT>());
    parameters.back()->kind = kind;
    return *parameters.back();
  }
};

/// A fake GPU with a device on it.
struct Machine {
  Machine() {
    fakeGpu = FakeGpu();
    driver = fakeDriver();
    gpu = *cuda::Gpu::open(driver, 0);
    device = *cuda::CudaDevice::create(*gpu, 0, false);
  }
  cuda::Driver driver;
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<cuda::CudaDevice> device;
};
} // namespace

template <typename T> static T read(const CudaParameter &parameter) {
  T value;
  std::memcpy(&value, parameter.bytes, sizeof(T));
  return value;
}

TEST_CASE("pointers, numbers and nothing are passed as they are") {
  Machine machine;
  Plan plan;
  artifact::KernelParameterT &pointer = plan.add(ParameterKind::Pointer);
  pointer.operand = 1;
  pointer.byte_offset = 24;
  plan.add(ParameterKind::Int32).value = -7;
  plan.add(ParameterKind::Null);
  plan.add(ParameterKind::Int64).value = -3 * (int64_t(1) << 40);
  plan.add(ParameterKind::Float32).real = 0.125f;
  auto made = CudaParameters::create(plan.plan, *machine.device);
  REQUIRE(made.ok());
  std::vector<cuda::Address> operands{1000, 2000};
  CHECK(read<cuda::Address>((*made->resolve(0, operands))[0]) == 2024);
  CHECK(read<int32_t>((*made->resolve(1, operands))[0]) == -7);
  CHECK(read<cuda::Address>((*made->resolve(2, operands))[0]) == 0);
  CHECK(read<int64_t>((*made->resolve(3, operands))[0]) ==
        -3 * (int64_t(1) << 40));
  CHECK(read<float>((*made->resolve(4, operands))[0]) == 0.125f);
  CHECK(fakeGpu.copied.empty());
  CHECK(fakeGpu.cleared == 0);
}

TEST_CASE("constants lie 256 bytes apart, scratch is shared and cleared") {
  Machine machine;
  fakeGpu.address = 1 << 20;
  Plan plan;
  plan.add(ParameterKind::Constant, {1, 2, 3}).bytes = 3;
  artifact::KernelParameterT &second =
      plan.add(ParameterKind::Constant, {4, 5, 6});
  second.offset = 1;
  second.bytes = 2;
  plan.add(ParameterKind::Scratch).bytes = 100;
  artifact::KernelParameterT &last = plan.add(ParameterKind::Scratch);
  last.offset = 64;
  last.bytes = 50;
  auto made = CudaParameters::create(plan.plan, *machine.device);
  REQUIRE(made.ok());
  CHECK(fakeGpu.copied.substr(0, 3) == "\1\2\3");
  CHECK(fakeGpu.copied.substr(256, 3) == "\4\5\6");
  CHECK(fakeGpu.cleared == 114);
  auto address = [&](uint32_t kernel) {
    return read<cuda::Address>((*made->resolve(kernel, {}))[0]) - (1 << 20);
  };
  CHECK(address(0) == 0);
  CHECK(address(1) == 257);
  CHECK(address(2) == 0);
  CHECK(address(3) == 64);
}

TEST_CASE("tensor maps name the element type, extents, steps and swizzle") {
  Machine machine;
  Plan plan;
  artifact::KernelParameterT &map = plan.add(ParameterKind::TensorMap);
  map.dtype = artifact::DType::BF16;
  map.byte_offset = 32;
  map.dims = {768, 1024};
  map.strides = {1536};
  map.box = {64, 128};
  map.swizzle = 128;
  auto made = CudaParameters::create(plan.plan, *machine.device);
  REQUIRE(made.ok());
  auto arguments = made->resolve(0, {4096});
  REQUIRE(arguments.ok());
  auto encoded = read<cuda::TensorMap>((*arguments)[0]);
  unsigned long long expected[] = {9, 2, 4128, 768, 1024, 1536, 64, 128, 3};
  CHECK(std::memcmp(encoded.opaque, expected, sizeof(expected)) == 0);
  fakeGpu.mapResult = 1;
  CHECK(made->resolve(0, {4096}).status().what() ==
        "describing a tensor for the copy engine failed: CUDA_ERROR_FAKE "
        "(fake)");
  map.dtype = artifact::DType::I64;
  CHECK(made->resolve(0, {4096}).status().what() ==
        "no kernel copies tensors of I64");
}
