// What the executor asks of a communication library: collectives that start
// now and are awaited later, in the plan's order. Implemented over Gloo; a
// single rank needs no library.
#ifndef LOCKSTEP_RUNTIME_COMM_COLLECTIVES_H
#define LOCKSTEP_RUNTIME_COMM_COLLECTIVES_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/support/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// One range of a collective. For all-gather outputBytes = members *
/// inputBytes, for reduce-scatter the other way round, else they are equal.
struct CollectiveRange {
  const void *input;
  void *output;
  int64_t inputBytes, outputBytes;
};

/// A collective of the plan with its addresses filled in. `ranges` are handled
/// one after another.
struct Collective {
  uint32_t id = 0;
  artifact::CollectiveKind kind = artifact::CollectiveKind::AllReduce;
  uint32_t communicator = 0;
  artifact::Reduction reduction = artifact::Reduction::Sum;
  artifact::DType dtype = artifact::DType::F32;
  uint32_t root = 0;
  std::vector<CollectiveRange> ranges;
  /// Nothing comes between its start and its wait.
  bool awaitedNext = false;
  std::string name;
};

class Collectives {
public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Queues a collective; its memory belongs to it until wait(id) returns.
  virtual void start(Collective collective) = 0;
  /// Blocks until the collective with this id is done. Error: a rank was lost.
  virtual Status wait(uint32_t id) = 0;

  /// For start-up and checkpoints, outside programs; over all ranks.
  virtual Status broadcast(void *data, int64_t bytes, int root) = 0;
  virtual Status barrier() = 0;
};

/// Collectives of a plan for one rank: copies from input to output.
std::unique_ptr<Collectives> createSingleRank();

/// dst = a (op) b elementwise, for the element types that plans reduce: floats
/// of any width (rounded after each operation) and integers. Null for others.
using ReduceFunction = void (*)(void *dst, const void *a, const void *b,
                                size_t count);
ReduceFunction reduceFunction(artifact::DType dtype,
                              artifact::Reduction reduction);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_COLLECTIVES_H
