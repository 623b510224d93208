#include "runtime/device/cuda/cuda_device.h"

namespace lockstep::runtime::cuda {

StatusOr<std::unique_ptr<CudaDevice>>
CudaDevice::create(const Gpu &gpu, int64_t arenaBytes, bool poison) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(gpu));
  LOCKSTEP_ASSIGN_OR_RETURN(device->arena,
                            Buffer::create(gpu, arenaBytes, "the arena"));
  device->lines.push_back({"arena", arenaBytes});
  if (!arenaBytes)
    return device;
  const Driver &api = gpu.driver();
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(api.memsetD8Async(device->at(0), poison ? 0xff : 0,
                                  size_t(arenaBytes), nullptr),
                "filling the arena"));
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(api.streamSynchronize(nullptr), "filling the arena"));
  return device;
}

Status CudaDevice::write(int64_t offset, const void *source, int64_t bytes) {
  if (!bytes)
    return Status::success();
  const Driver &api = owner.driver();
  return api.check(api.memcpyHtoD(at(offset), source, size_t(bytes)),
                   "copying to the GPU");
}

Status CudaDevice::read(int64_t offset, void *target, int64_t bytes) const {
  if (!bytes)
    return Status::success();
  const Driver &api = owner.driver();
  return api.check(api.memcpyDtoH(target, at(offset), size_t(bytes)),
                   "copying from the GPU");
}

} // namespace lockstep::runtime::cuda
