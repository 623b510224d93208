#include "runtime/device/host/host_device.h"
#include "runtime/device/host/cpu_features.h"

#include <cstring>

namespace lockstep::runtime {

StatusOr<std::unique_ptr<HostDevice>> HostDevice::create(int64_t arenaBytes,
                                                         bool poison) {
  // The library kernels and the runtime's own loops need this level.
  if (!cpuSupports("x86-64-v3"))
    return inputError("this processor is " + cpuLevel() +
                      ", but the runtime needs x86-64-v3 (AVX2 and FMA)");
  LOCKSTEP_ASSIGN_OR_RETURN(Arena arena, Arena::create(arenaBytes, poison));
  return std::unique_ptr<HostDevice>(new HostDevice(std::move(arena)));
}

std::string HostDevice::describe() const { return cpuLevel() + " processor"; }

Status HostDevice::write(int64_t offset, const void *source, int64_t bytes) {
  std::memcpy(memoryBlock.base() + offset, source, size_t(bytes));
  return Status::success();
}

Status HostDevice::read(int64_t offset, void *target, int64_t bytes) const {
  std::memcpy(target, memoryBlock.base() + offset, size_t(bytes));
  return Status::success();
}

Status HostDevice::fill(int64_t offset, int64_t bytes, const Edit &edit) {
  edit(memoryBlock.base() + offset, 0, bytes);
  return Status::success();
}

Status HostDevice::clear(int64_t offset, int64_t bytes) {
  memoryBlock.clear(offset, bytes);
  return Status::success();
}

std::vector<MemoryLine> HostDevice::memory() const {
  return {{"arena", memoryBlock.bytes()}};
}

} // namespace lockstep::runtime
