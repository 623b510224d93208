#include "runtime/device/host/library/strided.h"

#include <cstdlib>
#include <memory>
#include <sys/mman.h>

namespace lockstep::runtime {

namespace {
constexpr size_t hugePage = size_t(2) << 20;

struct Free {
  void operator()(void *memory) const { free(memory); }
};
struct Block {
  std::unique_ptr<void, Free> memory;
  size_t bytes = 0;
};
} // namespace

void *threadScratch(int slot, size_t bytes) {
  static thread_local std::vector<Block> blocks;
  if (blocks.size() <= size_t(slot))
    blocks.resize(size_t(slot) + 1);
  Block &block = blocks[size_t(slot)];
  if (block.bytes < bytes) {
    // Large blocks on huge pages: fewer misses of the address cache.
    size_t page = bytes < hugePage ? 4096 : hugePage;
    block.bytes = (bytes + page - 1) / page * page;
    block.memory.reset(aligned_alloc(page, block.bytes));
    if (page == hugePage)
      madvise(block.memory.get(), block.bytes, MADV_HUGEPAGE);
  }
  return block.memory.get();
}

} // namespace lockstep::runtime
