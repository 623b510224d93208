// Single-precision matrix products by whichever library is faster for the
// shape: oneDNN's generated code for small products and for short sums,
// OpenBLAS for the rest (measured on AVX2). The choice depends on the shape
// alone.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_SGEMM_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_SGEMM_H

#include <cstdint>

namespace lockstep::runtime {

enum class Transposed : bool { No, Yes };

/// c = alpha op(a) op(b) + beta c, row-major: op(a) is m x k, op(b) k x n.
/// Leading dimensions are row strides as stored. c is not read when beta is 0.
void sgemm(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k,
           float alpha, const float *a, int64_t lda, const float *b,
           int64_t ldb, float beta, float *c, int64_t ldc);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_SGEMM_H
