#include "runtime/launcher/train.h"
#include "runtime/artifact/describe.h"
#include "runtime/launcher/run_log.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/signals.h"

#include <cmath>
#include <csignal>
#include <filesystem>

namespace lockstep::runtime {

namespace {

/// The state of one rank's loop.
class Loop {
public:
  Loop(const RunOptions &options, Run &run, RunLog &log, StopSignals &signals)
      : options(options), run(run), log(log), signals(signals) {}
  StatusOr<int> execute();

private:
  Status oneStep();
  Status evaluate(int64_t step);
  Status finish();
  bool dueAfter(int64_t step, int64_t every) const {
    return every > 0 && (step + 1) % every == 0;
  }

  const RunOptions &options;
  Run &run;
  RunLog &log;
  StopSignals &signals;
  Profile profile;
  int64_t savedAt = -1;
};

Status Loop::oneStep() {
  int64_t step = run.nextStep();
  LOCKSTEP_ASSIGN_OR_RETURN(StepMetrics metrics, run.step());
  double rate = run.session().hyperparametersOf().learningRateAt(step);
  LOCKSTEP_RETURN_IF_ERROR(log.step(step, metrics, rate));
  if (!std::isfinite(metrics.loss)) {
    std::string value = std::isnan(metrics.loss) ? "not a number" : "infinite";
    return run.fail(
        lossNotFinite("the loss is " + value + " at step " +
                      std::to_string(step))
            .remedy("lower --lr, raise --warmup-steps, set --grad-clip, or "
                    "check the data of that step"));
  }
  // The first step warms caches up and would distort the table.
  if (options.profile && step == 0)
    profile.clear();
  if (dueAfter(step, options.evaluateEvery))
    LOCKSTEP_RETURN_IF_ERROR(evaluate(step));
  if (!options.checkpointFolder.empty() &&
      dueAfter(step, options.checkpointEvery)) {
    LOCKSTEP_RETURN_IF_ERROR(run.saveCheckpoint());
    savedAt = run.nextStep();
  }
  return Status::success();
}

Status Loop::evaluate(int64_t step) {
  run.session().executorOf().setProfile(nullptr);
  LOCKSTEP_ASSIGN_OR_RETURN(double loss, run.evaluate());
  if (options.profile)
    run.session().executorOf().setProfile(&profile);
  return log.validation(step, loss);
}

Status Loop::finish() {
  if (!options.checkpointFolder.empty() && savedAt != run.nextStep()) {
    LOCKSTEP_RETURN_IF_ERROR(run.saveCheckpoint());
    log.say("checkpoint of step " + std::to_string(run.nextStep()) + " in " +
            options.checkpointFolder);
  }
  if (!options.saveWeights.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(run.saveWeights(options.saveWeights));
    log.say("weights in " + options.saveWeights);
  }
  if (!profile.empty() && run.world().rank == 0)
    log.say(profile.table());
  return run.close();
}

StatusOr<int> Loop::execute() {
  if (options.profile)
    run.session().executorOf().setProfile(&profile);
  std::optional<int> signal;
  while (run.nextStep() < run.totalSteps()) {
    signal = run.stopSignal(signals.received());
    if (signal)
      break;
    LOCKSTEP_RETURN_IF_ERROR(oneStep());
  }
  if (signal)
    log.say("stopping before step " + std::to_string(run.nextStep()) +
            " because of signal " + std::to_string(*signal));
  LOCKSTEP_RETURN_IF_ERROR(finish());
  return signal ? 128 + *signal : 0;
}

} // namespace

/// What rank 0 writes hours later must be writable now.
static Status checkOutputs(const RunOptions &options) {
  auto probe = [](const std::string &path) {
    return AtomicFile::create(path).status();
  };
  if (!options.saveWeights.empty())
    LOCKSTEP_RETURN_IF_ERROR(probe(options.saveWeights));
  if (options.checkpointFolder.empty())
    return Status::success();
  std::error_code error;
  std::filesystem::create_directories(options.checkpointFolder, error);
  if (error)
    return inputError("cannot make the folder: " + error.message())
        .at(options.checkpointFolder)
        .remedy("choose another --checkpoint-dir");
  return probe(options.checkpointFolder + "/.probe");
}

static std::string describeStart(const Run &run) {
  const artifact::PlanT &plan = run.plan();
  return plan.model + " on " + std::to_string(plan.ranks) +
         (plan.ranks == 1 ? " rank" : " ranks") + ", global batch " +
         std::to_string(plan.global_batch) + ", " + run.data().describe() +
         ", steps " + std::to_string(run.nextStep()) + " to " +
         std::to_string(run.totalSteps());
}

/// "GPU 0 (NVIDIA H200, sm_90): arena 1.2 GB, workspace of cuBLASLt 33.6 MB".
static std::string describeMemory(const Device &device) {
  std::string text = device.describe() + ":";
  for (const MemoryLine &line : device.memory())
    text += (text.back() == ':' ? " " : ", ") + line.purpose + " " +
            bytesText(double(line.bytes));
  return text;
}

StatusOr<int> train(const RunOptions &options, const World &world) {
  StopSignals signals;
  // A write to a rank that died is an error, which is told, and not a death.
  std::signal(SIGPIPE, SIG_IGN);
  if (options.data.empty())
    return usageError("--data says what to train on, for example --data "
                      "'train_*.bin' or --data synthetic");
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Run> run,
                            Run::open(options, world));
  if (!run->totalSteps())
    return run->fail(usageError("--steps says how long to train"));
  if (world.rank == 0)
    if (Status status = checkOutputs(options); !status.ok())
      return run->fail(std::move(status));
  StatusOr<std::unique_ptr<RunLog>> log = RunLog::open(options, *run);
  if (!log.ok())
    return run->fail(std::move(log).status());
  (*log)->say(describeStart(*run));
  if (const Device &device = run->session().deviceOf(); !device.hostArena())
    (*log)->say(describeMemory(device));
  if (!run->resumedFrom().empty())
    (*log)->say("resumed from " + run->resumedFrom());
  return Loop(options, *run, **log, signals).execute();
}

} // namespace lockstep::runtime
