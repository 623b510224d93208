// Replays the programs of a plan on one device. Nothing is decided here;
// everything is resolved when the artifact is loaded.
//
// One launch runs a program once, or, on a GPU, several times in a row: the
// caller writes inputs and scalars where place() says, calls stage(), start()
// and finish(), and reads metrics where place() says. Between start and finish
// the caller is free to prepare the next batch when the executor copiesAhead().
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H
#define LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/executor/profile.h"
#include "runtime/support/status.h"

#include <atomic>
#include <cstddef>

namespace lockstep::runtime {

class Executor {
public:
  virtual ~Executor() = default;
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Host memory that stands for an input or scalar of `program` at this
  /// offset of the arena, in run `run` of a launch. Same address for the
  /// executor's whole life.
  virtual std::byte *place(const artifact::ProgramT &program, int64_t offset,
                           int64_t run = 0) = 0;

  /// Whether inputs written between start and finish are those of the next
  /// launch. Otherwise they lie in memory that the program may still use, or
  /// that another program shares.
  virtual bool copiesAhead() const = 0;

  /// The inputs of the next launch, of `runs` runs, are written: they may be
  /// copied.
  virtual Status stage(const artifact::ProgramT &program, int64_t runs = 1) = 0;

  /// Starts a launch; scalars are written. Error: a kernel's, or a lost rank.
  virtual Status start(const artifact::ProgramT &program, int64_t runs = 1) = 0;

  /// Waits until the launch has ended and its metrics can be read.
  virtual Status finish() = 0;

  /// Where times are added when not null.
  void setProfile(Profile *target) { profile = target; }

  /// Counts instructions; a rank whose count stands still is stuck.
  uint64_t progress() const { return executed.load(); }
  /// Whether it is waiting for a collective, that is, for other ranks.
  bool waiting() const { return inCollective.load(); }

protected:
  Executor() = default;
  Profile *profile = nullptr;
  std::atomic<uint64_t> executed{0};
  std::atomic<bool> inCollective{false};
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H
