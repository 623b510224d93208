// cuBLASLt with its best algorithms, what gemm_bench's kernels are timed
// against.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_CUBLAS_H
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_CUBLAS_H

#include "tools/bench/gpu/gemm_launch.h"

#include <cublasLt.h>

namespace bench {

#define CHECK_CUBLAS(call)                                                     \
  do {                                                                         \
    if (cublasStatus_t error = (call))                                         \
      bench::fail(#call, cublasLtGetStatusString(error), __LINE__);            \
  } while (0)

/// The same product, with bias or bias, GELU and saved preactivation where the
/// kernels have them. cuBLASLt is column-major: D^T = B^T A^T.
class Library {
public:
  Library(const GemmConfig &config, const Operands &set, const GemmSize &size)
      : config(config) {
    CHECK_CUBLAS(cublasLtCreate(&handle));
    CHECK_CUDA(cudaMalloc(&workspace, workspaceBytes));
    CHECK_CUBLAS(
        cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    bool transposeB = config.b == Major::K, transposeA = config.a != Major::K;
    set_(CUBLASLT_MATMUL_DESC_TRANSA, transposeB ? CUBLAS_OP_T : CUBLAS_OP_N);
    set_(CUBLASLT_MATMUL_DESC_TRANSB, transposeA ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (config.bias) {
      bool gelu = config.activation == Activation::GeluTanh;
      set_(CUBLASLT_MATMUL_DESC_EPILOGUE,
           gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
      set_(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
      set_(CUBLASLT_MATMUL_DESC_BIAS_POINTER, set.bias);
      if (gelu) {
        set_(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, set.side.data);
        set_(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(set.d.rowStride));
      }
    }
    left = layout(set.b, CUDA_R_16BF, size.batch);
    right = layout(set.a, CUDA_R_16BF, size.batch);
    bool isFloat32 = config.output != Output::BFloat16;
    result = layout(set.d, isFloat32 ? CUDA_R_32F : CUDA_R_16BF, size.batch);
    findAlgorithms();
  }

  int count() const { return int(found.size()); }

  void run(int algorithm, const Operands &set) {
    if (config.bias) {
      set_(CUBLASLT_MATMUL_DESC_BIAS_POINTER, set.bias);
      if (config.activation == Activation::GeluTanh)
        set_(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, set.side.data);
    }
    float one = 1, beta = config.output == Output::Float32Accumulate ? 1 : 0;
    CHECK_CUBLAS(cublasLtMatmul(handle, product, &one, set.b.data, left,
                                set.a.data, right, &beta, set.d.data, result,
                                set.d.data, result, &found[algorithm].algo,
                                workspace, workspaceBytes, nullptr));
  }

private:
  template <typename T>
  void set_(cublasLtMatmulDescAttributes_t name, const T &value) {
    CHECK_CUBLAS(
        cublasLtMatmulDescSetAttribute(product, name, &value, sizeof value));
  }

  /// A matrix in memory: rows of the contiguous index.
  cublasLtMatrixLayout_t layout(const Matrix &matrix, cudaDataType_t type,
                                long batch) {
    bool rowsInside = matrix.rowStride == 1;
    cublasLtMatrixLayout_t made;
    CHECK_CUBLAS(cublasLtMatrixLayoutCreate(
        &made, type, rowsInside ? matrix.rows : matrix.columns,
        rowsInside ? matrix.columns : matrix.rows,
        rowsInside ? matrix.columnStride : matrix.rowStride));
    int32_t batches = int32_t(batch);
    int64_t stride = matrix.batchStride;
    CHECK_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches));
    CHECK_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
        sizeof stride));
    return made;
  }

  void findAlgorithms() {
    cublasLtMatmulPreference_t preference;
    CHECK_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspaceBytes,
        sizeof workspaceBytes));
    int number = 0;
    found.resize(8);
    CHECK_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle, product, left, right,
                                                result, result, preference, 8,
                                                found.data(), &number));
    found.resize(number);
  }

  GemmConfig config;
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t left, right, result;
  void *workspace = nullptr;
  size_t workspaceBytes = 256u << 20;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
};

} // namespace bench

#endif
