//===- Arena.h - Places for values whose lifetimes are known ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_ARENA_H
#define LOCKSTEP_COMPILER_SCHEDULE_ARENA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace lockstep::schedule {

/// All buffers begin at multiples of this, more than a cache line and the
/// widest vector of any target. GPUs copy tensors in rows of 128 bytes: rows
/// that begin in the middle of a line take products up to 1.4 times as long.
constexpr int64_t kAlignment = 256;

inline int64_t alignUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A value that is in memory from position `first` to position `last`, both
/// included.
struct Lifetime {
  int64_t bytes, first, last;
};

struct ArenaLayout {
  llvm::SmallVector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Gives lifetimes that meet disjoint ranges. Best fit, largest first (ties:
/// earlier first), so the result depends on nothing but the arguments.
ArenaLayout assignArena(llvm::ArrayRef<Lifetime> lifetimes);

/// The most bytes that are alive at one position, and that position: no arena
/// can be smaller.
std::pair<int64_t, int64_t> getPeak(llvm::ArrayRef<Lifetime> lifetimes);

} // namespace lockstep::schedule

#endif
