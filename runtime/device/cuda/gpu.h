// One GPU: its primary context, what it can do, and the objects made in it.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_GPU_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_GPU_H

#include "runtime/device/cuda/driver.h"

#include <memory>
#include <vector>

namespace lockstep::runtime::cuda {

class Gpu {
public:
  /// Opens GPU `localRank` modulo the GPUs that the driver shows, and makes its
  /// context current for the calling thread. Errors: the driver does not start,
  /// there is no GPU.
  static StatusOr<std::unique_ptr<Gpu>> open(const Driver &driver,
                                             int localRank);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  const Driver &driver() const { return api; }
  int number() const { return device; }
  /// 90 for compute capability 9.0.
  int capability() const { return major * 10 + minor; }
  /// "GPU 0 (NVIDIA H200, sm_90)".
  std::string describe() const;
  int driverVersion() const { return version; }

  /// Bytes per second of its memory, f32 operations per second outside the
  /// tensor cores and bf16 operations per second in them (dense), from the
  /// clocks and widths that the driver reports.
  double peakBytes() const { return bytesPerSecond; }
  double peakFlops() const { return flopsPerSecond; }
  double peakTensorFlops() const { return tensorFlopsPerSecond; }

private:
  explicit Gpu(const Driver &driver) : api(driver) {}
  Status open(int localRank);
  Status readProperties();

  const Driver &api;
  DeviceNumber device = 0;
  Context context = nullptr;
  std::string name;
  int major = 0, minor = 0, version = 0;
  double bytesPerSecond = 0, flopsPerSecond = 0, tensorFlopsPerSecond = 0;
};

/// A block of the GPU's memory.
class Buffer {
public:
  /// Error: not enough is free; the text says how much was asked for, for what
  /// purpose, and how much there is.
  static StatusOr<Buffer> create(const Gpu &gpu, int64_t bytes,
                                 const std::string &purpose);
  Buffer() = default;
  Buffer(Buffer &&other) noexcept { *this = std::move(other); }
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();

  Address address() const { return start; }
  int64_t bytes() const { return size; }

private:
  const Driver *api = nullptr;
  Address start = 0;
  int64_t size = 0;
};

/// Host memory that the GPU copies from and to by itself.
class PinnedBuffer {
public:
  static StatusOr<PinnedBuffer> create(const Gpu &gpu, int64_t bytes);
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer &&other) noexcept { *this = std::move(other); }
  PinnedBuffer &operator=(PinnedBuffer &&other) noexcept;
  ~PinnedBuffer();

  std::byte *data() const { return start; }
  int64_t bytes() const { return size; }

private:
  const Driver *api = nullptr;
  std::byte *start = nullptr;
  int64_t size = 0;
};

class Stream {
public:
  static StatusOr<Stream> create(const Gpu &gpu);
  Stream() = default;
  Stream(Stream &&other) noexcept { *this = std::move(other); }
  Stream &operator=(Stream &&other) noexcept;
  ~Stream();
  StreamHandle handle() const { return stream; }

private:
  const Driver *api = nullptr;
  StreamHandle stream = nullptr;
};

class Event {
public:
  static StatusOr<Event> create(const Gpu &gpu, bool timing);
  Event() = default;
  Event(Event &&other) noexcept { *this = std::move(other); }
  Event &operator=(Event &&other) noexcept;
  ~Event();
  EventHandle handle() const { return event; }

private:
  const Driver *api = nullptr;
  EventHandle event = nullptr;
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_GPU_H
