#include "runtime/launcher/run.h"
#include "runtime/comm/gloo_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace lockstep::runtime {

std::string comparableFlags(const RunOptions &options) {
  std::string text =
      "steps=" + std::to_string(options.steps) +
      " eval-every=" + std::to_string(options.evaluateEvery) +
      " eval-steps=" + std::to_string(options.evaluateSteps) +
      " checkpoint-every=" + std::to_string(options.checkpointEvery) +
      " resume=" + (options.resume ? "yes" : "no") +
      " steps-per-launch=" + std::to_string(options.stepsPerLaunch) +
      " shuffle=" + (options.shuffle ? "yes" : "no") +
      " data-dtype=" + std::string(dtypeName(options.tokenType));
  if (options.seed)
    text += " seed=" + std::to_string(*options.seed);
  if (options.schedule)
    text += " lr-schedule=" + *options.schedule;
  if (options.minimumRate)
    text += " min-lr=" + std::to_string(*options.minimumRate);
  if (options.warmupSteps)
    text += " warmup-steps=" + std::to_string(*options.warmupSteps);
  if (options.totalSteps)
    text += " total-steps=" + std::to_string(*options.totalSteps);
  for (const auto &[name, value] : options.hyperparameters) {
    char number[32];
    snprintf(number, sizeof(number), "%.17g", value);
    text += " " + name + "=" + number;
  }
  return text;
}

StatusOr<std::unique_ptr<Run>> Run::open(const RunOptions &options,
                                         const World &world) {
  std::unique_ptr<Run> run(new Run(options, world));
  if (Status status = run->openParts(); !status.ok())
    return run->fail(std::move(status));
  return run;
}

Run::~Run() {
  // Its thread looks at the session; the server, if it is ours, outlives all.
  control.reset();
}

Status Run::fail(Status status) {
  if (!control)
    return status;
  if (status.code() == ExitCode::RankLost) {
    // The control server finds out which rank it was, and ends this process.
    sleep(15);
    return status;
  }
  // All ranks see the same loss; rank 0 gets to write its log first.
  if (status.code() == ExitCode::LossNotFinite && place.rank != 0)
    sleep(2);
  control->fail(status.exitCode(), status.toString());
  return status;
}

Status Run::openParts() {
  LOCKSTEP_ASSIGN_OR_RETURN(reader, ArtifactReader::open(options.artifact));
  if (int(plan().ranks) != place.ranks)
    return inputError("the artifact is compiled for " +
                      std::to_string(plan().ranks) + " ranks, but " +
                      std::to_string(place.ranks) + " are started")
        .at(options.artifact)
        .remedy("start " + std::to_string(plan().ranks) +
                " ranks, or compile with --ranks " +
                std::to_string(place.ranks));
  LOCKSTEP_RETURN_IF_ERROR(reader->verifyWeights());
  LOCKSTEP_RETURN_IF_ERROR(join());
  LOCKSTEP_RETURN_IF_ERROR(openSession());
  LOCKSTEP_RETURN_IF_ERROR(resume());
  LOCKSTEP_RETURN_IF_ERROR(openSources());
  return chooseSteps();
}

static StatusOr<Socket> listenForRanks(const World &world) {
  if (world.listener >= 0)
    return Socket(world.listener);
  StatusOr<Socket> socket = inputError("no port is free");
  for (int i = 0; i < world.portsToTry && world.firstPort + i < 65536; ++i) {
    socket = Socket::listen(world.firstPort + i);
    if (socket.ok())
      break;
  }
  return socket;
}

Status Run::join() {
  if (place.ranks == 1) {
    collectives = createSingleRank();
    return Status::success();
  }
  std::string file = options.artifact;
  file = file.substr(file.rfind('/') + 1);
  RunIdentity identity;
  identity.ranks = place.ranks;
  identity.basePort = place.masterPort;
  identity.planHash = toHex(reader->planHash());
  identity.planName = file + ", compiled by " + reader->compilerVersion();
  identity.flags = comparableFlags(options);
  ControlTimeouts limits;
  limits.rendezvous = Milliseconds(options.joinSeconds * 1000);
  limits.hang = Milliseconds(options.hangSeconds * 1000);
  if (place.lastLines >= 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(lastLines,
                              LastLines::open(place.lastLines, place.ranks));
  }
  if (place.rank == 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(Socket listener, listenForRanks(place));
    server =
        std::make_unique<ControlServer>(std::move(listener), identity, limits);
  }
  ControlCallbacks callbacks;
  callbacks.end = [local = place.local](int code, const std::string &text) {
    // Our own launcher tells the reason once for all ranks.
    std::string line = (local ? "ended: " : "error: ") + text + "\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
    _exit(code);
  };
  callbacks.position = [this] {
    RankPosition position;
    position.step = reportedStep;
    if (Session *session = reportedSession) {
      position.instructions = session->executorOf().progress();
      position.waiting = session->executorOf().waiting();
    }
    return position;
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      control, ControlClient::join(place.masterAddress, place.firstPort,
                                   place.portsToTry, place.rank, identity,
                                   limits, std::move(callbacks)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      collectives, createGlooCollectives(plan(), place.rank, *control));
  return Status::success();
}

static StatusOr<Hyperparameters>
hyperparametersOf(const RunOptions &options, const artifact::PlanT &plan) {
  using Kind = artifact::ScheduleKind;
  Hyperparameters result = Hyperparameters::defaultsOf(plan);
  for (const auto &[name, value] : options.hyperparameters)
    LOCKSTEP_RETURN_IF_ERROR(result.set(plan, name, value));
  if (options.schedule)
    result.schedule.kind = *options.schedule == "cosine"   ? Kind::Cosine
                           : *options.schedule == "linear" ? Kind::Linear
                                                           : Kind::Constant;
  if (options.minimumRate)
    result.schedule.min_lr = *options.minimumRate;
  if (options.warmupSteps)
    result.schedule.warmup_steps = *options.warmupSteps;
  if (options.totalSteps)
    result.schedule.total_steps = *options.totalSteps;
  return result;
}

Status Run::openSession() {
  LOCKSTEP_ASSIGN_OR_RETURN(Hyperparameters hyperparameters,
                            hyperparametersOf(options, plan()));
  seed = options.seed.value_or(plan().seed);
  SessionOptions sessionOptions;
  sessionOptions.seed = seed;
  sessionOptions.weightsPath = options.weights;
  sessionOptions.poison = options.poison;
  sessionOptions.localRank = place.localRank;
  sessionOptions.allowJit = options.allowJit;
  sessionOptions.graph = options.graph;
  sessionOptions.stepsPerLaunch = options.stepsPerLaunch;
  sessionOptions.control = control.get();
  LOCKSTEP_ASSIGN_OR_RETURN(model, Session::create(*reader, *collectives,
                                                   std::move(hyperparameters),
                                                   sessionOptions));
  reportedSession = model.get();
  if (options.resume)
    return Status::success();
  return model->initialize();
}

Status Run::resume() {
  if (!options.resume)
    return Status::success();
  CheckpointState state;
  if (place.rank == 0)
    LOCKSTEP_RETURN_IF_ERROR(resumeOnFirstRank(state));
  LOCKSTEP_RETURN_IF_ERROR(shareState(state));
  next = state.step;
  reportedStep = next;
  seed = state.seed;
  model->setSeed(seed);
  return Status::success();
}

Status Run::resumeOnFirstRank(CheckpointState &state) {
  if (!options.resume->empty()) {
    resumed = *options.resume;
    LOCKSTEP_ASSIGN_OR_RETURN(state, loadCheckpoint(*model, resumed));
    return Status::success();
  }
  if (options.checkpointFolder.empty())
    return usageError("--resume without a path needs --checkpoint-dir");
  std::vector<std::string> paths = listCheckpoints(options.checkpointFolder);
  if (paths.empty())
    return inputError("there is no checkpoint to resume from")
        .at(options.checkpointFolder)
        .remedy("leave out --resume to start from the beginning");
  Status first;
  for (const std::string &path : paths) {
    StatusOr<CheckpointState> loaded = loadCheckpoint(*model, path);
    if (loaded.ok()) {
      state = *loaded;
      resumed = path;
      return Status::success();
    }
    fprintf(stderr, "warning: %s; trying an earlier checkpoint\n",
            loaded.status().toString().c_str());
    if (first.ok())
      first = loaded.status();
  }
  return first;
}

/// Rank 0 has read the checkpoint; the others need no access to its disk.
Status Run::shareState(CheckpointState &state) {
  int64_t numbers[2] = {state.step, int64_t(state.seed)};
  LOCKSTEP_RETURN_IF_ERROR(collectives->broadcast(numbers, sizeof(numbers), 0));
  state.step = numbers[0];
  state.seed = uint64_t(numbers[1]);
  for (const auto &tensor : plan().tensors)
    LOCKSTEP_RETURN_IF_ERROR(shareTensor(*tensor));
  return Status::success();
}

Status Run::shareTensor(const artifact::TensorT &tensor) {
  Device &device = model->deviceOf();
  std::vector<std::byte> copy;
  std::byte *values = device.hostArena();
  if (values) {
    values += tensor.offset;
  } else {
    copy.resize(size_t(tensor.bytes));
    values = copy.data();
    if (place.rank == 0)
      LOCKSTEP_RETURN_IF_ERROR(
          device.read(tensor.offset, values, tensor.bytes));
  }
  LOCKSTEP_RETURN_IF_ERROR(collectives->broadcast(values, tensor.bytes, 0));
  if (device.hostArena() || place.rank == 0)
    return Status::success();
  return device.write(tensor.offset, values, tensor.bytes);
}

Status Run::openSources() {
  DataOptions dataOptions;
  dataOptions.seed = seed;
  dataOptions.shuffle = options.shuffle;
  dataOptions.tokenType = options.tokenType;
  if (!options.data.empty()) {
    DataTarget target{plan(), *model->program("step"), place.rank};
    LOCKSTEP_ASSIGN_OR_RETURN(training,
                              openData(options.data, target, dataOptions));
  }
  if (options.validationData.empty())
    return Status::success();
  const artifact::ProgramT *program = model->program("eval");
  if (!program)
    return inputError("the artifact has no evaluation program")
        .at(options.artifact)
        .remedy("leave out --val-data");
  dataOptions.shuffle = false;
  dataOptions.seed = ~seed; // synthetic validation data differs
  DataTarget validationTarget{plan(), *program, place.rank};
  auto opened = openData(options.validationData, validationTarget, dataOptions);
  if (!opened.ok())
    return std::move(opened).status().at("--val-data");
  validation = std::move(*opened);
  return Status::success();
}

Status Run::chooseSteps() {
  artifact::ScheduleT &schedule = model->hyperparametersOf().schedule;
  total = options.steps ? options.steps : schedule.total_steps;
  if (!total && training)
    total = training->batchesPerEpoch();
  if (!schedule.total_steps)
    schedule.total_steps = total;
  return Status::success();
}

Status Run::fill(DataSource &source, int64_t first, int64_t count,
                 const char *name) {
  const artifact::ProgramT &program = *model->program(name);
  for (int64_t run = 0; run < count; ++run)
    LOCKSTEP_RETURN_IF_ERROR(
        source.fill(first + run, [&](const artifact::InputT &input) {
          return model->place(program, input, run);
        }));
  return model->executorOf().stage(program, count);
}

/// Steps of the launch that begins with step `first`: as many as the user asked
/// for, up to the next checkpoint or evaluation or the end.
int64_t Run::launchSize(int64_t first) const {
  int64_t count = options.stepsPerLaunch;
  for (int64_t every : {options.checkpointEvery, options.evaluateEvery})
    if (every > 0)
      count = std::min(count, every - first % every);
  return total > first ? std::min(count, total - first) : count;
}

/// While the device computes, the next batches are read and copied. What is
/// wrong with them is told when their own launch begins.
void Run::fillAhead(int64_t first) {
  if (!training || !model->executorOf().copiesAhead() || first >= total)
    return;
  filled = first;
  filledStatus = fill(*training, first, launchSize(first), "step");
}

Status Run::launch() {
  auto begin = std::chrono::steady_clock::now();
  int64_t count = launchSize(next);
  Status status;
  if (training && filled != next)
    status = fill(*training, next, count, "step");
  else
    status = filledStatus;
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_ERROR(model->startSteps(next, count));
  fillAhead(next + count);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StepMetrics> metrics,
                            model->finishSteps(count));
  std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - begin;
  for (StepMetrics &step : metrics)
    step.milliseconds = time.count() / double(count);
  done.assign(metrics.begin(), metrics.end());
  return Status::success();
}

StatusOr<StepMetrics> Run::step() {
  if (done.empty())
    if (Status status = launch(); !status.ok())
      return fail(std::move(status));
  StepMetrics metrics = done.front();
  done.pop_front();
  ++next;
  reportedStep = next;
  return metrics;
}

StatusOr<double> Run::evaluate() {
  if (!validation)
    return usageError("--val-data says what to evaluate on");
  int64_t count = options.evaluateSteps;
  if (!count)
    count = validation->batchesPerEpoch();
  if (!count)
    count = 10; // endless data
  double sum = 0;
  for (int64_t batch = 0; batch < count; ++batch) {
    if (Status status = fill(*validation, batch, 1, "eval"); !status.ok())
      return fail(std::move(status));
    StatusOr<double> loss = model->evaluate();
    if (!loss.ok())
      return fail(std::move(loss).status());
    sum += *loss;
  }
  return sum / double(count);
}

Status Run::saveCheckpoint() {
  if (options.checkpointFolder.empty())
    return usageError("--checkpoint-dir says where checkpoints go");
  if (place.rank == 0) {
    Status status = runtime::saveCheckpoint(*model, options.checkpointFolder,
                                            {next, seed}, options.keep);
    if (!status.ok())
      return fail(std::move(status));
  }
  Status status = collectives->barrier();
  return status.ok() ? status : fail(std::move(status));
}

Status Run::saveWeights(const std::string &path) {
  if (place.rank == 0)
    if (Status status = runtime::saveWeights(*model, path); !status.ok())
      return fail(std::move(status));
  Status status = collectives->barrier();
  return status.ok() ? status : fail(std::move(status));
}

Status Run::close() { return control ? control->leave() : Status::success(); }

std::optional<int> Run::stopSignal(int received) {
  if (!done.empty())
    return std::nullopt;
  if (!control)
    return received ? std::optional<int>(received) : std::nullopt;
  if (received && !stopRequested) {
    stopRequested = true;
    control->requestStop(received);
  }
  return control->stopBefore(next);
}

void Run::setLastLine(const std::string &line) {
  if (control)
    control->setLastLine(line);
  lastLines.set(place.rank, line);
}

} // namespace lockstep::runtime
