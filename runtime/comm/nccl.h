// The part of NCCL that the runtime uses, with declarations of our own
// (docs.nvidia.com/deeplearning/nccl, "NCCL API"): loaded at run time, compared
// with nccl.h by a test where that is installed.
#ifndef LOCKSTEP_RUNTIME_COMM_NCCL_H
#define LOCKSTEP_RUNTIME_COMM_NCCL_H

#include "runtime/device/cuda/driver.h"

namespace lockstep::runtime::nccl {

using Result = int; ///< ncclResult_t; 0 is success
using Communicator = struct ncclComm *;
/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// ncclDataType_t.
enum DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};
/// ncclRedOp_t.
enum Operation : int { sum = 0, max = 2, min = 3 };

#define LOCKSTEP_NCCL_FUNCTIONS(X)                                             \
  X(getUniqueId, "ncclGetUniqueId", (UniqueId *))                              \
  X(initRank, "ncclCommInitRank", (Communicator *, int, UniqueId, int))        \
  X(abort, "ncclCommAbort", (Communicator))                                    \
  X(groupStart, "ncclGroupStart", ())                                          \
  X(groupEnd, "ncclGroupEnd", ())                                              \
  X(allReduce, "ncclAllReduce",                                                \
    (const void *, void *, size_t, DataType, Operation, Communicator,          \
     cuda::StreamHandle))                                                      \
  X(reduceScatter, "ncclReduceScatter",                                        \
    (const void *, void *, size_t, DataType, Operation, Communicator,          \
     cuda::StreamHandle))                                                      \
  X(allGather, "ncclAllGather",                                                \
    (const void *, void *, size_t, DataType, Communicator,                     \
     cuda::StreamHandle))                                                      \
  X(broadcast, "ncclBroadcast",                                                \
    (const void *, void *, size_t, DataType, int, Communicator,                \
     cuda::StreamHandle))

struct Api {
#define LOCKSTEP_MEMBER(member, symbol, parameters)                            \
  Result(*member) parameters = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
  const char *(*getErrorString)(Result) = nullptr;     // ncclGetErrorString
  const char *(*getLastError)(Communicator) = nullptr; // ncclGetLastError

  /// Success, or an error with NCCL's own last words.
  Status check(Result result, const std::string &what) const;
};

/// Loads NCCL, once per process. Error: it is not installed.
StatusOr<const Api *> load();

} // namespace lockstep::runtime::nccl

#endif // LOCKSTEP_RUNTIME_COMM_NCCL_H
