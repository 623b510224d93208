// One rank of a run, from opening the artifact to leaving: what the launcher's
// training loop and the C API (runtime/lockstep.h) are made of.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_RUN_H
#define LOCKSTEP_RUNTIME_LAUNCHER_RUN_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/control_client.h"
#include "runtime/data/data_source.h"
#include "runtime/executor/session.h"
#include "runtime/launcher/last_lines.h"
#include "runtime/launcher/run_options.h"
#include "runtime/launcher/world.h"

#include <atomic>
#include <deque>

namespace lockstep::runtime {

class Run {
public:
  /// Opens artifact and data, joins the other ranks, gives the weights their
  /// first values or those of a checkpoint. Errors are told to the other ranks.
  static StatusOr<std::unique_ptr<Run>> open(const RunOptions &options,
                                             const World &world);
  ~Run();

  /// The next batch and step; nextStep() goes up by one. Without --data the
  /// caller has filled the inputs.
  StatusOr<StepMetrics> step();
  /// Mean loss of the evaluation program over the validation data.
  StatusOr<double> evaluate();
  /// Rank 0 writes; the others wait.
  Status saveCheckpoint();
  Status saveWeights(const std::string &path);
  /// Says goodbye to the other ranks.
  Status close();

  /// Tells the other ranks that this one fails, and hands the error on. A lost
  /// rank is named by the control server, which then ends this process.
  Status fail(Status status);

  /// The signal because of which the run stops before the next step; never
  /// amid the steps of a launch. All ranks give the same answer. `received`: a
  /// signal this process got, or 0.
  std::optional<int> stopSignal(int received);

  /// The step that step() runs next; steps before it are done.
  int64_t nextStep() const { return next; }
  /// 0 when nothing says how long to train.
  int64_t totalSteps() const { return total; }
  const World &world() const { return place; }
  const ArtifactReader &artifact() const { return *reader; }
  const artifact::PlanT &plan() const { return reader->plan(); }
  Session &session() { return *model; }
  const DataSource &data() const { return *training; }
  /// What the log's header says of the checkpoint resumed from; "" for none.
  const std::string &resumedFrom() const { return resumed; }
  void setLastLine(const std::string &line);

private:
  Run(const RunOptions &options, const World &world)
      : options(options), place(world) {}
  Status openParts();
  Status join();
  Status openSession();
  Status openSources();
  Status resume();
  Status resumeOnFirstRank(CheckpointState &state);
  Status shareState(CheckpointState &state);
  Status shareTensor(const artifact::TensorT &tensor);
  Status fill(DataSource &source, int64_t first, int64_t count,
              const char *program);
  void fillAhead(int64_t first);
  int64_t launchSize(int64_t first) const;
  Status launch();
  Status chooseSteps();

  RunOptions options;
  World place;
  std::unique_ptr<ArtifactReader> reader;
  std::unique_ptr<ControlServer> server;
  std::unique_ptr<ControlClient> control;
  std::unique_ptr<Collectives> collectives;
  std::unique_ptr<Session> model;
  std::unique_ptr<DataSource> training, validation;
  LastLines lastLines;
  std::string resumed;
  int64_t next = 0, total = 0;
  int64_t filled = -1; ///< the first step whose batch was written ahead
  Status filledStatus;
  std::deque<StepMetrics> done; ///< of the launch before, not yet handed out
  uint64_t seed = 0;
  std::atomic<int64_t> reportedStep{0};
  std::atomic<Session *> reportedSession{nullptr};
  bool stopRequested = false;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_RUN_H
