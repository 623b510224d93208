// Random operands and float64 references for gemm_bench.
//
// An operand's element is a function of its logical index alone, whatever its
// layout, so that one reference serves all layouts of a size. Padding holds
// NaN: whoever reads it spoils the result.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_DATA_CUH
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_DATA_CUH

#include "compiler/emit/nvptx/gemm/GemmConfig.h"

#include <cuda_bf16.h>

namespace bench {

using lockstep::gemm::Activation;
using lockstep::gemm::Output;
using lockstep::gemm::Side;
using bf16 = __nv_bfloat16;

/// A matrix, or a batch of them, in memory: element (row, column) is at
/// row * rowStride + column * columnStride, one of which is 1.
struct Matrix {
  void *data = nullptr;
  long rows = 0, columns = 0, batch = 1;
  long rowStride = 0, columnStride = 1, batchStride = 0;
  /// Elements in memory, padding included.
  long size() const { return batch * batchStride; }
  __host__ __device__ long at(long b, long row, long column) const {
    return b * batchStride + row * rowStride + column * columnStride;
  }
};

__host__ __device__ inline unsigned hash(unsigned long long x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return unsigned(x ^ (x >> 33));
}

/// A normally distributed number for an index.
__device__ inline float randomNormal(unsigned long long index,
                                     unsigned long long seed) {
  float u = (hash(index * 2 + seed) + 1.0f) * 2.3283064e-10f;
  float v = hash(index * 2 + 1 + seed) * 2.3283064e-10f;
  return sqrtf(-2 * logf(fminf(u, 1.0f))) * cospif(2 * v);
}

template <typename T>
__global__ void fillRandom(Matrix matrix, unsigned long long seed,
                           float scale) {
  long count = matrix.batch * matrix.rows * matrix.columns;
  long step = long(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    // The contiguous index runs fastest.
    long inner = matrix.rowStride == 1 ? matrix.rows : matrix.columns;
    long outer = matrix.rowStride == 1 ? matrix.columns : matrix.rows;
    long x = i % inner, y = i / inner % outer, b = i / inner / outer;
    long row = matrix.rowStride == 1 ? x : y;
    long column = matrix.rowStride == 1 ? y : x;
    long logical = (b * matrix.rows + row) * matrix.columns + column;
    static_cast<T *>(matrix.data)[matrix.at(b, row, column)] =
        T(scale * randomNormal(logical, seed));
  }
}

/// What an epilogue makes of a sum.
struct EpilogueKind {
  bool bias;
  Activation activation;
  Side side;
  Output output;
};

__device__ inline double activate(Activation kind, double x) {
  switch (kind) {
  case Activation::Gelu:
    return x * normcdf(x);
  case Activation::GeluTanh:
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  case Activation::Relu:
    return x > 0 ? x : 0;
  case Activation::Silu:
    return x / (1 + exp(-x));
  default:
    return x;
  }
}

__device__ inline double activationGradient(Activation kind, double x) {
  switch (kind) {
  case Activation::Gelu:
    return normcdf(x) + x * 0.3989422804014327 * exp(-0.5 * x * x);
  case Activation::GeluTanh: {
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 *
                               (1 + 3 * 0.044715 * x * x);
  }
  case Activation::Relu:
    return x > 0 ? 1 : 0;
  case Activation::Silu: {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
  }
  default:
    return 1;
  }
}

/// D's value for a sum; `saved` is the value before the activation.
__device__ inline double applyEpilogue(const EpilogueKind &kind, double sum,
                                       double bias, double side, double old,
                                       double &saved) {
  saved = kind.bias ? sum + bias : sum;
  if (kind.side == Side::ActivationGradient)
    return saved * activationGradient(kind.activation, side);
  double value = activate(kind.activation, saved);
  if (kind.side == Side::AddResidual)
    value += side;
  if (kind.output == Output::Float32Accumulate)
    value += old;
  return value;
}

/// The sums of a product in float64, every element.
__global__ void multiplyReference(Matrix a, Matrix b, long k, double *sums) {
  long column = blockIdx.x * long(blockDim.x) + threadIdx.x;
  long row = blockIdx.y, batch = blockIdx.z;
  if (column >= b.columns)
    return;
  const bf16 *left = static_cast<const bf16 *>(a.data);
  const bf16 *right = static_cast<const bf16 *>(b.data);
  double sum = 0;
  for (long i = 0; i < k; ++i)
    sum += double(__bfloat162float(left[a.at(batch, row, i)])) *
           double(__bfloat162float(right[b.at(batch, i, column)]));
  sums[(batch * a.rows + row) * b.columns + column] = sum;
}

/// Tensors of one run.
struct Operands {
  Matrix a, b, d, side, old;
  const bf16 *bias;
};

/// What a comparison found, of D and of the saved tensor.
struct Errors {
  double difference[2], norm[2];
  double notNumbers;
  /// Written although outside the matrix.
  double outside;
};

__device__ inline float readElement(const Matrix &matrix, bool isFloat32,
                                    long index) {
  return isFloat32
             ? static_cast<const float *>(matrix.data)[index]
             : __bfloat162float(static_cast<const bf16 *>(matrix.data)[index]);
}

__device__ inline void addError(Errors &errors, int which, double value,
                                double expected) {
  if (value != value) {
    errors.notNumbers += 1;
    return;
  }
  errors.difference[which] += (value - expected) * (value - expected);
  errors.norm[which] += expected * expected;
}

__device__ inline void compareElement(const Operands &operands,
                                      const EpilogueKind &kind, long batch,
                                      long row, long column, double sum,
                                      Errors &errors) {
  long at = operands.d.at(batch, row, column);
  double bias = kind.bias ? __bfloat162float(operands.bias[column]) : 0;
  double side =
      kind.side == Side::None ? 0 : readElement(operands.side, false, at);
  bool accumulates = kind.output == Output::Float32Accumulate;
  double old = accumulates ? readElement(operands.old, true, at) : 0;
  double saved;
  double value = applyEpilogue(kind, sum, bias, side, old, saved);
  bool isFloat32 = kind.output != Output::BFloat16;
  addError(errors, 0, readElement(operands.d, isFloat32, at), value);
  if (kind.side == Side::SavePreactivation)
    addError(errors, 1, side, saved);
}

__device__ inline void mergeErrors(Errors *total, const Errors &errors) {
  for (int i = 0; i < 2; ++i) {
    atomicAdd(&total->difference[i], errors.difference[i]);
    atomicAdd(&total->norm[i], errors.norm[i]);
  }
  atomicAdd(&total->notNumbers, errors.notNumbers);
  atomicAdd(&total->outside, errors.outside);
}

/// Every element of D against the reference's sums. Padding past the last 16
/// bytes of a row must be NaN still.
__global__ void compareAll(Operands operands, EpilogueKind kind,
                           const double *sums, Errors *total) {
  const Matrix &d = operands.d;
  bool isFloat32 = kind.output != Output::BFloat16;
  Errors errors = {};
  long step = long(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
       i < d.batch * d.rows * d.rowStride; i += step) {
    long column = i % d.rowStride, row = i / d.rowStride % d.rows;
    long batch = i / d.rowStride / d.rows;
    if (column < d.columns) {
      double sum = sums[(batch * d.rows + row) * d.columns + column];
      compareElement(operands, kind, batch, row, column, sum, errors);
      continue;
    }
    long granule = isFloat32 ? 4 : 8;
    float value = readElement(d, isFloat32, d.at(batch, row, column));
    if (column >= (d.columns + granule - 1) / granule * granule)
      errors.outside += value == value;
  }
  mergeErrors(total, errors);
}

/// Some elements of D, each against a float64 sum; one block an element. The
/// first ones are in the corners.
__global__ void compareSamples(Operands operands, EpilogueKind kind, long k,
                               unsigned long long seed, Errors *total) {
  const Matrix &d = operands.d;
  int sample = blockIdx.x;
  long row = hash(seed + 3 * sample) % d.rows;
  long column = hash(seed + 3 * sample + 1) % d.columns;
  long batch = hash(seed + 3 * sample + 2) % d.batch;
  if (sample < 64) {
    row = min(d.rows - 1, long(sample >> 2));
    column = min(d.columns - 1, long(sample >> 2));
    row = sample & 1 ? d.rows - 1 - row : row;
    column = sample & 2 ? d.columns - 1 - column : column;
  }
  const bf16 *left = static_cast<const bf16 *>(operands.a.data);
  const bf16 *right = static_cast<const bf16 *>(operands.b.data);
  __shared__ double sums[128];
  double sum = 0;
  for (long i = threadIdx.x; i < k; i += blockDim.x)
    sum += double(__bfloat162float(left[operands.a.at(batch, row, i)])) *
           double(__bfloat162float(right[operands.b.at(batch, i, column)]));
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half; half >>= 1) {
    if (threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x)
    return;
  Errors errors = {};
  compareElement(operands, kind, batch, row, column, sums[0], errors);
  mergeErrors(total, errors);
}

/// Column sums: each column's lines added up, against the reference's column.
__global__ void compareColumnSums(Operands operands, EpilogueKind kind,
                                  const double *sums, const float *lines,
                                  long lineCount, Errors *total) {
  const Matrix &d = operands.d;
  long column = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (column >= d.columns)
    return;
  double value = 0, expected = 0, saved;
  for (long line = 0; line < lineCount; ++line)
    value += lines[line * d.columns + column];
  for (long row = 0; row < d.rows; ++row) {
    double side = kind.side == Side::None
                      ? 0
                      : readElement(operands.side, false, d.at(0, row, column));
    expected +=
        applyEpilogue(kind, sums[row * d.columns + column], 0, side, 0, saved);
  }
  Errors errors = {};
  addError(errors, 0, value, expected);
  mergeErrors(total, errors);
}

/// Two arrays of bf16, element by element.
__global__ void compareArrays(const bf16 *values, const bf16 *expected,
                              long count, Errors *total) {
  Errors errors = {};
  long step = long(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += step)
    addError(errors, 0, __bfloat162float(values[i]),
             __bfloat162float(expected[i]));
  mergeErrors(total, errors);
}

} // namespace bench

#endif
