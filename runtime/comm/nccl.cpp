#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/library_search.h"

#include <dlfcn.h>

namespace lockstep::runtime::nccl {

Status Api::check(Result result, const std::string &what) const {
  if (!result)
    return Status::success();
  std::string text = what + " failed: " + getErrorString(result);
  if (const char *last = getLastError(nullptr); last && *last)
    text += " (" + std::string(last) + ")";
  return inputError(text).remedy(
      "give every rank a GPU of its own, and see NCCL_DEBUG=WARN");
}

static StatusOr<Api> open() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      void *library,
      cuda::openLibrary("NCCL", {"libnccl.so.2"}, "nvidia-nccl-cu13"));
  Api api;
  auto find = [&](auto &member, const char *symbol) {
    using Pointer = std::remove_reference_t<decltype(member)>;
    member = reinterpret_cast<Pointer>(dlsym(library, symbol));
    if (member)
      return Status::success();
    return inputError(std::string("NCCL has no ") + symbol + ": it is too old")
        .remedy("install NCCL 2.18 or newer");
  };
#define LOCKSTEP_LOAD(member, symbol, parameters)                              \
  LOCKSTEP_RETURN_IF_ERROR(find(api.member, symbol));
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  LOCKSTEP_RETURN_IF_ERROR(find(api.getErrorString, "ncclGetErrorString"));
  LOCKSTEP_RETURN_IF_ERROR(find(api.getLastError, "ncclGetLastError"));
  return api;
}

StatusOr<const Api *> load() {
  static const StatusOr<Api> api = open();
  if (!api.ok())
    return api.status();
  return &api.value();
}

} // namespace lockstep::runtime::nccl
