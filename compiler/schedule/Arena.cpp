//===- Arena.cpp - Places for values whose lifetimes are known ------------===//
#include "compiler/schedule/Arena.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <tuple>

using namespace lockstep::schedule;

ArenaLayout
lockstep::schedule::assignArena(llvm::ArrayRef<Lifetime> lifetimes) {
  llvm::SmallVector<size_t> order =
      llvm::to_vector(llvm::seq<size_t>(0, lifetimes.size()));
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_tuple(-lifetimes[a].bytes, lifetimes[a].first, a) <
           std::make_tuple(-lifetimes[b].bytes, lifetimes[b].first, b);
  });
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  // Placed lifetimes in the order of their offsets.
  llvm::SmallVector<size_t> placed;
  for (size_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    int64_t size = alignUp(lifetime.bytes), end = 0, best = -1, bestGap = 0;
    for (size_t other : placed) {
      if (lifetimes[other].last < lifetime.first ||
          lifetime.last < lifetimes[other].first)
        continue;
      int64_t gap = layout.offsets[other] - end;
      if (gap >= size && (best < 0 || gap < bestGap)) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end,
                     layout.offsets[other] + alignUp(lifetimes[other].bytes));
    }
    int64_t offset = best < 0 ? end : best;
    layout.offsets[index] = offset;
    layout.bytes = std::max(layout.bytes, offset + size);
    placed.insert(llvm::upper_bound(placed, offset,
                                    [&](int64_t value, size_t other) {
                                      return value < layout.offsets[other];
                                    }),
                  index);
  }
  return layout;
}

std::pair<int64_t, int64_t>
lockstep::schedule::getPeak(llvm::ArrayRef<Lifetime> lifetimes) {
  std::map<int64_t, int64_t> changes;
  for (const Lifetime &lifetime : lifetimes) {
    changes[lifetime.first] += alignUp(lifetime.bytes);
    changes[lifetime.last + 1] -= alignUp(lifetime.bytes);
  }
  int64_t alive = 0, peak = 0, position = 0;
  for (auto [at, change] : changes) {
    alive += change;
    if (alive > peak) {
      peak = alive;
      position = at;
    }
  }
  return {peak, position};
}
