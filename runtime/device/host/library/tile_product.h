// Products of f32 matrices on AMX tiles. A number is the exact sum of three of
// type bf16 (8 of its 24 bits each), and of the nine products of their parts
// the six largest are added in f32: what is left out is below half a unit in
// the last place of each product, so the error is that of f32 arithmetic
// (Henry, Tang, Heinecke: "Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations", 2019, with three parts).
// Deviations: an infinite operand gives NaN, and numbers below 2^-102 lose
// their last bits, since the tiles take and give no subnormal numbers.
//
// Operands are given by tables of offsets, so that strides, transposes and the
// windows of a convolution are the same to it. The order of additions depends
// on the shape alone, not on threads.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_PRODUCT_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_PRODUCT_H

#include "runtime/device/host/library/tile_kernels.h"

#include <vector>

namespace lockstep::runtime {

/// Offsets (in elements) of a dimension's positions, padded with the last one
/// to whole blocks of 16.
class Offsets {
public:
  Offsets() = default;
  explicit Offsets(std::vector<int32_t> values);
  /// i * stride for i in [0, count).
  static Offsets strided(int64_t count, int64_t stride);

  int64_t size() const { return count; }
  TileOffsets view() const {
    return {values.data(), steps.data(), runs.data(), count};
  }

private:
  int64_t count = 0;
  std::vector<int32_t> values, steps, runs;
};

/// c[cRows[i] + cColumns[j]] = alpha * sum over p of
/// a[aRows[i] + aSums[p]] * b[bColumns[j] + bSums[p]] + beta * c[...]; c is not
/// read when beta is 0.
struct TileProduct {
  Offsets aRows, aSums, bColumns, bSums, cRows, cColumns;
  float alpha = 1, beta = 0;

  void run(const float *a, const float *b, float *c) const;
};

/// Whether this processor has the tiles, and the system lets us use them.
bool hasTiles();

/// Nanoseconds that a product takes on one core, at rates that were measured:
/// on tiles, and with AVX-512 in a library. `perElement` is the cost of
/// splitting an element of the first factor.
double tileNanoseconds(int64_t m, int64_t n, int64_t k,
                       double perElement = 0.4);
double vectorNanoseconds(int64_t m, int64_t n, int64_t k);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_PRODUCT_H
