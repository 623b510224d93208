#include "runtime/launcher/run_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace lockstep::runtime {

// Keys stay in the order of their insertion.
using Json = nlohmann::ordered_json;

StatusOr<std::unique_ptr<RunLog>> RunLog::open(const RunOptions &options,
                                               Run &run) {
  std::unique_ptr<RunLog> log(new RunLog(options, run));
  int rank = run.world().rank;
  log->terminal = rank == 0 && isatty(STDOUT_FILENO);
  if (rank == 0 && !options.log.empty())
    LOCKSTEP_RETURN_IF_ERROR(log->openFile(options.log));
  if (!options.logFolder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.logFolder, error);
    LOCKSTEP_RETURN_IF_ERROR(log->openFile(options.logFolder + "/rank_" +
                                           std::to_string(rank) + ".jsonl"));
  }
  LOCKSTEP_RETURN_IF_ERROR(log->writeLine(log->header()));
  return log;
}

RunLog::~RunLog() {
  finishProgress();
  for (const auto &[path, file] : files)
    fclose(file);
}

Status RunLog::openFile(const std::string &path) {
  FILE *file = fopen(path.c_str(), options.resume ? "ae" : "we");
  if (!file)
    return inputError(std::string("cannot write the log: ") + strerror(errno))
        .at(path)
        .remedy("name another file");
  files.emplace_back(path, file);
  return Status::success();
}

Status RunLog::writeLine(const std::string &line) {
  for (const auto &[path, file] : files)
    if (fprintf(file, "%s\n", line.c_str()) < 0 || fflush(file) != 0)
      return inputError(std::string("cannot write the log: ") + strerror(errno))
          .at(path)
          .remedy("free space, or name another file");
  return Status::success();
}

std::string RunLog::header() const {
  const artifact::PlanT &plan = run.plan();
  Json json;
  json["artifact"] = toHex(run.artifact().rootHash());
  json["plan"] = toHex(run.artifact().planHash());
  json["version"] = options.version;
  json["compiler_version"] = run.artifact().compilerVersion();
  json["model"] = plan.model;
  json["ranks"] = run.world().ranks;
  json["rank"] = run.world().rank;
  json["seed"] = run.session().seed();
  json["flags"] = options.commandLine;
  json["compile_options"] = plan.options;
  json["data"] = run.data().describe();
  json["device"] = run.session().deviceOf().describe();
  for (const MemoryLine &line : run.session().deviceOf().memory())
    json["memory"][line.purpose] = line.bytes;
  json["steps"] = run.totalSteps();
  for (const auto &[name, value] : run.session().hyperparametersOf().values)
    json["hyperparameters"][name] = value;
  if (!run.resumedFrom().empty())
    json["resumed_from"] = run.resumedFrom();
  return json.dump();
}

Status RunLog::step(int64_t step, const StepMetrics &metrics, double rate) {
  Json json;
  json["step"] = step;
  json["loss"] = metrics.loss; // nlohmann writes null unless finite
  if (metrics.gradNorm)
    json["grad_norm"] = *metrics.gradNorm;
  json["lr"] = rate;
  json["step_ms"] = std::round(metrics.milliseconds * 1e3) / 1e3;
  if (run.plan().summary) {
    const artifact::SummaryT &summary = *run.plan().summary;
    bool tokens = summary.tokens_per_step > 0;
    int64_t count = tokens ? summary.tokens_per_step : run.plan().global_batch;
    json[tokens ? "tokens_per_s" : "samples_per_s"] =
        std::round(double(count) / metrics.milliseconds * 1e4) / 10;
  }
  std::string line = json.dump();
  run.setLastLine(line);
  progress(step, metrics, rate);
  return writeLine(line);
}

Status RunLog::validation(int64_t step, double loss) {
  Json json;
  json["step"] = step;
  json["val_loss"] = loss;
  char text[64];
  snprintf(text, sizeof(text), "step %lld  validation loss %.4f",
           static_cast<long long>(step), loss);
  say(text);
  return writeLine(json.dump());
}

static std::string clockText(double seconds) {
  auto whole = static_cast<long long>(seconds + 0.5);
  char text[32];
  if (whole >= 3600)
    snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600,
             whole / 60 % 60, whole % 60);
  else
    snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

void RunLog::progress(int64_t step, const StepMetrics &metrics, double rate) {
  if (run.world().rank != 0)
    return;
  // The mean of the steps so far, later of about the last ten. The first step,
  // which touches memory for the first time, counts only until there is
  // another.
  double share = stepsTimed < 2 ? 1.0 : std::max(0.1, 1.0 / double(stepsTimed));
  meanMilliseconds += share * (metrics.milliseconds - meanMilliseconds);
  ++stepsTimed;
  int64_t total = run.totalSteps();
  int64_t every = std::max<int64_t>(1, total / 20);
  if (!terminal && step % every && step + 1 != total)
    return;
  int64_t tokens = run.plan().summary ? run.plan().summary->tokens_per_step : 0;
  double perSecond = double(tokens ? tokens : run.plan().global_batch) /
                     meanMilliseconds * 1e3;
  char norm[32] = "";
  if (metrics.gradNorm)
    snprintf(norm, sizeof(norm), "  grad norm %.3g", *metrics.gradNorm);
  char line[256];
  snprintf(
      line, sizeof(line),
      "step %lld/%lld  loss %.4f%s  lr %.3g  %.1f ms  %.0f %s/s  ETA %s",
      static_cast<long long>(step), static_cast<long long>(total), metrics.loss,
      norm, rate, metrics.milliseconds, perSecond,
      tokens ? "tokens" : "samples",
      clockText(double(total - step - 1) * meanMilliseconds / 1e3).c_str());
  if (terminal) {
    printf("\r%s\033[K", line);
    progressShown = true;
  } else {
    printf("%s\n", line);
  }
  fflush(stdout);
}

void RunLog::say(const std::string &line) {
  if (run.world().rank != 0)
    return;
  finishProgress();
  printf("%s\n", line.c_str());
  fflush(stdout);
}

void RunLog::finishProgress() {
  if (progressShown)
    printf("\n");
  progressShown = false;
  fflush(stdout);
}

} // namespace lockstep::runtime
