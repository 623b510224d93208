// lockstep-run: trains what an artifact holds, on local ranks or as one rank of
// a run that torchrun, Slurm or mpirun started.
#include "runtime/artifact/artifact_reader.h"
#include "runtime/launcher/local_launcher.h"
#include "runtime/launcher/train.h"
#include "tools/common/cli.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

using namespace lockstep;
using namespace lockstep::runtime;

namespace {

/// Flags that need a look after parsing.
struct RawFlags {
  std::optional<int> ranks;
  std::string tokenType = "uint16";
  std::string betas;
  bool noShuffle = false;
  bool noGraph = false;
  std::map<std::string, double> numbers; ///< hyperparameters given
};

void addDataFlags(CLI::App &app, RunOptions &options, RawFlags &raw) {
  app.add_option(
         "--data", options.data,
         "what to train on: a glob of token files (llm.c or headerless),"
         " NAME=file.npy or NAME=file.safetensors for each input, a "
         ".safetensors file with samples first or with step{i}.NAME "
         "entries, or 'synthetic'")
      ->allow_extra_args(false)
      ->group("Data");
  app.add_option("--data-dtype", raw.tokenType,
                 "token type of headerless files: uint8, uint16, int32, uint32,"
                 " int64")
      ->group("Data");
  app.add_flag("--no-shuffle", raw.noShuffle, "samples in the files' order")
      ->group("Data");
  app.add_option("--val-data", options.validationData,
                 "what to evaluate on, as --data; in the files' order")
      ->allow_extra_args(false)
      ->group("Data");
  app.add_option("--eval-every", options.evaluateEvery,
                 "evaluate after every N steps; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->group("Data");
  app.add_option("--eval-steps", options.evaluateSteps,
                 "batches per evaluation; 0: all of --val-data")
      ->check(CLI::NonNegativeNumber)
      ->group("Data");
}

void addHyperparameterFlags(CLI::App &app, RunOptions &options, RawFlags &raw) {
  const char *group = "Hyperparameters (defaults are the artifact's)";
  auto number = [&](const char *flag, const char *name, const char *text) {
    app.add_option_function<double>(
           flag, [&raw, name](const double &v) { raw.numbers[name] = v; }, text)
        ->group(group);
  };
  app.add_option("--steps", options.steps,
                 "steps in all, those before a resumed checkpoint included; 0: "
                 "the schedule's total steps, else one epoch")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  number("--lr", "lr", "learning rate (the peak, with a schedule)");
  app.add_option("--lr-schedule", options.schedule,
                 "constant, linear or cosine")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->group(group);
  app.add_option("--warmup-steps", options.warmupSteps,
                 "steps of linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--total-steps", options.totalSteps,
                 "where the schedule ends; the rate stays at --min-lr after it")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--min-lr", options.minimumRate, "the schedule's last rate")
      ->group(group);
  number("--grad-clip", "grad_clip",
         "clip gradients to this global norm; 0: no clipping");
  number("--weight-decay", "weight_decay", "weight decay");
  number("--momentum", "momentum", "momentum of SGD");
  app.add_option("--betas", raw.betas, "beta1,beta2 of Adam")->group(group);
  number("--eps", "eps", "epsilon of Adam");
  app.add_option("--seed", options.seed, "of weights, dropout and shuffling")
      ->group(group);
}

void addOutputFlags(CLI::App &app, RunOptions &options) {
  const char *group = "Weights, checkpoints and logs";
  app.add_option("--weights", options.weights,
                 "file or folder of the weights that the artifact names by "
                 "hash; default: beside the artifact")
      ->group(group);
  app.add_option("--checkpoint-dir", options.checkpointFolder,
                 "folder for checkpoints; one is written at the end and on "
                 "SIGTERM or SIGINT as well")
      ->group(group);
  app.add_option("--checkpoint-every", options.checkpointEvery,
                 "write a checkpoint after every N steps; 0: only at the end")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--keep", options.keep, "newest checkpoints to keep; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--resume", options.resume,
                 "go on from this checkpoint; without a value from the newest "
                 "in --checkpoint-dir")
      ->expected(0, 1)
      ->default_str("")
      ->group(group);
  app.add_option("--save-weights", options.saveWeights,
                 "write the final weights as safetensors")
      ->group(group);
  app.add_option("--log", options.log, "JSON lines: a header, then every step")
      ->group(group);
  app.add_option("--log-dir", options.logFolder,
                 "folder for the JSON lines of every rank (rank_R.jsonl)")
      ->group(group);
  app.add_flag("--profile", options.profile,
               "print the time of every kernel at the end")
      ->group(group);
}

void addFlags(CLI::App &app, RunOptions &options, RawFlags &raw) {
  app.add_option("artifact", options.artifact,
                 "a .lockstep file made by lockstep-compile")
      ->required();
  app.add_option("-n", raw.ranks,
                 "ranks to start here; must be what the artifact is for. "
                 "Without it, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
                 "(torchrun), Slurm's or mpirun's variables count, else all "
                 "ranks are started here")
      ->check(CLI::PositiveNumber);
  addDataFlags(app, options, raw);
  addHyperparameterFlags(app, options, raw);
  addOutputFlags(app, options);
  app.add_option("--join-timeout", options.joinSeconds,
                 "seconds until all ranks must be there")
      ->check(CLI::PositiveNumber);
  app.add_option("--hang-timeout", options.hangSeconds,
                 "seconds without progress after which a rank counts as stuck")
      ->check(CLI::PositiveNumber);
  app.add_flag("--poison", options.poison,
               "fill the memory with NaN first, to show reads of what was "
               "never written");
  app.add_flag("--allow-jit", options.allowJit,
               "let the GPU's driver compile an artifact that has PTX only")
      ->group("GPU");
  app.add_option("--steps-per-launch", options.stepsPerLaunch,
                 "steps in one CUDA graph, which then runs without the host; "
                 "checkpoints, evaluations and stops come between launches")
      ->check(CLI::PositiveNumber)
      ->group("GPU");
  app.add_flag("--no-graph", raw.noGraph,
               "run kernel after kernel instead of one CUDA graph, so that an "
               "error names its kernel")
      ->group("GPU");
}

Status interpret(RunOptions &options, const RawFlags &raw) {
  static const std::map<std::string, DType> types = {{"uint8", DType::U8},
                                                     {"uint16", DType::U16},
                                                     {"int32", DType::I32},
                                                     {"uint32", DType::U32},
                                                     {"int64", DType::I64}};
  auto type = types.find(raw.tokenType);
  if (type == types.end())
    return usageError("--data-dtype " + raw.tokenType +
                      " is not one of uint8, uint16, int32, uint32, int64");
  options.tokenType = type->second;
  options.shuffle = !raw.noShuffle;
  options.graph = !raw.noGraph;
  options.hyperparameters = raw.numbers;
  if (!raw.betas.empty()) {
    char *end = nullptr;
    double first = strtod(raw.betas.c_str(), &end), second = 0;
    bool good = end != raw.betas.c_str() && *end == ',';
    const char *rest = good ? end + 1 : "";
    second = strtod(rest, &end);
    if (!good || end == rest || *end)
      return usageError("--betas " + raw.betas +
                        " is not of the form 0.9,0.999");
    options.hyperparameters["beta1"] = first;
    options.hyperparameters["beta2"] = second;
  }
  if (options.evaluateEvery && options.validationData.empty())
    return usageError("--eval-every needs --val-data");
  if (options.checkpointEvery && options.checkpointFolder.empty())
    return usageError("--checkpoint-every needs --checkpoint-dir");
  return Status::success();
}

StatusOr<int> run(const RunOptions &options, const RawFlags &raw,
                  const std::vector<std::string> &arguments) {
  auto checkCount = [&](int ranks, const std::string &who) {
    return !raw.ranks || *raw.ranks == ranks
               ? Status::success()
               : inputError(who + " for " + std::to_string(ranks) +
                            " ranks, but -n is " + std::to_string(*raw.ranks))
                     .remedy("leave out -n, or compile with --ranks " +
                             std::to_string(*raw.ranks));
  };
  if (worldInEnvironment()) {
    LOCKSTEP_ASSIGN_OR_RETURN(World world, worldFromEnvironment());
    if (!world.local)
      LOCKSTEP_RETURN_IF_ERROR(checkCount(world.ranks, "the environment is"));
    return train(options, world);
  }
  int ranks = 0;
  {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ArtifactReader> reader,
                              ArtifactReader::open(options.artifact));
    ranks = int(reader->plan().ranks);
  }
  LOCKSTEP_RETURN_IF_ERROR(
      checkCount(ranks, "the artifact is compiled").at(options.artifact));
  return ranks == 1 ? train(options, World()) : launchLocally(ranks, arguments);
}

} // namespace

/// OpenMP's threads wait for work by spinning for milliseconds, which is a
/// disaster on a machine that does other things as well, and they read their
/// settings before main. Unless the user chose, start again with short spins.
static void startWithShortSpins(char **argv) {
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
    return;
  setenv("GOMP_SPINCOUNT", "5000", 1);
  execv(ownProgram().c_str(), argv); // goes on as it is if that fails
}

int main(int argc, char **argv) {
  startWithShortSpins(argv);
  return tools::runTool([&] {
    tools::CommandLine line("lockstep-run",
                            "Trains the model of an artifact on its ranks.");
    RunOptions options;
    RawFlags raw;
    addFlags(line.app(), options, raw);
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    options.version = tools::versionString();
    options.commandLine.assign(argv + 1, argv + argc);
    if (Status status = interpret(options, raw); !status.ok())
      return tools::finish(status);
    StatusOr<int> code =
        run(options, raw, std::vector<std::string>(argv, argv + argc));
    return code.ok() ? *code : tools::finish(code.status());
  });
}
