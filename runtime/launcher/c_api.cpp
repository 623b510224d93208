#include "runtime/launcher/run.h"
#include "runtime/lockstep.h"

#include <cmath>

using namespace lockstep;
using namespace lockstep::runtime;

struct lockstep_run {
  std::unique_ptr<Run> run;
};

static thread_local std::string lastError;

static int report(const Status &status) {
  lastError = status.ok() ? "" : status.toString();
  return status.exitCode();
}

static int misuse(const char *what) { return report(usageError(what)); }

static RunOptions optionsFrom(const char *artifact,
                              const lockstep_options &given) {
  RunOptions options;
  options.artifact = artifact;
  options.version = LOCKSTEP_VERSION;
  auto text = [](const char *value) { return value ? value : ""; };
  if (given.data)
    options.data = {given.data};
  if (given.validation_data)
    options.validationData = {given.validation_data};
  options.checkpointFolder = text(given.checkpoint_dir);
  options.weights = text(given.weights);
  if (given.resume)
    options.resume = given.resume;
  if (given.seed)
    options.seed = *given.seed;
  if (given.keep)
    options.keep = given.keep;
  return options;
}

static Status open(const char *artifact, const lockstep_options &options,
                   lockstep_run **run) {
  LOCKSTEP_ASSIGN_OR_RETURN(World world, worldFromEnvironment());
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Run> opened,
                            Run::open(optionsFrom(artifact, options), world));
  *run = new lockstep_run{std::move(opened)};
  return Status::success();
}

int lockstep_open(const char *artifact, const lockstep_options *options,
                  lockstep_run **run) {
  if (!artifact || !run)
    return misuse("lockstep_open needs an artifact and a place for the run");
  *run = nullptr;
  lockstep_options none = {};
  none.size = sizeof(none);
  if (options && options->size != sizeof(lockstep_options))
    return misuse("lockstep_options has another size: set size, and build "
                  "against this version's header");
  return report(open(artifact, options ? *options : none, run));
}

int lockstep_input(lockstep_run *run, const char *name, void **memory,
                   size_t *bytes) {
  if (!run || !name || !memory || !bytes)
    return misuse("lockstep_input needs a run, a name and places");
  Session &session = run->run->session();
  const artifact::ProgramT &program = *session.program("step");
  for (const auto &input : program.inputs)
    if (input->name == name) {
      *memory = session.place(program, *input);
      *bytes = size_t(input->bytes);
      return report(Status::success());
    }
  return report(
      inputError("the artifact has no input '" + std::string(name) + "'"));
}

int lockstep_set(lockstep_run *run, const char *name, double value) {
  if (!run || !name)
    return misuse("lockstep_set needs a run and a name");
  return report(run->run->session().hyperparametersOf().set(run->run->plan(),
                                                            name, value));
}

int lockstep_step(lockstep_run *run, lockstep_metrics *metrics) {
  if (!run)
    return misuse("lockstep_step needs a run");
  int64_t step = run->run->nextStep();
  StatusOr<StepMetrics> result = run->run->step();
  if (!result.ok())
    return report(result.status());
  if (metrics)
    *metrics = {step, result->loss, result->gradNorm.value_or(NAN),
                run->run->session().hyperparametersOf().learningRateAt(step)};
  if (!std::isfinite(result->loss))
    return report(lossNotFinite("the loss is not finite at step " +
                                std::to_string(step)));
  return report(Status::success());
}

int lockstep_evaluate(lockstep_run *run, double *loss) {
  if (!run || !loss)
    return misuse("lockstep_evaluate needs a run and a place for the loss");
  StatusOr<double> result = run->run->evaluate();
  if (result.ok())
    *loss = *result;
  return report(result.status());
}

int lockstep_save(lockstep_run *run) {
  return run ? report(run->run->saveCheckpoint())
             : misuse("lockstep_save needs a run");
}

int lockstep_save_weights(lockstep_run *run, const char *path) {
  return run && path ? report(run->run->saveWeights(path))
                     : misuse("lockstep_save_weights needs a run and a path");
}

int lockstep_close(lockstep_run *run) {
  if (!run)
    return 0;
  Status status = run->run->close();
  delete run;
  return report(status);
}

const char *lockstep_error(void) { return lastError.c_str(); }

const char *lockstep_version(void) { return LOCKSTEP_VERSION; }
