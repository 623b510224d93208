// The host's processor and memory as a device.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_HOST_DEVICE_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_HOST_DEVICE_H

#include "runtime/device/device.h"
#include "runtime/device/host/arena.h"

#include <memory>

namespace lockstep::runtime {

class HostDevice final : public Device {
public:
  /// Maps the arena. Errors: the processor lacks x86-64-v3, or no memory.
  static StatusOr<std::unique_ptr<HostDevice>> create(int64_t arenaBytes,
                                                      bool poison);

  const Arena &arena() const { return memoryBlock; }

  std::string describe() const override;
  int64_t arenaBytes() const override { return memoryBlock.bytes(); }
  std::byte *hostArena() const override { return memoryBlock.base(); }
  Status write(int64_t offset, const void *source, int64_t bytes) override;
  Status read(int64_t offset, void *target, int64_t bytes) const override;
  /// In one piece, in place.
  Status fill(int64_t offset, int64_t bytes, const Edit &edit) override;
  Status finishFills() override { return Status::success(); }
  Status clear(int64_t offset, int64_t bytes) override;
  std::vector<MemoryLine> memory() const override;

private:
  explicit HostDevice(Arena arena) : memoryBlock(std::move(arena)) {}
  Arena memoryBlock;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_HOST_DEVICE_H
