// The one block of memory a rank computes in. Its size is known from the plan;
// nothing else is allocated for tensors during a run.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_ARENA_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_ARENA_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>

namespace lockstep::runtime {

class Arena {
public:
  /// Maps `bytes` of zeros, aligned to 2 MiB. With `poison` every byte is 0xff
  /// instead, a NaN in every floating type, so that a read of what was never
  /// written shows.
  static StatusOr<Arena> create(int64_t bytes, bool poison);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  std::byte *base() const { return start; }
  int64_t bytes() const { return size; }
  template <typename T> T *at(int64_t offset) const {
    return reinterpret_cast<T *>(start + offset);
  }
  /// Makes [offset, offset + bytes) zero. Large parts are given back to the
  /// system, which has zeros for them once they are touched.
  void clear(int64_t offset, int64_t bytes) const;
  /// The largest part of the arena that was ever touched, in bytes (resident
  /// pages now): what a run really took.
  int64_t residentBytes() const;

private:
  Arena() = default;
  void *mapping = nullptr;
  size_t mappingBytes = 0;
  std::byte *start = nullptr;
  int64_t size = 0;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_ARENA_H
