// Machine code of an artifact, loaded from memory: the shared object is put
// into a memory file and opened from there, so nothing is written to disk.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_CODE_OBJECT_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_CODE_OBJECT_H

#include "runtime/support/status.h"

#include <string>
#include <string_view>

namespace lockstep::runtime {

/// The ABI of generated kernels: work items [begin, end) of a segment.
using GeneratedKernel = void (*)(void *const *arguments, int64_t begin,
                                 int64_t end);

class CodeObject {
public:
  static StatusOr<CodeObject> load(std::string_view object);
  CodeObject() = default;
  CodeObject(CodeObject &&other) noexcept;
  CodeObject &operator=(CodeObject &&other) noexcept;
  ~CodeObject();

  /// Error when the object does not define the symbol.
  StatusOr<GeneratedKernel> find(const std::string &symbol) const;

private:
  void *handle = nullptr;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_CODE_OBJECT_H
