#include "runtime/device/host/library/strided.h"

#include <cstdlib>
#include <memory>

namespace lockstep::runtime {

namespace {
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
    block.bytes = (bytes + 4095) / 4096 * 4096;
    block.memory.reset(aligned_alloc(64, block.bytes));
  }
  return block.memory.get();
}

} // namespace lockstep::runtime
