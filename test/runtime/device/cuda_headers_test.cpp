// Our own declarations against NVIDIA's headers. Compiled where those are.
#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/cublaslt.h"

#include <catch2/catch.hpp>
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
#include <type_traits>

using namespace lockstep::runtime;

// Types that differ in name only: pointers to opaque structures, and enums
// that we pass as int.
template <typename T> struct Plain {
  using type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <typename T> struct Plain<T *> {
  using Target = std::remove_cv_t<T>;
  using type = std::conditional_t<std::is_class_v<Target>, void *,
                                  typename Plain<Target>::type *>;
};
template <typename R, typename... A> struct Plain<R(A...)> {
  using type = typename Plain<R>::type(typename Plain<A>::type...);
};
template <typename R, typename... A> struct Plain<R (*)(A...)> {
  using type = typename Plain<R>::type(typename Plain<A>::type...);
};

template <typename Ours, typename Theirs> constexpr bool same() {
  return std::is_same_v<typename Plain<Ours>::type,
                        typename Plain<std::remove_pointer_t<Theirs>>::type>;
}

// The macros of cuda.h turn a name into its newest version, which must be the
// one that driver.h names.
#define SAME_DRIVER(member, function)                                          \
  static_assert(same<decltype(cuda::Driver::member), decltype(&function)>(),   \
                #member)
SAME_DRIVER(init, cuInit);
SAME_DRIVER(deviceGetCount, cuDeviceGetCount);
SAME_DRIVER(deviceGet, cuDeviceGet);
SAME_DRIVER(deviceGetName, cuDeviceGetName);
SAME_DRIVER(deviceGetAttribute, cuDeviceGetAttribute);
SAME_DRIVER(primaryContextRetain, cuDevicePrimaryCtxRetain);
SAME_DRIVER(primaryContextRelease, cuDevicePrimaryCtxRelease);
SAME_DRIVER(contextSetCurrent, cuCtxSetCurrent);
SAME_DRIVER(moduleLoadDataEx, cuModuleLoadDataEx);
SAME_DRIVER(moduleUnload, cuModuleUnload);
SAME_DRIVER(moduleGetFunction, cuModuleGetFunction);
SAME_DRIVER(functionGetAttribute, cuFuncGetAttribute);
SAME_DRIVER(functionSetAttribute, cuFuncSetAttribute);
SAME_DRIVER(launchKernel, cuLaunchKernel);
SAME_DRIVER(launchKernelEx, cuLaunchKernelEx);
SAME_DRIVER(tensorMapEncodeTiled, cuTensorMapEncodeTiled);
SAME_DRIVER(memGetInfo, cuMemGetInfo);
SAME_DRIVER(memAlloc, cuMemAlloc);
SAME_DRIVER(memFree, cuMemFree);
SAME_DRIVER(memHostAlloc, cuMemHostAlloc);
SAME_DRIVER(memFreeHost, cuMemFreeHost);
SAME_DRIVER(memcpyHtoD, cuMemcpyHtoD);
SAME_DRIVER(memcpyDtoH, cuMemcpyDtoH);
SAME_DRIVER(memcpyHtoDAsync, cuMemcpyHtoDAsync);
SAME_DRIVER(memcpyDtoHAsync, cuMemcpyDtoHAsync);
SAME_DRIVER(memcpyDtoDAsync, cuMemcpyDtoDAsync);
SAME_DRIVER(memsetD8Async, cuMemsetD8Async);
SAME_DRIVER(streamCreate, cuStreamCreate);
SAME_DRIVER(streamDestroy, cuStreamDestroy);
SAME_DRIVER(streamSynchronize, cuStreamSynchronize);
SAME_DRIVER(streamWaitEvent, cuStreamWaitEvent);
SAME_DRIVER(streamBeginCapture, cuStreamBeginCapture);
SAME_DRIVER(streamEndCapture, cuStreamEndCapture);
SAME_DRIVER(eventCreate, cuEventCreate);
SAME_DRIVER(eventDestroy, cuEventDestroy);
SAME_DRIVER(eventRecord, cuEventRecord);
SAME_DRIVER(eventSynchronize, cuEventSynchronize);
SAME_DRIVER(eventElapsedTime, cuEventElapsedTime);
SAME_DRIVER(graphInstantiate, cuGraphInstantiateWithFlags);
SAME_DRIVER(graphLaunch, cuGraphLaunch);
SAME_DRIVER(graphExecDestroy, cuGraphExecDestroy);
SAME_DRIVER(graphDestroy, cuGraphDestroy);

#define SAME_LT(member, function)                                              \
  static_assert(                                                               \
      same<decltype(cuda::CublasLtApi::member), decltype(&function)>(),        \
      #member)
SAME_LT(create, cublasLtCreate);
SAME_LT(descriptionCreate, cublasLtMatmulDescCreate);
SAME_LT(descriptionSet, cublasLtMatmulDescSetAttribute);
SAME_LT(layoutCreate, cublasLtMatrixLayoutCreate);
SAME_LT(layoutSet, cublasLtMatrixLayoutSetAttribute);
SAME_LT(preferenceCreate, cublasLtMatmulPreferenceCreate);
SAME_LT(preferenceSet, cublasLtMatmulPreferenceSetAttribute);
SAME_LT(heuristic, cublasLtMatmulAlgoGetHeuristic);
SAME_LT(matmul, cublasLtMatmul);

static_assert(sizeof(cuda::LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cuda::LtHeuristic) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cuda::LtHeuristic, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));

TEST_CASE("constants are those of NVIDIA's headers") {
  CHECK(int(cuda::outOfMemory) == int(CUDA_ERROR_OUT_OF_MEMORY));
  CHECK(int(cuda::noDevice) == int(CUDA_ERROR_NO_DEVICE));
  CHECK(int(cuda::invalidImage) == int(CUDA_ERROR_INVALID_IMAGE));
  CHECK(int(cuda::noBinaryForGpu) == int(CUDA_ERROR_NO_BINARY_FOR_GPU));
  CHECK(int(cuda::unsupportedPtxVersion) ==
        int(CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
  CHECK(int(cuda::clockRate) == int(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  CHECK(int(cuda::multiprocessorCount) ==
        int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  CHECK(int(cuda::memoryClockRate) ==
        int(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
  CHECK(int(cuda::memoryBusWidth) ==
        int(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  CHECK(int(cuda::computeCapabilityMajor) ==
        int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CHECK(int(cuda::computeCapabilityMinor) ==
        int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  CHECK(int(cuda::maxThreadsPerBlock) ==
        int(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  CHECK(int(cuda::maxDynamicSharedBytes) ==
        int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  CHECK(int(cuda::streamNonBlocking) == int(CU_STREAM_NON_BLOCKING));
  CHECK(int(cuda::eventDisableTiming) == int(CU_EVENT_DISABLE_TIMING));
  CHECK(int(cuda::captureRelaxed) == int(CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(int(cuda::jitErrorLog) == int(CU_JIT_ERROR_LOG_BUFFER));
  CHECK(int(cuda::jitErrorLogBytes) == int(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
  CHECK(int(cuda::real32) == int(CUDA_R_32F));
  CHECK(int(cuda::real64) == int(CUDA_R_64F));
  CHECK(int(cuda::realBf16) == int(CUDA_R_16BF));
  CHECK(int(cuda::compute32) == int(CUBLAS_COMPUTE_32F));
  CHECK(int(cuda::compute64) == int(CUBLAS_COMPUTE_64F));
  CHECK(int(cuda::descriptionTransposeA) == int(CUBLASLT_MATMUL_DESC_TRANSA));
  CHECK(int(cuda::descriptionTransposeB) == int(CUBLASLT_MATMUL_DESC_TRANSB));
  CHECK(int(cuda::layoutBatchCount) == int(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT));
  CHECK(int(cuda::layoutBatchStride) ==
        int(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
  CHECK(int(cuda::preferenceWorkspaceBytes) ==
        int(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
  CHECK(int(cuda::preferenceAlignmentA) ==
        int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
  CHECK(int(cuda::preferenceAlignmentD) ==
        int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
  CHECK(int(nccl::bfloat16) == int(ncclBfloat16));
  CHECK(int(nccl::float32) == int(ncclFloat32));
  CHECK(int(nccl::uint8) == int(ncclUint8));
  CHECK(int(nccl::int64) == int(ncclInt64));
  CHECK(int(nccl::max) == int(ncclMax));
  CHECK(int(nccl::min) == int(ncclMin));
}
