// A whole file mapped read-only. Copies of the shared pointer keep the mapping.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_MAPPED_FILE_H
#define LOCKSTEP_RUNTIME_SUPPORT_MAPPED_FILE_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

class MappedFile {
public:
  /// Maps a regular file; an empty file gives size 0. Errors name the path.
  static StatusOr<std::shared_ptr<const MappedFile>>
  open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::byte *data() const { return bytes; }
  uint64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  MappedFile(std::string path, const std::byte *bytes, uint64_t length)
      : name(std::move(path)), bytes(bytes), length(length) {}
  std::string name;
  const std::byte *bytes;
  uint64_t length;
};

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_MAPPED_FILE_H
