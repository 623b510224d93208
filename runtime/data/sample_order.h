// Which sample goes where: the order of samples over a run, and the rows of a
// batch that a rank holds. Both are functions of counters, so a run can start
// anywhere, and the order is the same for any number of ranks.
#ifndef LOCKSTEP_RUNTIME_DATA_SAMPLE_ORDER_H
#define LOCKSTEP_RUNTIME_DATA_SAMPLE_ORDER_H

#include <cstdint>

namespace lockstep::runtime {

/// The order of `samples` samples, epoch after epoch.
class SampleOrder {
public:
  SampleOrder(int64_t samples, uint64_t seed, bool shuffled)
      : samples(samples), seed(seed), shuffled(shuffled) {}

  int64_t size() const { return samples; }
  /// The sample at position `position` (from 0) of the run. Each epoch, that is
  /// each stretch of `samples` positions, has every sample once.
  int64_t at(int64_t position) const;

private:
  int64_t samples;
  uint64_t seed;
  bool shuffled;
};

/// Rows of a global batch of B rows on rank r of N with K accumulation steps:
/// for k = 0..K-1 the rows k B/K + r B/(N K) + [0, B/(N K)), in that order.
struct RowRule {
  int64_t batch, ranks, rank, accumulation;

  int64_t localRows() const { return batch / ranks; }
  int64_t globalRow(int64_t local) const {
    int64_t micro = batch / (ranks * accumulation);
    return local / micro * (batch / accumulation) + rank * micro +
           local % micro;
  }
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DATA_SAMPLE_ORDER_H
