#include "runtime/launcher/last_lines.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace lockstep::runtime {

/// A line is written beside the valid one and then made valid, so that a rank
/// which dies while writing leaves the one before.
struct LastLines::Slot {
  std::atomic<uint32_t> valid; ///< 0: none yet; else text[valid - 1]
  char text[2][1022];
};

StatusOr<LastLines> LastLines::create(int ranks) {
  int file = memfd_create("lockstep-last-lines", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(sizeof(Slot)) * ranks) != 0) {
    Status status = internalFault(std::string("cannot make shared memory: ") +
                                  strerror(errno));
    if (file >= 0)
      ::close(file);
    return status;
  }
  return open(file, ranks);
}

StatusOr<LastLines> LastLines::open(int descriptor, int ranks) {
  LastLines lines;
  struct stat info = {};
  size_t bytes = sizeof(Slot) * size_t(ranks);
  if (fstat(descriptor, &info) != 0 || size_t(info.st_size) != bytes)
    return internalFault("the launcher's shared memory is not there");
  void *memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    return internalFault(std::string("cannot map shared memory: ") +
                         strerror(errno));
  lines.file = descriptor;
  lines.ranks = ranks;
  lines.slots = static_cast<Slot *>(memory);
  return lines;
}

LastLines::LastLines(LastLines &&other) noexcept { *this = std::move(other); }

LastLines &LastLines::operator=(LastLines &&other) noexcept {
  std::swap(file, other.file);
  std::swap(ranks, other.ranks);
  std::swap(slots, other.slots);
  return *this;
}

LastLines::~LastLines() {
  if (slots)
    munmap(slots, sizeof(Slot) * size_t(ranks));
  if (file >= 0)
    ::close(file);
}

void LastLines::set(int rank, const std::string &line) {
  if (!slots || rank < 0 || rank >= ranks)
    return;
  Slot &slot = slots[rank];
  uint32_t next = slot.valid == 1 ? 2 : 1;
  char *text = slot.text[next - 1];
  size_t size = std::min(line.size(), sizeof(slot.text[0]) - 1);
  std::memcpy(text, line.data(), size);
  text[size] = 0;
  slot.valid = next;
}

std::string LastLines::get(int rank) const {
  if (!slots || rank < 0 || rank >= ranks)
    return "";
  const Slot &slot = slots[rank];
  uint32_t valid = slot.valid;
  if (valid != 1 && valid != 2)
    return "";
  const char *text = slot.text[valid - 1];
  return {text, strnlen(text, sizeof(slot.text[0]))};
}

} // namespace lockstep::runtime
