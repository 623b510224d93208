// Where a rank computes: the owner of its arena. The host and a CUDA GPU are
// the two kinds; everything that touches tensors from outside a program (first
// values, checkpoints, inspection) goes through here, so that the host works in
// place and a GPU copies.
#ifndef LOCKSTEP_RUNTIME_DEVICE_DEVICE_H
#define LOCKSTEP_RUNTIME_DEVICE_DEVICE_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// Bytes that a device holds for a purpose: the arena, or what a library needs
/// beside it.
struct MemoryLine {
  std::string purpose;
  int64_t bytes = 0;
};

class Device {
public:
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// "x86-64-v3", "GPU 0 (NVIDIA H200, sm_90)".
  virtual std::string describe() const = 0;

  virtual int64_t arenaBytes() const = 0;

  /// The arena's first byte when the host's instructions reach it; null when
  /// read and write are the only way.
  virtual std::byte *hostArena() const = 0;

  /// Copies between host memory and [offset, offset + bytes) of the arena;
  /// done when they return. Error: a fault of the device.
  virtual Status write(int64_t offset, const void *source, int64_t bytes) = 0;
  virtual Status read(int64_t offset, void *target, int64_t bytes) const = 0;

  /// Gives [offset, offset + bytes) of the arena values. `edit` gets them in
  /// pieces, from the front: memory for the bytes [begin, end) of them. They
  /// are there after finishFills. Error: a fault of the device.
  using Edit = std::function<void(std::byte *, int64_t begin, int64_t end)>;
  virtual Status fill(int64_t offset, int64_t bytes, const Edit &edit) = 0;

  /// Ends a series of fills: all bytes are in their places, and nothing is held
  /// for fills any more.
  virtual Status finishFills() = 0;

  /// [offset, offset + bytes) of the arena become zero.
  virtual Status clear(int64_t offset, int64_t bytes) = 0;

  /// What it holds, the arena first.
  virtual std::vector<MemoryLine> memory() const = 0;

protected:
  Device() = default;
};

/// The bytes [offset, offset + bytes) of a device's arena, for reading: the
/// arena itself on the host, else `copy`, which then holds them.
inline StatusOr<const std::byte *> viewOf(const Device &device, int64_t offset,
                                          int64_t bytes,
                                          std::vector<std::byte> &copy) {
  if (const std::byte *arena = device.hostArena())
    return arena + offset;
  copy.resize(size_t(bytes));
  LOCKSTEP_RETURN_IF_ERROR(device.read(offset, copy.data(), bytes));
  return static_cast<const std::byte *>(copy.data());
}

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_DEVICE_H
