#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/library_search.h"

#include <dlfcn.h>

namespace lockstep::runtime::cuda {

/// cublasStatus_t.
static std::string nameOf(BlasStatus status) {
  switch (status) {
  case 1:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case 3:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case 7:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case 8:
    return "CUBLAS_STATUS_ARCH_MISMATCH";
  case 13:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case 14:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case 15:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "cuBLAS status " + std::to_string(status);
}

Status CublasLt::check(BlasStatus status, const std::string &what) {
  if (!status)
    return Status::success();
  return internalFault(what + " failed: " + nameOf(status));
}

StatusOr<std::unique_ptr<CublasLt>> CublasLt::load(const Gpu &gpu) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      void *library,
      openLibrary("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
                  "nvidia-cublas"));
  std::unique_ptr<CublasLt> result(new CublasLt());
#define LOCKSTEP_LOAD(member, symbol, parameters)                              \
  result->functions.member =                                                   \
      reinterpret_cast<BlasStatus(*) parameters>(dlsym(library, symbol));      \
  if (!result->functions.member)                                               \
    return inputError("cuBLASLt has no " symbol ": it is too old")             \
        .remedy("install cuBLAS 12 or newer");
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  LOCKSTEP_RETURN_IF_ERROR(
      check(result->functions.create(&result->ltHandle), "cublasLtCreate"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      result->memory,
      Buffer::create(gpu, workspaceBytes, "the workspace of cuBLASLt"));
  return result;
}

CublasLt::~CublasLt() {
  if (ltHandle)
    functions.destroy(ltHandle);
}

} // namespace lockstep::runtime::cuda
