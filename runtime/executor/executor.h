// Replays the programs of a plan on the host: launches become parallel loops
// or library calls, collectives go to their own thread and are awaited where
// the plan says. Nothing is decided here; everything is resolved when the
// program is loaded.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H
#define LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/comm/collectives.h"
#include "runtime/device/host/arena.h"
#include "runtime/device/host/code_object.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/executor/profile.h"

#include <atomic>
#include <map>

namespace lockstep::runtime {

class Executor {
public:
  /// Loads code and library kernels and resolves every program. `artifact`,
  /// `arena` and `collectives` must outlive the executor. Errors: no code for
  /// this processor, a missing symbol, attributes or operands that do not fit.
  static StatusOr<std::unique_ptr<Executor>>
  create(const ArtifactReader &artifact, const Arena &arena,
         Collectives &collectives);

  /// Runs a program once from start to end. Error: a kernel's, or a lost rank.
  Status run(const std::string &program);

  /// Where times are added when not null.
  void setProfile(Profile *target) { profile = target; }

  /// Counts instructions; a rank whose count stands still is stuck.
  uint64_t progress() const { return executed.load(); }
  /// Whether it is waiting for a collective, that is, for other ranks.
  bool waiting() const { return inCollective.load(); }

private:
  /// A segment of a launch with its addresses.
  struct Segment {
    std::vector<std::byte *> bases;
    std::vector<int64_t> strides; ///< per iteration of the loop around
    std::vector<void *> arguments;
    int64_t items = 1;
    bool moves = false; ///< some stride is not 0
  };
  /// Work items [begin, end) of a segment: what one thread takes at a time.
  struct Chunk {
    uint32_t segment;
    int64_t begin, end;
  };
  struct Operation {
    enum class Kind { Generated, Library, Start, Wait, Loop } kind;
    uint32_t kernel = 0;
    GeneratedKernel function = nullptr;
    std::vector<Segment> segments;
    std::vector<Chunk> chunks;
    Collective collective;
    std::vector<int64_t> inputStrides, outputStrides;
    int64_t count = 1;
    std::vector<Operation> body;
  };
  using Instructions = std::vector<std::unique_ptr<artifact::InstructionT>>;

  Executor(const ArtifactReader &artifact, const Arena &arena,
           Collectives &collectives)
      : artifact(artifact), arena(arena), collectives(collectives) {}
  Status load();
  Status resolve(const Instructions &from, std::vector<Operation> &to);
  Status resolveLaunch(const artifact::LaunchT &launch, Operation &to);
  Status checkOperands(const artifact::LaunchT &launch) const;
  void resolveCollective(const artifact::CollectiveStartT &start,
                         Operation &to);
  static void cut(Operation &operation, const artifact::LaunchT &launch,
                  const artifact::KernelT &kernel);

  Status execute(std::vector<Operation> &operations, int64_t iteration);
  Status executeOne(Operation &operation, int64_t iteration);
  Status launch(Operation &operation, int64_t iteration);
  void startCollective(const Operation &operation, int64_t iteration);

  const ArtifactReader &artifact;
  const Arena &arena;
  Collectives &collectives;
  CodeObject code;
  std::vector<GeneratedKernel> functions;
  std::vector<std::unique_ptr<LibraryKernel>> library;
  std::map<std::string, std::vector<Operation>> programs;
  std::map<uint32_t, std::string> collectiveNames; ///< for the profile
  Profile *profile = nullptr;
  std::atomic<uint64_t> executed{0};
  std::atomic<bool> inCollective{false};
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_EXECUTOR_H
