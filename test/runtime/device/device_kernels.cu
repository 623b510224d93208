// Kernels of the device suite for GPUs; device_kernels.c has the same for the
// host. A kernel knows its work items: elementCount, 8 to a thread.
#include <cstdint>

constexpr int64_t elementCount = 1000, perThread = 8;

template <typename Body> __device__ void forOwnItems(Body body) {
  int64_t begin = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * perThread;
  for (int64_t i = begin; i < begin + perThread && i < elementCount; ++i)
    body(i);
}

extern "C" __global__ void scale(const float *in, const float *factor,
                                 float *out) {
  forOwnItems([=](int64_t i) { out[i] = *factor * in[i]; });
}

extern "C" __global__ void accumulate(const float *in, float *out) {
  forOwnItems([=](int64_t i) { out[i] += in[i]; });
}

struct Chunk {
  uint32_t segment, zero;
  int64_t begin, end;
};

extern "C" __global__ void update(float *const *table, const Chunk *chunks) {
  Chunk chunk = chunks[blockIdx.x];
  float *parameter = table[2 * chunk.segment];
  const float *gradient = table[2 * chunk.segment + 1];
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x)
    parameter[i] -= gradient[i];
}
