#include "runtime/launcher/local_launcher.h"
#include "runtime/comm/socket.h"
#include "runtime/launcher/last_lines.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep::runtime {

namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t signalsReceived = 0;
volatile std::sig_atomic_t lastSignal = 0;
void onSignal(int signal) {
  lastSignal = signal;
  signalsReceived = signalsReceived + 1;
}

/// One pipe of a child, taken apart into lines.
struct Stream {
  int fd = -1;
  int target = STDERR_FILENO;
  std::string partial;
};

struct Child {
  int rank = 0;
  pid_t process = -1;
  Stream output, errors;
  std::string lastPrinted;
  std::string error; ///< its "error: " line
  std::string ended; ///< why the control server ended it
  bool running = true, killedByUs = false;
  int waitStatus = 0;

  bool wasKilled() const { return WIFSIGNALED(waitStatus) && !killedByUs; }
  int exitCode() const {
    return WIFEXITED(waitStatus) ? WEXITSTATUS(waitStatus)
                                 : 128 + WTERMSIG(waitStatus);
  }
};

class LocalLauncher {
public:
  LocalLauncher(int ranks, const std::vector<std::string> &arguments)
      : ranks(ranks), arguments(arguments) {}
  StatusOr<int> run();

private:
  Status startAll();
  Status start(Child &child, const Socket &listener);
  void watch();
  void readStream(Child &child, Stream &stream);
  void takeLine(Child &child, Stream &stream, const std::string &line);
  void reap();
  void passSignals();
  void killAll(int signal);
  StatusOr<int> verdict();

  int ranks;
  const std::vector<std::string> &arguments;
  std::vector<Child> children;
  LastLines lastLines;
  bool failed = false;
  Clock::time_point failedAt;
  int signalsPassed = 0;
};

void setVariable(std::vector<std::string> &environment, const std::string &name,
                 const std::string &value) {
  environment.erase(std::remove_if(environment.begin(), environment.end(),
                                   [&](const std::string &entry) {
                                     return entry.rfind(name + "=", 0) == 0;
                                   }),
                    environment.end());
  environment.push_back(name + "=" + value);
}

std::vector<std::string> environmentOf(int rank, int ranks,
                                       const Socket &listener,
                                       const LastLines &lastLines) {
  std::vector<std::string> environment;
  for (char **entry = environ; *entry; ++entry)
    environment.push_back(*entry);
  setVariable(environment, "RANK", std::to_string(rank));
  setVariable(environment, "LOCAL_RANK", std::to_string(rank));
  setVariable(environment, "WORLD_SIZE", std::to_string(ranks));
  setVariable(environment, "MASTER_ADDR", "127.0.0.1");
  setVariable(environment, "MASTER_PORT", std::to_string(listener.localPort()));
  setVariable(environment, "LOCKSTEP_LAUNCHER", "1");
  setVariable(environment, "LOCKSTEP_LAST_LINES",
              std::to_string(lastLines.descriptor()));
  if (rank == 0)
    setVariable(environment, "LOCKSTEP_LISTENER",
                std::to_string(listener.descriptor()));
  int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  if (!getenv("OMP_NUM_THREADS"))
    setVariable(environment, "OMP_NUM_THREADS",
                std::to_string(std::max(1, cores / ranks)));
  // Waiting threads that spin would take cores from other ranks.
  if (!getenv("OMP_WAIT_POLICY") && ranks >= cores)
    setVariable(environment, "OMP_WAIT_POLICY", "passive");
  return environment;
}

std::vector<char *> pointersOf(std::vector<std::string> &strings) {
  std::vector<char *> pointers;
  for (std::string &string : strings)
    pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

Status LocalLauncher::start(Child &child, const Socket &listener) {
  int output[2] = {-1, -1}, errors[2] = {-1, -1};
  if (pipe2(errors, O_CLOEXEC) || (child.rank && pipe2(output, O_CLOEXEC)))
    return internalFault(std::string("cannot make a pipe: ") + strerror(errno));
  std::vector<std::string> environment =
      environmentOf(child.rank, ranks, listener, lastLines);
  std::vector<std::string> copies = arguments;
  std::vector<char *> argv = pointersOf(copies), envp = pointersOf(environment);
  std::string program = ownProgram();
  pid_t parent = getpid();
  child.process = fork();
  if (child.process < 0)
    return internalFault(std::string("cannot start a rank: ") +
                         strerror(errno));
  if (child.process == 0) {
    // A group of its own: the terminal's Ctrl-C comes through the launcher.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(1);
    fcntl(lastLines.descriptor(), F_SETFD, 0);
    if (child.rank == 0)
      fcntl(listener.descriptor(), F_SETFD, 0);
    else
      dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  ::close(errors[1]);
  child.errors = {errors[0], STDERR_FILENO, ""};
  if (child.rank) {
    ::close(output[1]);
    child.output = {output[0], STDOUT_FILENO, ""};
  }
  return Status::success();
}

Status LocalLauncher::startAll() {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket listener, Socket::listen(0));
  LOCKSTEP_ASSIGN_OR_RETURN(lastLines, LastLines::create(ranks));
  children.resize(size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    children[size_t(rank)].rank = rank;
    if (Status status = start(children[size_t(rank)], listener); !status.ok()) {
      children.resize(size_t(rank));
      killAll(SIGKILL);
      return status;
    }
  }
  return Status::success();
}

void LocalLauncher::killAll(int signal) {
  for (Child &child : children)
    if (child.running) {
      child.killedByUs |= signal == SIGKILL;
      kill(child.process, signal);
    }
}

void LocalLauncher::takeLine(Child &child, Stream &stream,
                             const std::string &line) {
  child.lastPrinted = line;
  if (line.rfind("error: ", 0) == 0) {
    if (child.error.empty())
      child.error = line.substr(7);
    return; // told once, at the end
  }
  if (line.rfind("ended: ", 0) == 0) {
    child.ended = line.substr(7);
    return;
  }
  std::string text =
      child.rank ? "[rank " + std::to_string(child.rank) + "] " + line : line;
  text += "\n";
  (void)!write(stream.target, text.data(), text.size());
}

void LocalLauncher::readStream(Child &child, Stream &stream) {
  char data[4096];
  ssize_t count = read(stream.fd, data, sizeof(data));
  if (count < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (count > 0)
    stream.partial.append(data, size_t(count));
  for (size_t end; (end = stream.partial.find('\n')) != std::string::npos;
       stream.partial.erase(0, end + 1))
    takeLine(child, stream, stream.partial.substr(0, end));
  if (count > 0)
    return;
  if (!stream.partial.empty())
    takeLine(child, stream, stream.partial);
  ::close(stream.fd);
  stream.fd = -1;
}

void LocalLauncher::reap() {
  for (Child &child : children) {
    if (!child.running ||
        waitpid(child.process, &child.waitStatus, WNOHANG) != child.process)
      continue;
    child.running = false;
    if (child.exitCode() != 0 && !failed) {
      failed = true;
      failedAt = Clock::now();
    }
  }
}

/// The first signal asks the ranks to stop in order, a second one ends them.
void LocalLauncher::passSignals() {
  if (signalsReceived == signalsPassed)
    return;
  bool first = signalsPassed == 0;
  signalsPassed = signalsReceived;
  killAll(first ? int(lastSignal) : SIGKILL);
}

void LocalLauncher::watch() {
  // A rank that failed told the control server; the others end on their own
  // within this time, or are ended.
  constexpr auto grace = std::chrono::seconds(4);
  for (;;) {
    std::vector<pollfd> polled;
    for (Child &child : children)
      for (Stream *stream : {&child.output, &child.errors})
        if (stream->fd >= 0)
          polled.push_back({stream->fd, POLLIN, 0});
    poll(polled.data(), polled.size(), 50);
    for (const pollfd &entry : polled)
      for (Child &child : children)
        for (Stream *stream : {&child.output, &child.errors})
          if (entry.revents && stream->fd == entry.fd)
            readStream(child, *stream);
    passSignals();
    reap();
    bool stopped = failed && signalsPassed; // ranks stop one by one
    if (failed && Clock::now() - failedAt > (stopped ? 10 * grace : grace))
      killAll(SIGKILL);
    bool running = std::any_of(children.begin(), children.end(),
                               [](const Child &c) { return c.running; });
    bool open =
        std::any_of(children.begin(), children.end(), [](const Child &c) {
          return c.output.fd >= 0 || c.errors.fd >= 0;
        });
    if (!running && (!open || polled.empty()))
      return;
  }
}

StatusOr<int> LocalLauncher::verdict() {
  for (const Child &child : children)
    if (!child.error.empty() && child.exitCode() != int(ExitCode::RankLost) &&
        child.exitCode() < 128 && child.exitCode() != 0)
      return Status(ExitCode(child.exitCode()), child.error);
  for (const Child &child : children)
    if (child.wasKilled() &&
        !(signalsPassed && WTERMSIG(child.waitStatus) == lastSignal)) {
      int signal = WTERMSIG(child.waitStatus);
      std::string text =
          "rank " + std::to_string(child.rank) + " (process " +
          std::to_string(child.process) + ") was lost: killed by signal " +
          std::to_string(signal) + " (" + strsignal(signal) + ")";
      std::string line = lastLines.get(child.rank);
      if (line.empty())
        line = child.lastPrinted;
      if (!line.empty())
        text += "; its last line: " + line;
      return rankLost(text);
    }
  for (const Child &child : children) {
    const std::string &text = child.ended.empty() ? child.error : child.ended;
    if (!text.empty() && child.exitCode() && child.exitCode() < 6)
      return Status(ExitCode(child.exitCode()), text);
  }
  if (signalsPassed)
    return 128 + int(lastSignal);
  for (const Child &child : children)
    if (child.exitCode())
      return Status(ExitCode::InternalFault,
                    "rank " + std::to_string(child.rank) +
                        " ended with exit code " +
                        std::to_string(child.exitCode()));
  return 0;
}

StatusOr<int> LocalLauncher::run() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  LOCKSTEP_RETURN_IF_ERROR(startAll());
  watch();
  return verdict();
}

} // namespace

std::string ownProgram() {
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  return size > 0 ? std::string(path, size_t(size)) : "/proc/self/exe";
}

StatusOr<int> launchLocally(int ranks,
                            const std::vector<std::string> &arguments) {
  return LocalLauncher(ranks, arguments).run();
}

} // namespace lockstep::runtime
