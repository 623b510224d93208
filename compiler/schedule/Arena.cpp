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
  // In the order of their offsets.
  struct Placed {
    int64_t first, last, begin, end;
  };
  llvm::SmallVector<Placed> placed;
  for (size_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    int64_t size = alignUp(lifetime.bytes), end = 0, best = -1, bestGap = 0;
    for (const Placed &other : placed) {
      if (other.last < lifetime.first || lifetime.last < other.first)
        continue;
      int64_t gap = other.begin - end;
      if (gap >= size && (best < 0 || gap < bestGap)) {
        best = end;
        bestGap = gap;
        if (gap == size)
          break;
      }
      end = std::max(end, other.end);
    }
    int64_t offset = best < 0 ? end : best;
    layout.offsets[index] = offset;
    layout.bytes = std::max(layout.bytes, offset + size);
    placed.insert(llvm::upper_bound(placed, offset,
                                    [](int64_t value, const Placed &other) {
                                      return value < other.begin;
                                    }),
                  {lifetime.first, lifetime.last, offset, offset + size});
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
