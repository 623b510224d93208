#include "runtime/device/host/code_object.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::runtime {

static bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(size_t(written));
  }
  return true;
}

StatusOr<CodeObject> CodeObject::load(std::string_view object) {
  int file = memfd_create("lockstep-kernels", MFD_CLOEXEC);
  if (file < 0 || !writeAll(file, object)) {
    std::string reason = strerror(errno);
    if (file >= 0)
      close(file);
    return inputError("cannot place the kernels in memory: " + reason)
        .remedy("free memory");
  }
  CodeObject code;
  std::string name = "/proc/self/fd/" + std::to_string(file);
  code.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *reason = code.handle ? nullptr : dlerror();
  close(file);
  if (!code.handle)
    return internalFault(std::string("cannot load the kernels: ") +
                         (reason ? reason : "unknown reason"));
  return code;
}

CodeObject::CodeObject(CodeObject &&other) noexcept {
  std::swap(handle, other.handle);
}

CodeObject &CodeObject::operator=(CodeObject &&other) noexcept {
  std::swap(handle, other.handle);
  return *this;
}

CodeObject::~CodeObject() {
  if (handle)
    dlclose(handle);
}

StatusOr<GeneratedKernel> CodeObject::find(const std::string &symbol) const {
  void *address = handle ? dlsym(handle, symbol.c_str()) : nullptr;
  if (!address)
    return internalFault("the code section has no kernel '" + symbol + "'");
  return reinterpret_cast<GeneratedKernel>(address);
}

} // namespace lockstep::runtime
