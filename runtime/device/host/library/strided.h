// Shapes with strides, and scratch memory of a thread.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_STRIDED_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_STRIDED_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::runtime {

/// Elements from the first to the last one that sizes and strides reach; 0 for
/// an empty shape. Strides are not negative.
inline int64_t extentOf(const std::vector<int64_t> &sizes,
                        const std::vector<int64_t> &strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i])
      return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

/// Row-major strides of a dense shape.
inline std::vector<int64_t> denseStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

/// At least `count` floats (or doubles, ...) of the calling thread, aligned to
/// 64 bytes, valid until the next call with the same slot.
void *threadScratch(int slot, size_t bytes);

template <typename T> T *threadScratchOf(int slot, int64_t count) {
  return static_cast<T *>(threadScratch(slot, size_t(count) * sizeof(T)));
}

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_STRIDED_H
