#include "runtime/device/host/arena.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace lockstep::runtime {

static constexpr size_t alignment = size_t(2) << 20;

StatusOr<Arena> Arena::create(int64_t bytes, bool poison) {
  Arena arena;
  arena.size = bytes;
  arena.mappingBytes = size_t(bytes) + 2 * alignment;
  void *memory = mmap(nullptr, arena.mappingBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return inputError("cannot map the arena of " + std::to_string(bytes) +
                      " bytes: " + strerror(errno))
        .remedy("free memory, or compile for more ranks or a smaller batch");
  arena.mapping = memory;
  uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  address = (address + alignment - 1) / alignment * alignment;
  arena.start = reinterpret_cast<std::byte *>(address);
  madvise(arena.start, size_t(bytes) + alignment, MADV_HUGEPAGE);
  if (poison)
    std::memset(arena.start, 0xff, size_t(bytes));
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(mapping, other.mapping);
  std::swap(mappingBytes, other.mappingBytes);
  std::swap(start, other.start);
  std::swap(size, other.size);
  return *this;
}

Arena::~Arena() {
  if (mapping)
    munmap(mapping, mappingBytes);
}

void Arena::clear(int64_t offset, int64_t bytes) const {
  int64_t unit = int64_t(alignment);
  int64_t first = (offset + unit - 1) / unit * unit;
  int64_t last = (offset + bytes) / unit * unit;
  if (first >= last ||
      madvise(start + first, size_t(last - first), MADV_DONTNEED) != 0) {
    std::memset(start + offset, 0, size_t(bytes));
    return;
  }
  std::memset(start + offset, 0, size_t(first - offset));
  std::memset(start + last, 0, size_t(offset + bytes - last));
}

int64_t Arena::residentBytes() const {
  if (!size)
    return 0;
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size_t(size) + page - 1) / page);
  if (mincore(start, size_t(size), pages.data()) != 0)
    return 0;
  size_t resident = 0;
  for (unsigned char present : pages)
    resident += present & 1;
  return std::min<int64_t>(int64_t(resident * page), size);
}

} // namespace lockstep::runtime
