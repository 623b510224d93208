#include "runtime/device/cuda/driver.h"

#include <dlfcn.h>

namespace lockstep::runtime::cuda {

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (!getErrorName || getErrorName(result, &name) != success || !name)
    return "CUDA error " + std::to_string(result);
  if (getErrorString(result, &text) != success || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

Status Driver::check(Result result, const std::string &what) const {
  if (result == success)
    return Status::success();
  return internalFault(what + " failed: " + describe(result));
}

static StatusOr<Driver> openDriver() {
  const char *file = "libcuda.so.1";
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return inputError("no CUDA driver is installed: " + std::string(dlerror()))
        .remedy("run on a machine with an NVIDIA GPU, or compile with --target "
                "x86-64-v3");
  Driver driver;
#define LOCKSTEP_LOAD(member, symbol, parameters)                              \
  driver.member =                                                              \
      reinterpret_cast<Result(*) parameters>(dlsym(library, symbol));          \
  if (!driver.member)                                                          \
    return inputError("the CUDA driver has no " symbol ": it is too old")      \
        .remedy("install a driver for CUDA 12 or newer");
  LOCKSTEP_CUDA_DRIVER_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  return driver;
}

StatusOr<const Driver *> loadDriver() {
  static const StatusOr<Driver> driver = openDriver();
  if (!driver.ok())
    return driver.status();
  return &driver.value();
}

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

} // namespace lockstep::runtime::cuda
