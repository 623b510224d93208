// Programs on the host: launches become parallel loops or library calls,
// collectives go to their own thread and are awaited where the plan says.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_HOST_EXECUTOR_H
#define LOCKSTEP_RUNTIME_EXECUTOR_HOST_EXECUTOR_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/comm/collectives.h"
#include "runtime/device/host/arena.h"
#include "runtime/device/host/code_object.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/executor/executor.h"

#include <map>

namespace lockstep::runtime {

class HostExecutor final : public Executor {
public:
  /// Loads code and library kernels and resolves every program. `artifact`,
  /// `arena` and `collectives` must outlive the executor. Errors: no code for
  /// this processor, a missing symbol, attributes or operands that do not fit.
  static StatusOr<std::unique_ptr<Executor>>
  create(const ArtifactReader &artifact, const Arena &arena,
         Collectives &collectives);

  std::byte *place(const artifact::ProgramT &, int64_t offset,
                   int64_t) override {
    return arena.at<std::byte>(offset);
  }
  bool copiesAhead() const override { return false; }
  Status stage(const artifact::ProgramT &, int64_t) override {
    return Status::success();
  }
  /// Runs the program from start to end; `runs` is 1.
  Status start(const artifact::ProgramT &program, int64_t runs) override;
  Status finish() override { return Status::success(); }

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

  HostExecutor(const ArtifactReader &artifact, const Arena &arena,
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
  std::map<const artifact::ProgramT *, std::vector<Operation>> programs;
  std::map<uint32_t, std::string> collectiveNames; ///< for the profile
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_HOST_EXECUTOR_H
