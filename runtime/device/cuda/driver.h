// The part of the CUDA driver API that the runtime uses, with declarations of
// our own: the driver (libcuda.so.1) is loaded at run time, and building needs
// no CUDA. Names, types and values are those of the CUDA Driver API reference
// manual (docs.nvidia.com/cuda/cuda-driver-api), in the sections named below;
// functions go by their exported, versioned symbols. A test compares all of it
// with cuda.h where that is installed.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_DRIVER_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::runtime::cuda {

// "Data types used by CUDA driver".
using Result = int;
using DeviceNumber = int;
using Address = unsigned long long; ///< CUdeviceptr
using Context = struct CUctx_st *;
using Module = struct CUmod_st *;
using Function = struct CUfunc_st *;
using StreamHandle = struct CUstream_st *;
using EventHandle = struct CUevent_st *;
using Graph = struct CUgraph_st *;
using GraphExec = struct CUgraphExec_st *;

/// CUresult values that get an explanation of their own.
inline constexpr Result success = 0, outOfMemory = 2, noDevice = 100,
                        invalidImage = 200, noBinaryForGpu = 209,
                        unsupportedPtxVersion = 222;

/// CUdevice_attribute.
enum DeviceAttribute : int {
  clockRate = 13, ///< kHz
  multiprocessorCount = 16,
  memoryClockRate = 36, ///< kHz
  memoryBusWidth = 37,  ///< bits
  computeCapabilityMajor = 75,
  computeCapabilityMinor = 76,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  maxThreadsPerBlock = 0,
  maxDynamicSharedBytes = 8,
};

/// CUlaunchAttribute, CUlaunchConfig: "Data types used by CUDA driver". Of the
/// attribute's value only what is used here.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    struct {
      unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerialization;
    char bytes[64];
  };
};
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  StreamHandle stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// CUlaunchAttributeID.
inline constexpr int launchClusterDimension = 4,
                     launchProgrammaticStreamSerialization = 6;

/// CUtensorMap, and what describes one: CUtensorMapDataType,
/// CUtensorMapL2promotion. CUtensorMapSwizzle counts 0, 32, 64 and 128 bytes.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};
inline constexpr int tensorMapFloat32 = 7, tensorMapBFloat16 = 9;
inline constexpr int tensorMapPromote256 = 3;

/// CUstream_flags, CUevent_flags, CUstreamCaptureMode, CUjit_option.
inline constexpr unsigned streamNonBlocking = 1;
inline constexpr unsigned eventDefault = 0, eventDisableTiming = 2;
inline constexpr int captureRelaxed = 2;
inline constexpr int jitErrorLog = 5, jitErrorLogBytes = 6;

// X(member, symbol, parameters), by section of the manual.
#define LOCKSTEP_CUDA_DRIVER_FUNCTIONS(X)                                      \
  /* Error handling, initialisation, version */                                \
  X(getErrorName, "cuGetErrorName", (Result, const char **))                   \
  X(getErrorString, "cuGetErrorString", (Result, const char **))               \
  X(init, "cuInit", (unsigned))                                                \
  X(driverGetVersion, "cuDriverGetVersion", (int *))                           \
  /* Device management, primary context, context management */                 \
  X(deviceGetCount, "cuDeviceGetCount", (int *))                               \
  X(deviceGet, "cuDeviceGet", (DeviceNumber *, int))                           \
  X(deviceGetName, "cuDeviceGetName", (char *, int, DeviceNumber))             \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *, int, DeviceNumber))    \
  X(primaryContextRetain, "cuDevicePrimaryCtxRetain",                          \
    (Context *, DeviceNumber))                                                 \
  X(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceNumber))     \
  X(contextSetCurrent, "cuCtxSetCurrent", (Context))                           \
  /* Module management, execution control */                                   \
  X(moduleLoadDataEx, "cuModuleLoadDataEx",                                    \
    (Module *, const void *, unsigned, int *, void **))                        \
  X(moduleUnload, "cuModuleUnload", (Module))                                  \
  X(moduleGetFunction, "cuModuleGetFunction",                                  \
    (Function *, Module, const char *))                                        \
  X(functionGetAttribute, "cuFuncGetAttribute", (int *, int, Function))        \
  X(functionSetAttribute, "cuFuncSetAttribute", (Function, int, int))          \
  X(launchKernel, "cuLaunchKernel",                                            \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
     unsigned, StreamHandle, void **, void **))                                \
  X(launchKernelEx, "cuLaunchKernelEx",                                        \
    (const LaunchConfig *, Function, void **, void **))                        \
  /* Tensor map object management */                                           \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                            \
    (TensorMap *, int, unsigned, void *, const uint64_t *, const uint64_t *,   \
     const unsigned *, const unsigned *, int, int, int, int))                  \
  /* Memory management */                                                      \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                       \
  X(memAlloc, "cuMemAlloc_v2", (Address *, size_t))                            \
  X(memFree, "cuMemFree_v2", (Address))                                        \
  X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))               \
  X(memFreeHost, "cuMemFreeHost", (void *))                                    \
  X(memcpyHtoD, "cuMemcpyHtoD_v2", (Address, const void *, size_t))            \
  X(memcpyDtoH, "cuMemcpyDtoH_v2", (void *, Address, size_t))                  \
  X(memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                   \
    (Address, const void *, size_t, StreamHandle))                             \
  X(memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                   \
    (void *, Address, size_t, StreamHandle))                                   \
  X(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                   \
    (Address, Address, size_t, StreamHandle))                                  \
  X(memsetD8Async, "cuMemsetD8Async",                                          \
    (Address, unsigned char, size_t, StreamHandle))                            \
  /* Stream management, event management */                                    \
  X(streamCreate, "cuStreamCreate", (StreamHandle *, unsigned))                \
  X(streamDestroy, "cuStreamDestroy_v2", (StreamHandle))                       \
  X(streamSynchronize, "cuStreamSynchronize", (StreamHandle))                  \
  X(streamWaitEvent, "cuStreamWaitEvent",                                      \
    (StreamHandle, EventHandle, unsigned))                                     \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (StreamHandle, int))        \
  X(streamEndCapture, "cuStreamEndCapture", (StreamHandle, Graph *))           \
  X(eventCreate, "cuEventCreate", (EventHandle *, unsigned))                   \
  X(eventDestroy, "cuEventDestroy_v2", (EventHandle))                          \
  X(eventRecord, "cuEventRecord", (EventHandle, StreamHandle))                 \
  X(eventSynchronize, "cuEventSynchronize", (EventHandle))                     \
  X(eventElapsedTime, "cuEventElapsedTime",                                    \
    (float *, EventHandle, EventHandle))                                       \
  /* Graph management */                                                       \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                           \
    (GraphExec *, Graph, unsigned long long))                                  \
  X(graphLaunch, "cuGraphLaunch", (GraphExec, StreamHandle))                   \
  X(graphExecDestroy, "cuGraphExecDestroy", (GraphExec))                       \
  X(graphDestroy, "cuGraphDestroy", (Graph))

/// The driver's functions. Null until loaded; tests fill in their own.
struct Driver {
#define LOCKSTEP_MEMBER(member, symbol, parameters)                            \
  Result(*member) parameters = nullptr;
  LOCKSTEP_CUDA_DRIVER_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER

  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string describe(Result result) const;

  /// Success, or an internal fault: "<what> failed: CUDA_ERROR_...".
  Status check(Result result, const std::string &what) const;
};

/// Loads the driver, once per process. Error: it is not installed.
StatusOr<const Driver *> loadDriver();

/// "13.0" of the driver's number 13000.
std::string versionText(int version);

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_DRIVER_H
