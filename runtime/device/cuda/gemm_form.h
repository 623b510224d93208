// A Gemm in the terms of cuBLAS: column-major matrices with one leading
// dimension, one batch with a stride. Pure arithmetic, so that it is tested
// where there is no GPU.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_FORM_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_FORM_H

#include "runtime/device/host/library/gemm_shape.h"

namespace lockstep::runtime::cuda {

/// A matrix as it is stored, column-major: element (i, j) at i + j * leading.
struct StoredMatrix {
  int64_t rows = 0, columns = 0, leading = 1;
  bool transposed = false; ///< the product takes its transpose
  int64_t batchStride = 0;
};

/// d = op(x) op(y), `batch` products per call. A row-major c is the
/// column-major c^T = b^T a^T: then x is b and y is a.
struct GemmForm {
  bool swapped = false;
  StoredMatrix x, y, d;
  int64_t batch = 1;
  /// Element offsets of a, b and c of every call; none for an empty product.
  std::vector<std::array<int64_t, 3>> calls;
};

/// Batch dimensions whose strides continue each other become one; of those left
/// the largest becomes the batch of a call, the others several calls. A matrix
/// with neither stride 1 is taken apart into rows or columns, which become a
/// batch dimension too: right for any strides, fast for those that models have.
/// Errors: k is 0; a stride of 0 along k.
StatusOr<GemmForm> gemmForm(GemmShape shape);

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_FORM_H
