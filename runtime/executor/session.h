// One rank's model in memory: the device with its parameters and optimizer
// state, the hyperparameters of the run, and the programs that work on them.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_SESSION_H
#define LOCKSTEP_RUNTIME_EXECUTOR_SESSION_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/comm/collectives.h"
#include "runtime/comm/control_client.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"

#include <map>
#include <memory>
#include <optional>

namespace lockstep::runtime {

class NcclCollectives;
namespace cuda {
class Gpu;
}

/// The hyperparameters of a run: the artifact's, with what the user overrides.
struct Hyperparameters {
  std::map<std::string, double> values;
  artifact::ScheduleT schedule;

  static Hyperparameters defaultsOf(const artifact::PlanT &plan);
  /// Error: no program of the plan has this hyperparameter.
  Status set(const artifact::PlanT &plan, const std::string &name,
             double value);
  double learningRateAt(int64_t step) const;
};

struct SessionOptions {
  uint64_t seed = 0;          ///< of weights and dropout
  std::string weightsPath;    ///< file or folder of external weights
  bool poison = false;        ///< fill the arena with NaN first
  int localRank = 0;          ///< chooses the GPU, modulo those that there are
  bool allowJit = false;      ///< the driver may compile PTX
  bool graph = true;          ///< CUDA graphs
  int64_t stepsPerLaunch = 1; ///< the most; GPUs only
  /// Exchanges NCCL's ids; null for a single rank.
  ControlClient *control = nullptr;
};

/// What a step reports. Absent: the program does not compute it.
struct StepMetrics {
  double loss = 0;
  std::optional<double> gradNorm;
  double milliseconds = 0; ///< its share of a launch, batch reading included
};

class Session {
public:
  /// Opens the device that the artifact has code for, takes its arena and loads
  /// the programs. `artifact` and `collectives` must outlive the session.
  static StatusOr<std::unique_ptr<Session>>
  create(const ArtifactReader &artifact, Collectives &collectives,
         Hyperparameters hyperparameters, SessionOptions options);

  /// Gives every persistent tensor its first value: weights, or drawn.
  Status initialize();

  /// Starts steps `first`, `first` + 1, ... in one launch, on the inputs that
  /// were written to their places.
  Status startSteps(int64_t first, int64_t count = 1);
  /// Waits for them.
  StatusOr<std::vector<StepMetrics>> finishSteps(int64_t count = 1);
  /// Runs the evaluation program; the loss.
  StatusOr<double> evaluate();

  const artifact::PlanT &plan() const { return artifact.plan(); }
  /// Null when the plan has no such program.
  const artifact::ProgramT *program(const std::string &name) const;
  /// Where the inputs of run `run` of the next launch of a program are written.
  std::byte *place(const artifact::ProgramT &program,
                   const artifact::InputT &input, int64_t run = 0) const {
    return executor->place(program, input.offset, run);
  }
  Device &deviceOf() const { return *device; }
  Executor &executorOf() const { return *executor; }
  Hyperparameters &hyperparametersOf() { return hyperparameters; }
  uint64_t seed() const { return options.seed; }
  void setSeed(uint64_t seed) { options.seed = seed; }

  ~Session();

private:
  Session(const ArtifactReader &artifact, Hyperparameters hyperparameters,
          SessionOptions options);
  Status initializeTensor(const artifact::TensorT &tensor);
  Status loadExternal(const artifact::TensorT &tensor);
  Status copyValues(const artifact::TensorT &tensor, const void *values,
                    int64_t bytes);
  Status draw(const artifact::TensorT &tensor);
  Status openHost(int64_t arenaBytes, Collectives &collectives);
  Status openGpu(int64_t arenaBytes);
  void writeScalars(const artifact::ProgramT &program, int64_t step,
                    int64_t run);
  /// This rank's place in its group of a communicator.
  int64_t coordinate(uint32_t communicator) const;
  std::optional<double> metric(const artifact::ProgramT &program,
                               const std::string &name, int64_t run) const;

  const ArtifactReader &artifact;
  Hyperparameters hyperparameters;
  SessionOptions options;
  int rank = 0;
  // Later ones use earlier ones.
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<NcclCollectives> gpuCollectives;
  std::unique_ptr<Device> device;
  std::unique_ptr<Executor> executor;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_SESSION_H
