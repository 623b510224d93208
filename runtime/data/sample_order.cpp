#include "runtime/data/sample_order.h"
#include "runtime/support/philox.h"

namespace lockstep::runtime {

/// A permutation of [0, 2^(2 half)): four Feistel rounds, keyed by seed and
/// epoch.
static uint64_t permute(uint64_t value, int half, uint64_t seed,
                        uint64_t epoch) {
  uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t left = value >> half, right = value & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    auto words = philox(seed, right, epoch << 8 | round);
    uint64_t mixed = left ^ ((uint64_t(words[1]) << 32 | words[0]) & mask);
    left = right;
    right = mixed;
  }
  return left << half | right;
}

int64_t SampleOrder::at(int64_t position) const {
  uint64_t epoch = uint64_t(position / samples);
  uint64_t index = uint64_t(position % samples);
  if (!shuffled)
    return int64_t(index);
  int half = 1;
  while ((uint64_t(1) << (2 * half)) < uint64_t(samples))
    ++half;
  // Walk along the permutation's cycle until it comes back below `samples`.
  do
    index = permute(index, half, seed, epoch);
  while (index >= uint64_t(samples));
  return int64_t(index);
}

} // namespace lockstep::runtime
