// A GPU as a device.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H

#include "runtime/device/cuda/upload.h"

namespace lockstep::runtime::cuda {

class CudaDevice final : public Device {
public:
  /// Takes the arena, filled with zeros or, poisoned, with 0xff. `gpu` must
  /// outlive the device. Error: not enough memory.
  static StatusOr<std::unique_ptr<CudaDevice>>
  create(const Gpu &gpu, int64_t arenaBytes, bool poison);

  const Gpu &gpu() const { return owner; }
  /// Where byte `offset` of the arena lies on the GPU.
  Address at(int64_t offset) const { return arena.address() + Address(offset); }

  std::string describe() const override { return owner.describe(); }
  int64_t arenaBytes() const override { return arena.bytes(); }
  std::byte *hostArena() const override { return nullptr; }
  Status write(int64_t offset, const void *source, int64_t bytes) override;
  Status read(int64_t offset, void *target, int64_t bytes) const override;
  /// In pieces, copied while the next one is made.
  Status fill(int64_t offset, int64_t bytes, const Edit &edit) override;
  Status finishFills() override;
  Status clear(int64_t offset, int64_t bytes) override;
  std::vector<MemoryLine> memory() const override { return lines; }

  /// Adds what an executor or a library holds beside the arena.
  void addMemory(MemoryLine line) {
    if (line.bytes)
      lines.push_back(std::move(line));
  }

private:
  explicit CudaDevice(const Gpu &gpu) : owner(gpu) {}
  Status setBytes(int64_t offset, int64_t bytes, unsigned char value,
                  const char *what);
  const Gpu &owner;
  Buffer arena;
  std::unique_ptr<Upload> upload; ///< while fills go on
  std::vector<MemoryLine> lines;
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H
