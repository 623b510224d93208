// Writes a file so that a reader sees the old content or the new one, never a
// part: the bytes go to a temporary neighbour, are synced, and are renamed over
// the target by commit(). Without commit() nothing changes and the temporary
// file is removed, so a full disk leaves the old file as it was.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_ATOMIC_FILE_H
#define LOCKSTEP_RUNTIME_SUPPORT_ATOMIC_FILE_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep {

class AtomicFile {
public:
  /// Opens the temporary file beside `path`. When `expectedBytes` is not 0 the
  /// space is reserved at once, so that a full disk is found before any work.
  static StatusOr<AtomicFile> create(const std::string &path,
                                     uint64_t expectedBytes = 0);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile();

  /// Appends bytes.
  Status write(const void *data, uint64_t bytes);
  /// Bytes written so far.
  uint64_t size() const { return written; }
  /// Syncs, renames over the target, and syncs the folder.
  Status commit();

private:
  AtomicFile() = default;
  void discard();
  Status systemError(const std::string &action, int error) const;

  std::string target, temporary;
  int descriptor = -1;
  uint64_t written = 0, reserved = 0;
};

/// Writes a whole file atomically.
Status writeFileAtomically(const std::string &path, const void *data,
                           uint64_t bytes);

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_ATOMIC_FILE_H
