// The part of cuBLASLt that the runtime uses, with declarations of our own
// (docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API"): loaded at run time,
// compared with cublasLt.h by a test where that is installed.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_CUBLASLT_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_CUBLASLT_H

#include "runtime/device/cuda/gpu.h"

namespace lockstep::runtime::cuda {

using BlasStatus = int; ///< cublasStatus_t; 0 is success
using LtHandle = struct cublasLtContext *;
using LtDescription = struct LtDescriptionTag *; ///< cublasLtMatmulDesc_t
using LtLayout = struct LtLayoutTag *;           ///< cublasLtMatrixLayout_t
using LtPreference = struct LtPreferenceTag *;   ///< cublasLtMatmulPreference_t

/// cublasLtMatmulAlgo_t.
struct LtAlgorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspaceBytes;
  BlasStatus status;
  float waves;
  int reserved[4];
};

/// cudaDataType_t.
enum DataType : int { real32 = 0, real64 = 1, realBf16 = 14 };
/// cublasComputeType_t: full precision, no TF32.
enum ComputeType : int { compute32 = 68, compute64 = 70 };
/// cublasOperation_t.
enum BlasOperation : int { asStored = 0, transpose = 1 };
/// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
/// cublasLtMatmulPreferenceAttributes_t.
enum LtAttribute : int {
  descriptionTransposeA = 3,
  descriptionTransposeB = 4,
  layoutBatchCount = 5,
  layoutBatchStride = 6,
  preferenceWorkspaceBytes = 1,
  preferenceAlignmentA = 5,
  preferenceAlignmentB = 6,
  preferenceAlignmentC = 7,
  preferenceAlignmentD = 8,
};

#define LOCKSTEP_CUBLASLT_FUNCTIONS(X)                                         \
  X(create, "cublasLtCreate", (LtHandle *))                                    \
  X(destroy, "cublasLtDestroy", (LtHandle))                                    \
  X(descriptionCreate, "cublasLtMatmulDescCreate",                             \
    (LtDescription *, ComputeType, DataType))                                  \
  X(descriptionDestroy, "cublasLtMatmulDescDestroy", (LtDescription))          \
  X(descriptionSet, "cublasLtMatmulDescSetAttribute",                          \
    (LtDescription, LtAttribute, const void *, size_t))                        \
  X(layoutCreate, "cublasLtMatrixLayoutCreate",                                \
    (LtLayout *, DataType, uint64_t, uint64_t, int64_t))                       \
  X(layoutDestroy, "cublasLtMatrixLayoutDestroy", (LtLayout))                  \
  X(layoutSet, "cublasLtMatrixLayoutSetAttribute",                             \
    (LtLayout, LtAttribute, const void *, size_t))                             \
  X(preferenceCreate, "cublasLtMatmulPreferenceCreate", (LtPreference *))      \
  X(preferenceDestroy, "cublasLtMatmulPreferenceDestroy", (LtPreference))      \
  X(preferenceSet, "cublasLtMatmulPreferenceSetAttribute",                     \
    (LtPreference, LtAttribute, const void *, size_t))                         \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                               \
    (LtHandle, LtDescription, LtLayout, LtLayout, LtLayout, LtLayout,          \
     LtPreference, int, LtHeuristic *, int *))                                 \
  X(matmul, "cublasLtMatmul",                                                  \
    (LtHandle, LtDescription, const void *, const void *, LtLayout,            \
     const void *, LtLayout, const void *, const void *, LtLayout, void *,     \
     LtLayout, const LtAlgorithm *, void *, size_t, StreamHandle))

struct CublasLtApi {
#define LOCKSTEP_MEMBER(member, symbol, parameters)                            \
  BlasStatus(*member) parameters = nullptr;
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

/// The library with a handle and the workspace that all products of a stream
/// share.
class CublasLt {
public:
  /// What NVIDIA recommends for Hopper (cublasSetWorkspace).
  static constexpr int64_t workspaceBytes = 32 << 20;

  /// Error: the library is not installed or does not start.
  static StatusOr<std::unique_ptr<CublasLt>> load(const Gpu &gpu);
  ~CublasLt();
  CublasLt(const CublasLt &) = delete;
  CublasLt &operator=(const CublasLt &) = delete;

  const CublasLtApi &api() const { return functions; }
  LtHandle handle() const { return ltHandle; }
  Address workspace() const { return memory.address(); }

  static Status check(BlasStatus status, const std::string &what);

private:
  CublasLt() = default;
  CublasLtApi functions;
  LtHandle ltHandle = nullptr;
  Buffer memory;
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_CUBLASLT_H
