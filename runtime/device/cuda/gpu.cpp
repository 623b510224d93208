#include "runtime/device/cuda/gpu.h"

#include <utility>

namespace lockstep::runtime::cuda {

StatusOr<std::unique_ptr<Gpu>> Gpu::open(const Driver &driver, int localRank) {
  std::unique_ptr<Gpu> gpu(new Gpu(driver));
  LOCKSTEP_RETURN_IF_ERROR(gpu->open(localRank));
  return gpu;
}

Status Gpu::open(int localRank) {
  Result started = api.init(0);
  int count = 0;
  if (started == success)
    started = api.deviceGetCount(&count);
  if (started == noDevice || (started == success && !count))
    return inputError("the CUDA driver shows no GPU")
        .remedy("run on a machine with an NVIDIA GPU (CUDA_VISIBLE_DEVICES can "
                "hide them), or compile with --target x86-64-v3");
  if (started != success)
    return inputError("the CUDA driver does not start: " +
                      api.describe(started))
        .remedy("see whether nvidia-smi works");
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(api.deviceGet(&device, localRank % count), "cuDeviceGet"));
  LOCKSTEP_RETURN_IF_ERROR(readProperties());
  Result result = api.primaryContextRetain(&context, device);
  if (result != success)
    context = nullptr;
  if (result == outOfMemory)
    return inputError("no memory is free for a context on " + describe())
        .remedy("end other programs on this GPU");
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(result, "making a context on " + describe()));
  return api.check(api.contextSetCurrent(context), "cuCtxSetCurrent");
}

/// Lanes of f32 arithmetic per multiprocessor: CUDA C++ Programming Guide,
/// "Arithmetic Instructions", results per clock cycle for 32-bit add, multiply
/// and multiply-add.
static int lanesOf(int major, int minor) {
  return major == 8 && minor == 0 ? 64 : 128;
}

/// Dense bf16 operations per clock of a multiprocessor's tensor cores: NVIDIA's
/// architecture papers (A100: 312 TFLOP/s on 108 at 1.41 GHz; H100: 989 on 132
/// at 1.83; B200: 2250 on 148 at 1.85).
static int tensorFlopsOf(int major, int minor) {
  return major >= 10 && major < 12  ? 8192
         : major == 9               ? 4096
         : major == 8 && minor == 0 ? 2048
                                    : 1024;
}

Status Gpu::readProperties() {
  char text[256] = "";
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.deviceGetName(text, sizeof(text), device), "cuDeviceGetName"));
  name = text;
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(api.driverGetVersion(&version), "cuDriverGetVersion"));
  int clock = 0, units = 0, memoryClock = 0, width = 0;
  const std::pair<DeviceAttribute, int *> attributes[] = {
      {computeCapabilityMajor, &major},
      {computeCapabilityMinor, &minor},
      {clockRate, &clock},
      {multiprocessorCount, &units},
      {memoryClockRate, &memoryClock},
      {memoryBusWidth, &width}};
  for (auto [attribute, target] : attributes)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.deviceGetAttribute(target, attribute, device),
                  "cuDeviceGetAttribute"));
  bytesPerSecond = 2e3 * memoryClock * width / 8; // double data rate
  flopsPerSecond = 2e3 * clock * units * lanesOf(major, minor);
  tensorFlopsPerSecond = 1e3 * clock * units * tensorFlopsOf(major, minor);
  return Status::success();
}

Gpu::~Gpu() {
  if (context)
    api.primaryContextRelease(device);
}

std::string Gpu::describe() const {
  return "GPU " + std::to_string(device) + " (" + name + ", sm_" +
         std::to_string(capability()) + ")";
}

StatusOr<Buffer> Buffer::create(const Gpu &gpu, int64_t bytes,
                                const std::string &purpose) {
  Buffer buffer;
  if (!bytes)
    return buffer;
  const Driver &api = gpu.driver();
  Result result = api.memAlloc(&buffer.start, size_t(bytes));
  if (result == outOfMemory) {
    size_t available = 0, total = 0;
    api.memGetInfo(&available, &total);
    return inputError("cannot take " + std::to_string(bytes) + " bytes for " +
                      purpose + " on " + gpu.describe() + ": " +
                      std::to_string(available) + " of " +
                      std::to_string(total) + " bytes are free")
        .remedy("end other programs on this GPU, or compile for more ranks or "
                "a smaller batch");
  }
  LOCKSTEP_RETURN_IF_ERROR(api.check(result, "cuMemAlloc for " + purpose));
  buffer.api = &api;
  buffer.size = bytes;
  return buffer;
}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(api, other.api);
  std::swap(start, other.start);
  std::swap(size, other.size);
  return *this;
}

Buffer::~Buffer() {
  if (api)
    api->memFree(start);
}

StatusOr<PinnedBuffer> PinnedBuffer::create(const Gpu &gpu, int64_t bytes) {
  PinnedBuffer buffer;
  if (!bytes)
    return buffer;
  const Driver &api = gpu.driver();
  void *memory = nullptr;
  if (api.memHostAlloc(&memory, size_t(bytes), 0) != success)
    return inputError("cannot take " + std::to_string(bytes) +
                      " bytes of page-locked host memory")
        .remedy("free memory, or raise the limit (ulimit -l)");
  buffer.api = &api;
  buffer.start = static_cast<std::byte *>(memory);
  buffer.size = bytes;
  return buffer;
}

PinnedBuffer &PinnedBuffer::operator=(PinnedBuffer &&other) noexcept {
  std::swap(api, other.api);
  std::swap(start, other.start);
  std::swap(size, other.size);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (api)
    api->memFreeHost(start);
}

StatusOr<Stream> Stream::create(const Gpu &gpu) {
  Stream result;
  LOCKSTEP_RETURN_IF_ERROR(gpu.driver().check(
      gpu.driver().streamCreate(&result.stream, streamNonBlocking),
      "cuStreamCreate"));
  result.api = &gpu.driver();
  return result;
}

Stream &Stream::operator=(Stream &&other) noexcept {
  std::swap(api, other.api);
  std::swap(stream, other.stream);
  return *this;
}

Stream::~Stream() {
  if (api)
    api->streamDestroy(stream);
}

StatusOr<Event> Event::create(const Gpu &gpu, bool timing) {
  Event result;
  LOCKSTEP_RETURN_IF_ERROR(gpu.driver().check(
      gpu.driver().eventCreate(&result.event,
                               timing ? eventDefault : eventDisableTiming),
      "cuEventCreate"));
  result.api = &gpu.driver();
  return result;
}

Event &Event::operator=(Event &&other) noexcept {
  std::swap(api, other.api);
  std::swap(event, other.event);
  return *this;
}

Event::~Event() {
  if (api)
    api->eventDestroy(event);
}

} // namespace lockstep::runtime::cuda
