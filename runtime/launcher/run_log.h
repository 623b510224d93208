// What a run says: JSON lines in files, and lines for people on the terminal.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_RUN_LOG_H
#define LOCKSTEP_RUNTIME_LAUNCHER_RUN_LOG_H

#include "runtime/launcher/run.h"

#include <chrono>
#include <cstdio>

namespace lockstep::runtime {

class RunLog {
public:
  /// Opens --log (rank 0) and --log-dir (every rank) and writes the header. A
  /// resumed run appends. Error: a file cannot be written.
  static StatusOr<std::unique_ptr<RunLog>> open(const RunOptions &options,
                                                Run &run);
  ~RunLog();

  Status step(int64_t step, const StepMetrics &metrics, double rate);
  Status validation(int64_t step, double loss);
  /// A line for people, by rank 0.
  void say(const std::string &line);
  void finishProgress();

private:
  RunLog(const RunOptions &options, Run &run) : options(options), run(run) {}
  Status openFile(const std::string &path);
  Status writeLine(const std::string &line);
  std::string header() const;
  void progress(int64_t step, const StepMetrics &metrics, double rate);

  const RunOptions &options;
  Run &run;
  std::vector<std::pair<std::string, FILE *>> files;
  double meanMilliseconds = 0;
  int64_t stepsTimed = 0;
  bool terminal = false, progressShown = false;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_RUN_LOG_H
