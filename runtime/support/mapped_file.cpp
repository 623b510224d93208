#include "runtime/support/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace lockstep;

StatusOr<std::shared_ptr<const MappedFile>>
MappedFile::open(const std::string &path) {
  auto failure = [&](const char *action) {
    return inputError(std::string(action) + ": " + std::strerror(errno))
        .at(path);
  };
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return failure("cannot open the file");
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return inputError("expected a regular file").at(path);
  }
  void *address = nullptr;
  uint64_t length = static_cast<uint64_t>(info.st_size);
  if (length > 0)
    address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
  int mapError = errno;
  ::close(descriptor);
  errno = mapError;
  if (address == MAP_FAILED)
    return failure("cannot map the file into memory");
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte *>(address), length));
}

MappedFile::~MappedFile() {
  if (length > 0)
    munmap(const_cast<std::byte *>(bytes), length);
}
