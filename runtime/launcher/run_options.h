// Everything a user says to lockstep-run.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_RUN_OPTIONS_H
#define LOCKSTEP_RUNTIME_LAUNCHER_RUN_OPTIONS_H

#include "runtime/support/dtype.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::runtime {

struct RunOptions {
  std::string artifact;
  std::vector<std::string> data;
  std::vector<std::string> validationData;
  DType tokenType = DType::U16;
  bool shuffle = true;

  int64_t steps = 0; ///< 0: the schedule's total, else one epoch
  int64_t evaluateEvery = 0;
  int64_t evaluateSteps = 0; ///< 0: the whole validation data

  std::map<std::string, double> hyperparameters; ///< overrides, by name
  std::optional<double> minimumRate;
  std::optional<int64_t> warmupSteps, totalSteps;
  std::optional<std::string> schedule;
  std::optional<uint64_t> seed;

  std::string weights;
  std::string checkpointFolder;
  int64_t checkpointEvery = 0;
  int64_t keep = 3;                  ///< 0: all
  std::optional<std::string> resume; ///< "": the newest in checkpointFolder
  std::string saveWeights;

  std::string log;
  std::string logFolder;
  bool profile = false;
  bool poison = false;
  bool allowJit = false;      ///< the GPU's driver may compile PTX
  bool graph = true;          ///< CUDA graphs
  int64_t stepsPerLaunch = 1; ///< in one CUDA graph
  int64_t hangSeconds = 600;
  int64_t joinSeconds = 300;

  std::string version;                  ///< of the program, for the log
  std::vector<std::string> commandLine; ///< flags as given, for the log
};

/// The flags that shape the computation, in one line: ranks compare it.
std::string comparableFlags(const RunOptions &options);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_RUN_OPTIONS_H
