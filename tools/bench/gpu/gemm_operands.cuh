// The tensors of one run of a GEMM kernel, for gemm_bench.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_OPERANDS_CUH
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_OPERANDS_CUH

#include "tools/bench/gpu/gemm_launch.h"

#include <chrono>
#include <cmath>
#include <thread>

namespace bench {

/// A matrix whose contiguous index is padded to 16 bytes and `padding` more.
inline Matrix makeMatrix(long rows, long columns, long batch, bool rowsInside,
                         int elementBytes, long padding) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.batch = batch;
  long step = 16 / elementBytes;
  long inner = rowsInside ? rows : columns;
  long leading = (inner + step - 1) / step * step + padding * step;
  matrix.rowStride = rowsInside ? 1 : leading;
  matrix.columnStride = rowsInside ? leading : 1;
  matrix.batchStride = leading * (rowsInside ? columns : rows);
  matrix.data = allocate<char>(matrix.size() * elementBytes);
  return matrix;
}

/// Numbers of one tensor are far from those of another.
inline unsigned long long getSeed(unsigned long long seed, int tensor) {
  return (seed * 8 + tensor) * 0x9E3779B97F4A7C15ULL;
}

inline Operands makeOperands(const GemmConfig &config, const GemmSize &size,
                             unsigned long long seed, long padding) {
  Operands set = {};
  int bytes = getOutputBytes(config);
  set.a = makeMatrix(size.m, size.k, size.batch, config.a == Major::Outer, 2,
                     padding);
  set.b =
      makeMatrix(size.k, size.n, size.batch, config.b == Major::K, 2, padding);
  set.d = makeMatrix(size.m, size.n, size.batch, false, bytes, padding);
  fillRandom<bf16><<<2048, 256>>>(set.a, getSeed(seed, 0), 1);
  fillRandom<bf16><<<2048, 256>>>(set.b, getSeed(seed, 1), 1 / sqrtf(size.k));
  if (config.side != Side::None)
    set.side = makeMatrix(size.m, size.n, size.batch, false, 2, padding);
  if (readsSide(config))
    fillRandom<bf16><<<2048, 256>>>(set.side, getSeed(seed, 2), 1);
  if (config.output == Output::Float32Accumulate) {
    set.old = makeMatrix(size.m, size.n, size.batch, false, bytes, padding);
    fillRandom<float><<<2048, 256>>>(set.old, getSeed(seed, 3), 1);
  }
  // Just N elements: reads past the end are the memory checker's to find.
  Matrix bias = {};
  bias.rows = 1;
  bias.columns = bias.rowStride = bias.batchStride = size.n;
  bias.data = allocate<bf16>(size.n);
  fillRandom<bf16><<<16, 256>>>(bias, getSeed(seed, 4), 0.5f);
  set.bias = static_cast<const bf16 *>(bias.data);
  CHECK_CUDA(cudaGetLastError());
  return set;
}

inline void release(const Operands &set) {
  for (const Matrix *matrix : {&set.a, &set.b, &set.d, &set.side, &set.old})
    cudaFree(matrix->data);
  cudaFree(const_cast<bf16 *>(set.bias));
}

inline EpilogueKind getKind(const GemmConfig &config) {
  return {config.bias, config.activation, config.side, config.output};
}

/// Outputs to NaN, or to what is accumulated into.
inline void poison(const GemmConfig &config, const Operands &set) {
  long bytes = set.d.size() * getOutputBytes(config);
  if (set.old.data)
    CHECK_CUDA(
        cudaMemcpy(set.d.data, set.old.data, bytes, cudaMemcpyDeviceToDevice));
  else
    CHECK_CUDA(cudaMemset(set.d.data, 0xff, bytes));
  if (config.side == Side::SavePreactivation)
    CHECK_CUDA(cudaMemset(set.side.data, 0xff, set.side.size() * 2));
}

/// Waits; a kernel that runs for seconds hangs.
inline void synchronize(const std::string &label) {
  CHECK_CUDA(cudaGetLastError());
  auto start = std::chrono::steady_clock::now();
  for (cudaError_t state; (state = cudaStreamQuery(nullptr));) {
    if (state != cudaErrorNotReady)
      fail(label.c_str(), cudaGetErrorString(state), __LINE__);
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20))
      fail(label.c_str(), "it hangs", __LINE__);
    std::this_thread::yield();
  }
}

inline double getError(const Errors &errors, int which) {
  return errors.norm[which] > 0
             ? std::sqrt(errors.difference[which] / errors.norm[which])
             : 0;
}

} // namespace bench

#endif
