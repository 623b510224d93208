//===- Feeds.h - Inputs and outputs of interpreted programs -------------*- C++
//-*-===//
//
// Inputs come from a safetensors file by name, or are drawn; outputs go to one,
// or are compared with one. Files hold global values: a value of which each
// rank holds a part is cut along the dimension in which shapes differ, in rank
// order, and put together again. A batch of K accumulation steps is cut per
// step: rank r of N holds, for k = 0 .. K-1, rows k B/K + r B/(N K) + [0, B/(N
// K)).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_FEEDS_H
#define LOCKSTEP_COMPILER_REFERENCE_FEEDS_H

#include "compiler/reference/Entry.h"
#include "runtime/support/status.h"
#include <map>

namespace lockstep {

/// Global values by name.
using Feeds = std::map<std::string, HostTensor>;

StatusOr<Feeds> readFeeds(const std::string &path, mlir::MLIRContext *context);
Status writeFeeds(const std::string &path, const Feeds &feeds);

struct RandomOptions {
  uint64_t seed = 0;
  /// Integers are drawn from 0 to this, exclusive.
  int64_t integerLimit = 2;
};

/// A plausible value for every argument: small normal numbers for parameters
/// and inputs, zeros for optimizer state, ones for variances, PyTorch's
/// defaults for hyperparameters. Depends on the seed and the argument's name
/// alone.
Feeds drawFeeds(const EntrySignature &signature, const RandomOptions &options);

/// What each rank is given for every argument, in order.
StatusOr<llvm::SmallVector<RankTensors>>
distributeFeeds(const EntrySignature &signature, const Feeds &feeds,
                int64_t ranks, int64_t accumulationSteps);

/// An error naming the first result that should be the same on all ranks, to
/// the bit, and is not. Not those that ranks hold parts of (judged by `shapes`
/// as below), nor buffers: with local batch norm, every rank has its own
/// statistics.
Status checkRanksAgree(const EntrySignature &signature,
                       llvm::ArrayRef<RankTensors> results,
                       const Feeds &shapes);

/// Where the result has a global shape in `shapes` that is larger than the
/// local one, parts are put together; else rank 0's value counts.
Feeds collectResults(const EntrySignature &signature,
                     llvm::ArrayRef<RankTensors> results, int64_t ranks,
                     const Feeds &shapes);

/// An error naming the first value of `expected` that `actual` has, too, and
/// that differs by more than `tolerance` (absolutely, and relative to the
/// largest magnitude of the tensor); or an error if they have no name in
/// common.
Status compareFeeds(const Feeds &actual, const Feeds &expected,
                    double tolerance);

} // namespace lockstep

#endif
