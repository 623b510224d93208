// The Gemm library kernel's attributes (README.md), for every device.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_GEMM_SHAPE_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_GEMM_SHAPE_H

#include "runtime/device/host/library/attributes.h"

#include <array>

namespace lockstep::runtime {

/// Strides in elements; `batch` goes with GemmShape::batch.
struct MatrixStrides {
  int64_t row = 1, column = 1;
  Ints batch;
};

/// c[batch, i, j] = alpha * sum_p a[batch, i, p] b[batch, p, j] + beta * c.
struct GemmShape {
  int64_t m = 1, n = 1, k = 1;
  Ints batch;
  MatrixStrides a, b, c;
  double alpha = 1, beta = 0;
  std::string dtype;  ///< of a and b
  std::string cDtype; ///< of c: dtype, or f32 when that is bf16
};

/// Reads and checks all attributes of a Gemm. Error: one that is unknown,
/// missing or impossible, a dtype that is none of `dtypes`.
StatusOr<GemmShape> readGemmShape(Attributes &attributes,
                                  const std::vector<std::string> &dtypes);

/// Elements from the first to the last one of a, b and c.
std::array<int64_t, 3> operandElements(const GemmShape &shape);

/// The innermost batch dimensions become more rows when b does not vary along
/// them, more columns when a does not, where the strides continue.
void foldBatch(GemmShape &shape);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_GEMM_SHAPE_H
