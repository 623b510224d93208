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
  LOCKSTEP_RETURN_IF_ERROR(
      device->setBytes(0, arenaBytes, poison ? 0xff : 0, "filling the arena"));
  return device;
}

Status CudaDevice::setBytes(int64_t offset, int64_t bytes, unsigned char value,
                            const char *what) {
  const Driver &api = owner.driver();
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.memsetD8Async(at(offset), value, size_t(bytes), nullptr), what));
  return api.check(api.streamSynchronize(nullptr), what);
}

Status CudaDevice::clear(int64_t offset, int64_t bytes) {
  if (!bytes)
    return Status::success();
  return setBytes(offset, bytes, 0, "clearing memory of the GPU");
}

Status CudaDevice::fill(int64_t offset, int64_t bytes, const Edit &edit) {
  if (!upload) {
    LOCKSTEP_ASSIGN_OR_RETURN(upload, Upload::create(owner));
  }
  return upload->send(at(offset), bytes, edit);
}

Status CudaDevice::finishFills() {
  if (!upload)
    return Status::success();
  Status status = upload->finish();
  upload.reset();
  return status;
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
