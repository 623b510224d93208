#include "runtime/support/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace lockstep;

static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status AtomicFile::systemError(const std::string &action, int error) const {
  Status status =
      inputError("cannot " + action + ": " + std::strerror(error)).at(target);
  if (error == ENOSPC || error == EDQUOT)
    return std::move(status).remedy(
        "free some space; the file's old content, if any, is unchanged");
  return std::move(status).remedy("choose a place that can be written");
}

StatusOr<AtomicFile> AtomicFile::create(const std::string &path,
                                        uint64_t expectedBytes) {
  AtomicFile file;
  file.target = path;
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return file.systemError("write the file", EISDIR);
  std::string temporary = path + ".partial-" + std::to_string(getpid());
  file.descriptor =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.descriptor < 0)
    return file.systemError("write the file", errno);
  file.temporary = std::move(temporary);
  if (expectedBytes > 0) {
    int error =
        posix_fallocate(file.descriptor, 0, static_cast<off_t>(expectedBytes));
    // Some file systems cannot reserve; their disk is found full on writing.
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
      return file.systemError(
          "reserve " + std::to_string(expectedBytes) + " bytes", error);
    if (error == 0)
      file.reserved = expectedBytes;
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept {
  *this = std::move(other);
}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  if (this == &other)
    return *this;
  discard();
  target = std::move(other.target);
  temporary = std::exchange(other.temporary, std::string());
  descriptor = std::exchange(other.descriptor, -1);
  written = other.written;
  reserved = other.reserved;
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  temporary.clear();
}

Status AtomicFile::write(const void *data, uint64_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    // The kernel takes at most 2 GiB at once.
    size_t part = bytes < (size_t(1) << 30) ? bytes : (size_t(1) << 30);
    ssize_t count = ::write(descriptor, next, part);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError("write the file", errno);
    next += count;
    bytes -= static_cast<uint64_t>(count);
    written += static_cast<uint64_t>(count);
  }
  return Status::success();
}

Status AtomicFile::commit() {
  if (reserved > written &&
      ftruncate(descriptor, static_cast<off_t>(written)) != 0)
    return systemError("cut the file to its length", errno);
  if (fsync(descriptor) != 0)
    return systemError("sync the file", errno);
  int closed = ::close(std::exchange(descriptor, -1));
  if (closed != 0)
    return systemError("close the file", errno);
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return systemError("rename the finished file", errno);
  temporary.clear();
  // The rename itself must survive a power cut; some file systems refuse to
  // sync a folder, which loses nothing but this guarantee.
  int folder =
      ::open(folderOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    ::close(folder);
  }
  return Status::success();
}

Status lockstep::writeFileAtomically(const std::string &path, const void *data,
                                     uint64_t bytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, bytes));
  LOCKSTEP_RETURN_IF_ERROR(file.write(data, bytes));
  return file.commit();
}
