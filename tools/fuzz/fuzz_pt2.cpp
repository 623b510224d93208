// fuzz_pt2: damages a .pt2 file in many ways and reads each result in a process
// of its own, under limits of time and memory. A file may be refused with an
// error; a crash, a hang, or an exception is a failure, and the file is kept.
#include "tools/common/cli.h"
#include "tools/fuzz/Mutations.h"
#include "tools/fuzz/Target.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace lockstep;
using namespace lockstep::fuzz;

namespace {
struct FuzzOptions {
  std::vector<std::string> models;
  uint64_t iterations = 1000, first = 0, seed = 0;
  double timeLimit = 20;
  uint64_t memoryMiB = 4096;
  std::string folder = "/tmp";
};

struct Tally {
  uint64_t accepted = 0, refused = 0, failed = 0;
};
} // namespace

/// In the child: never returns.
[[noreturn]] static void runChild(const std::string &path,
                                  const FuzzOptions &options) {
  if (options.memoryMiB > 0) {
    rlim_t bytes = rlim_t(options.memoryMiB) << 20;
    rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  int code = 3;
  try {
    code = readWholly(path).exitCode();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "exception: %s\n", error.what());
  }
  std::fflush(nullptr);
  _exit(code);
}

/// Waits for the child; nothing when it ended well, else what went wrong.
static std::optional<std::string> wait(pid_t child, double seconds,
                                       bool &accepted) {
  int status = 0;
  for (double waited = 0; waitpid(child, &status, WNOHANG) == 0;) {
    if (waited >= seconds) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "still running after " + std::to_string(int(seconds)) + " s";
    }
    // Short sleeps at first: most files take a millisecond.
    int step = waited < 0.05 ? 1 : 20;
    poll(nullptr, 0, step);
    waited += step / 1000.0;
  }
  if (WIFSIGNALED(status))
    return std::string("ended by signal ") + strsignal(WTERMSIG(status));
  int code = WEXITSTATUS(status);
  accepted = code == 0;
  // Wrong usage (2) cannot come from a file.
  if (code != 0 && code != 1)
    return "ended with code " + std::to_string(code);
  return std::nullopt;
}

static Status fuzzModel(const std::string &model, const FuzzOptions &options,
                        Tally &tally) {
  LOCKSTEP_ASSIGN_OR_RETURN(Seed seed, loadSeed(model));
  // The undamaged file must be read, or nothing is tested.
  LOCKSTEP_RETURN_IF_ERROR(readWholly(model));
  std::string path =
      options.folder + "/fuzz-" + std::to_string(getpid()) + ".pt2";
  for (uint64_t i = options.first; i < options.first + options.iterations;
       ++i) {
    Random random(options.seed * 0x100000001b3 + i);
    LOCKSTEP_ASSIGN_OR_RETURN(std::string what,
                              writeMutant(seed, random, path));
    std::fflush(nullptr);
    pid_t child = fork();
    if (child < 0)
      return internalFault("cannot fork: " + std::string(strerror(errno)));
    if (child == 0)
      runChild(path, options);
    bool accepted = false;
    std::optional<std::string> failure =
        wait(child, options.timeLimit, accepted);
    if (!failure) {
      ++(accepted ? tally.accepted : tally.refused);
      continue;
    }
    ++tally.failed;
    std::string kept = options.folder + "/fuzz-failure-" + std::to_string(i) +
                       "-" + std::to_string(options.seed) + ".pt2";
    std::rename(path.c_str(), kept.c_str());
    std::printf("%s, iteration %llu (%s): %s; kept as %s\n", model.c_str(),
                static_cast<unsigned long long>(i), what.c_str(),
                failure->c_str(), kept.c_str());
  }
  std::remove(path.c_str());
  return Status::success();
}

static Status fuzzAll(const FuzzOptions &options) {
  Tally tally;
  for (const std::string &model : options.models)
    LOCKSTEP_RETURN_IF_ERROR(fuzzModel(model, options, tally));
  std::printf("%llu files accepted, %llu refused, %llu failures\n",
              static_cast<unsigned long long>(tally.accepted),
              static_cast<unsigned long long>(tally.refused),
              static_cast<unsigned long long>(tally.failed));
  if (tally.failed > 0)
    return inputError(std::to_string(tally.failed) +
                      " damaged files crashed or hung the reader");
  return Status::success();
}

int main(int argc, char **argv) {
  return tools::runTool([&]() -> int {
    tools::CommandLine line("fuzz_pt2",
                            "Reads damaged copies of .pt2 files; none may "
                            "crash or hang.");
    FuzzOptions options;
    line.app()
        .add_option("models", options.models, "undamaged .pt2 files")
        ->required();
    line.app().add_option("--iterations,-n", options.iterations,
                          "damaged copies of each file");
    line.app().add_option("--first", options.first,
                          "first iteration, to repeat one");
    line.app().add_option("--seed", options.seed, "of the damage");
    line.app().add_option("--time-limit", options.timeLimit,
                          "seconds for each file");
    line.app().add_option("--memory", options.memoryMiB,
                          "MiB for each file; 0: no limit");
    line.app().add_option("--folder", options.folder,
                          "where files are written and failures kept");
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(fuzzAll(options));
  });
}
