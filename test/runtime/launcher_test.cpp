// Runs of the toy model through the lockstep-run program, with real processes.
#include "runtime/data/sample_order.h"
#include "runtime/safetensors/safetensors.h"
#include "test/runtime/toy/toy_model.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A running lockstep-run whose output goes to files.
class Program {
public:
  Program(const TemporaryFolder &folder, std::vector<std::string> arguments,
          std::vector<std::string> environment = {},
          rlim_t fileLimit = RLIM_INFINITY)
      : errorsPath(folder.path + "/errors" + std::to_string(counter())),
        outputPath(errorsPath + ".out") {
    arguments.insert(arguments.begin(), LOCKSTEP_RUN);
    process = fork();
    if (process)
      return;
    setpgid(0, 0);
    (void)!freopen(outputPath.c_str(), "w", stdout);
    (void)!freopen(errorsPath.c_str(), "w", stderr);
    for (std::string &entry : environment)
      putenv(entry.data());
    if (fileLimit != RLIM_INFINITY) {
      signal(SIGXFSZ, SIG_IGN);
      rlimit limit = {fileLimit, fileLimit};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(126);
  }
  ~Program() {
    if (process > 0)
      kill(process, SIGKILL);
  }
  int wait() {
    int status = 0;
    waitpid(process, &status, 0);
    process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string errors() const {
    std::ifstream file(errorsPath);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string output() const {
    std::ifstream file(outputPath);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Processes that the launcher started, by rank.
  std::vector<pid_t> ranks() const {
    std::ifstream file("/proc/" + std::to_string(process) + "/task/" +
                       std::to_string(process) + "/children");
    return {std::istream_iterator<pid_t>(file), {}};
  }
  pid_t process = -1;

private:
  static int counter() {
    static int count = 0;
    return count++;
  }
  std::string errorsPath, outputPath;
};

struct Data {
  std::vector<float> x, y;
};

/// Samples as arrays, and in a file x/y with samples first.
Data makeData(const TemporaryFolder &folder, int64_t samples, int64_t width) {
  Data data;
  for (int64_t i = 0; i < samples * width; ++i)
    data.x.push_back(float((i * 7919 + 13) % 101) / 101 - 0.5f);
  for (int64_t i = 0; i < samples; ++i)
    data.y.push_back(float((i * 31) % 17) / 17);
  SafetensorsTensor x{"x",
                      DType::F32,
                      {samples, width},
                      reinterpret_cast<const std::byte *>(data.x.data()),
                      data.x.size() * 4};
  SafetensorsTensor y{"y",
                      DType::F32,
                      {samples},
                      reinterpret_cast<const std::byte *>(data.y.data()),
                      data.y.size() * 4};
  REQUIRE(writeSafetensors(folder.path + "/data.safetensors", {x, y}).ok());
  return data;
}

std::vector<json> readLog(const std::string &path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(json::parse(line));
  return lines;
}

/// One value of every step line.
std::vector<double> column(const std::string &path, const char *key) {
  std::vector<double> values;
  for (const json &line : readLog(path))
    if (line.contains("step") && line.contains(key))
      values.push_back(line[key].get<double>());
  return values;
}

struct Setup {
  explicit Setup(ToyOptions options = {}, int64_t samples = 24)
      : options(options), artifact(folder.path + "/toy.lockstep"),
        dataPath(folder.path + "/data.safetensors") {
    Status status = writeToy(options, artifact);
    INFO(status.toString());
    REQUIRE(status.ok());
    data = makeData(folder, samples, options.width);
  }
  std::vector<std::string> arguments(std::vector<std::string> more) const {
    std::vector<std::string> all = {artifact, "--data", dataPath};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string file(const std::string &name) const {
    return folder.path + "/" + name;
  }
  TemporaryFolder folder;
  ToyOptions options;
  std::string artifact, dataPath;
  Data data;
};

/// Losses that the reference gives for a seed.
std::vector<double> expectedLosses(const Setup &setup, int64_t steps,
                                   uint64_t seed, bool shuffled,
                                   std::vector<double> *norms = nullptr) {
  ToyReference reference(setup.options);
  SampleOrder order(int64_t(setup.data.y.size()), seed, shuffled);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<float> x, y;
    for (int64_t i = 0; i < setup.options.batch; ++i) {
      int64_t sample = order.at(step * setup.options.batch + i);
      auto row = setup.data.x.begin() + sample * setup.options.width;
      x.insert(x.end(), row, row + setup.options.width);
      y.push_back(setup.data.y[size_t(sample)]);
    }
    losses.push_back(reference.step(x, y, 0.05, 0.9));
    if (norms)
      norms->push_back(reference.gradNorm);
  }
  return losses;
}

void checkClose(const std::vector<double> &actual,
                const std::vector<double> &expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    CHECK(actual[i] == Approx(expected[i]).epsilon(1e-5));
}

int runToEnd(const Setup &setup, std::vector<std::string> flags,
             std::string *errors = nullptr) {
  Program program(setup.folder, setup.arguments(std::move(flags)));
  int code = program.wait();
  if (errors)
    *errors = program.errors();
  else
    INFO(program.errors());
  return code;
}

} // namespace

TEST_CASE("a run gives the reference's losses on any number of ranks") {
  for (uint32_t ranks : {1u, 2u, 4u})
    for (int64_t accumulation : {1, 2}) {
      INFO(ranks << " ranks, accumulation " << accumulation);
      Setup setup({ranks, accumulation});
      std::string errors;
      REQUIRE(runToEnd(setup,
                       {"--steps", "10", "--seed", "3", "--poison", "--log",
                        setup.file("log")},
                       &errors) == 0);
      CHECK(errors.empty());
      std::vector<double> norms;
      checkClose(column(setup.file("log"), "loss"),
                 expectedLosses(setup, 10, 3, true, &norms));
      checkClose(column(setup.file("log"), "grad_norm"), norms);
      json header = readLog(setup.file("log"))[0];
      CHECK(header["seed"] == 3);
      CHECK(header["ranks"] == ranks);
      CHECK(header["artifact"].get<std::string>().size() == 64);
    }
}

TEST_CASE("a run is the same bits every time and for any number of threads") {
  Setup setup({2});
  std::vector<std::string> logs;
  for (const char *threads : {"1", "2", "3"}) {
    Program program(
        setup.folder,
        setup.arguments({"--steps", "8", "--log", setup.file(threads)}),
        {std::string("OMP_NUM_THREADS=") + threads});
    REQUIRE(program.wait() == 0);
    CHECK(column(setup.file(threads), "loss") ==
          column(setup.file("1"), "loss"));
  }
}

TEST_CASE("an artifact for GPUs says what this machine lacks") {
  ToyOptions options;
  options.target = "sm_90a";
  Setup setup(options);
  std::string errors;
  CHECK(runToEnd(setup, {"--steps", "1"}, &errors) == 1);
  INFO(errors);
  bool named = false;
  for (const char *text :
       {"error: no CUDA driver is installed: ",
        "error: the CUDA driver shows no GPU", "has code for sm_90a, but",
        "cannot load the code for sm_90a"}) // which is the toy's, for the host
    named |= errors.find(text) != std::string::npos;
  CHECK(named);
}

TEST_CASE("several steps per launch are for GPUs") {
  Setup setup({1});
  std::string errors;
  CHECK(runToEnd(setup, {"--steps", "4", "--steps-per-launch", "2"}, &errors) ==
        2);
  CHECK(errors.find("error: --steps-per-launch is for GPUs, but the artifact "
                    "is not compiled for one") == 0);
}

TEST_CASE("hyperparameters and schedule can be overridden") {
  Setup setup;
  REQUIRE(runToEnd(setup, {"--steps", "6", "--lr", "0.01", "--lr-schedule",
                           "linear", "--warmup-steps", "2", "--min-lr", "0.001",
                           "--log", setup.file("log")}) == 0);
  checkClose(column(setup.file("log"), "lr"),
             {0.005, 0.01, 0.01, 0.00775, 0.0055, 0.00325});
  std::string errors;
  CHECK(runToEnd(setup, {"--steps", "1", "--weight-decay", "1"}, &errors) == 1);
  CHECK(errors == "error: --weight-decay overrides nothing: the artifact was "
                  "compiled for sgd with batch, lr, momentum, rows, width; "
                  "leave it out, or "
                  "compile again with lockstep-compile --weight-decay\n");
}

TEST_CASE("evaluation runs its program on the validation data") {
  Setup setup({2});
  REQUIRE(runToEnd(setup,
                   {"--steps", "4", "--lr", "0", "--val-data", setup.dataPath,
                    "--eval-every", "2", "--log", setup.file("log")}) == 0);
  ToyReference reference(setup.options);
  double expected = 0;
  for (int64_t batch = 0; batch < 3; ++batch) {
    std::vector<float> x(setup.data.x.begin() + batch * 40,
                         setup.data.x.begin() + (batch + 1) * 40);
    std::vector<float> y(setup.data.y.begin() + batch * 8,
                         setup.data.y.begin() + (batch + 1) * 8);
    expected += reference.step(x, y, 0, 0) / 3;
  }
  checkClose(column(setup.file("log"), "val_loss"), {expected, expected});
}

TEST_CASE("weights are saved under every name of the state_dict") {
  Setup setup({2});
  REQUIRE(runToEnd(setup, {"--steps", "3", "--save-weights",
                           setup.file("w.safetensors")}) == 0);
  auto file = SafetensorsFile::open(setup.file("w.safetensors"));
  REQUIRE(file.ok());
  CHECK((*file)->tensors().size() == 3);
  REQUIRE((*file)->find("w_tied"));
  CHECK(std::memcmp((*file)->find("w")->data, (*file)->find("w_tied")->data,
                    20) == 0);
  float seen;
  std::memcpy(&seen, (*file)->find("seen")->data, 4);
  CHECK(seen == 3);
}

TEST_CASE("a resumed run goes on with the same bits") {
  Setup setup({2});
  std::vector<std::string> common = {"--checkpoint-dir", setup.file("ckpt"),
                                     "--checkpoint-every", "3"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  REQUIRE(runToEnd(setup, {"--steps", "14", "--log", setup.file("whole")}) ==
          0);
  REQUIRE(runToEnd(setup, with({"--steps", "7", "--log", setup.file("a")})) ==
          0);
  REQUIRE(runToEnd(setup, with({"--steps", "14", "--resume", "--log",
                                setup.file("a")})) == 0);
  CHECK(column(setup.file("a"), "loss") == column(setup.file("whole"), "loss"));
  // Three checkpoints are kept by default.
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(setup.file("ckpt")))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"step_00000009", "step_00000012",
                                          "step_00000014"});
}

TEST_CASE("a run that is killed anywhere resumes with the same bits") {
  Setup setup({2});
  REQUIRE(runToEnd(setup, {"--steps", "400", "--log", setup.file("whole")}) ==
          0);
  std::vector<double> whole = column(setup.file("whole"), "loss");
  for (int round = 0; round < 5; ++round) {
    std::string ckpt = setup.file("ckpt" + std::to_string(round));
    {
      Program program(setup.folder,
                      setup.arguments({"--steps", "400", "--checkpoint-dir",
                                       ckpt, "--checkpoint-every", "7"}));
      std::this_thread::sleep_for(std::chrono::milliseconds(250 + 130 * round));
      kill(program.process, SIGKILL);
      program.wait();
    }
    std::string log = setup.file("log" + std::to_string(round));
    bool any = fs::exists(ckpt) && !fs::is_empty(ckpt);
    std::vector<std::string> flags = {"--steps", "400",   "--checkpoint-dir",
                                      ckpt,      "--log", log};
    if (any)
      flags.push_back("--resume");
    std::string errors;
    int code = runToEnd(setup, flags, &errors);
    if (code == 1) // killed before the first checkpoint was whole
      continue;
    INFO(errors);
    REQUIRE(code == 0);
    std::vector<double> rest = column(log, "loss");
    REQUIRE(rest.size() <= whole.size());
    CHECK(std::equal(rest.begin(), rest.end(), whole.end() - rest.size()));
  }
}

TEST_CASE("SIGTERM saves a checkpoint of the step that all ranks reached") {
  for (uint32_t ranks : {1u, 2u}) {
    Setup setup({ranks});
    Program program(
        setup.folder,
        setup.arguments({"--steps", "100000000", "--log", setup.file("log"),
                         "--checkpoint-dir", setup.file("ckpt")}));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    kill(program.process, SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    INFO(program.errors());
    size_t steps = column(setup.file("log"), "loss").size();
    CHECK(steps > 10);
    std::string name = std::to_string(steps);
    name = "step_" + std::string(8 - name.size(), '0') + name;
    CHECK(fs::exists(setup.file("ckpt/" + name + "/manifest.json")));
  }
}

TEST_CASE("a killed rank ends the run in seconds and is named") {
  Setup setup({4});
  for (size_t victim : {1u, 0u}) {
    Program program(setup.folder, setup.arguments({"--steps", "100000000"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    std::vector<pid_t> ranks = program.ranks();
    REQUIRE(ranks.size() == 4);
    auto begin = std::chrono::steady_clock::now();
    kill(ranks[victim], SIGKILL);
    CHECK(program.wait() == 4);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(6));
    std::string errors = program.errors();
    INFO(errors);
    std::string expected = "error: rank " + std::to_string(victim) +
                           " (process " + std::to_string(ranks[victim]) +
                           ") was lost: killed by signal 9 (Killed)";
    CHECK(errors.substr(0, expected.size()) == expected);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    CHECK(errors.find("; its last line: {\"step\":") != std::string::npos);
  }
}

TEST_CASE("a rank that stands still ends the run and is named") {
  Setup setup({2});
  Program program(setup.folder, setup.arguments({"--steps", "100000000"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  std::vector<pid_t> ranks = program.ranks();
  REQUIRE(ranks.size() == 2);
  kill(ranks[1], SIGSTOP);
  auto begin = std::chrono::steady_clock::now();
  CHECK(program.wait() == 4);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  INFO(program.errors());
  CHECK(program.errors().find("error: rank 1 (") == 0);
  CHECK(program.errors().find("no sign of life for 10 s") != std::string::npos);
}

TEST_CASE("ranks started one by one find each other") {
  Setup setup({2});
  int port = 20000 + getpid() % 20000;
  auto environment = [&](int rank) {
    return std::vector<std::string>{"RANK=" + std::to_string(rank),
                                    "WORLD_SIZE=2", "MASTER_ADDR=localhost",
                                    "MASTER_PORT=" + std::to_string(port)};
  };
  auto flags = setup.arguments({"--steps", "5", "--log", setup.file("log"),
                                "--log-dir", setup.file("logs")});
  Program second(setup.folder, flags, environment(1));
  Program first(setup.folder, flags, environment(0));
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
  INFO(first.errors() << second.errors());
  checkClose(column(setup.file("log"), "loss"),
             expectedLosses(setup, 5, 0, true));
  CHECK(column(setup.file("logs/rank_1.jsonl"), "loss") ==
        column(setup.file("log"), "loss"));
}

TEST_CASE("ranks with different artifacts are refused, both named") {
  Setup setup({2}), other({2, 2});
  int port = 20000 + (getpid() + 7) % 20000;
  auto environment = [&](int rank) {
    return std::vector<std::string>{"RANK=" + std::to_string(rank),
                                    "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                    "MASTER_PORT=" + std::to_string(port)};
  };
  Program first(setup.folder, setup.arguments({"--steps", "5"}),
                environment(0));
  Program second(other.folder, other.arguments({"--steps", "5"}),
                 environment(1));
  CHECK(first.wait() == 1);
  CHECK(second.wait() == 1);
  for (const std::string &errors : {first.errors(), second.errors()}) {
    INFO(errors);
    CHECK(errors.find("error: rank 0 has the plan ") == 0);
    CHECK(errors.find("but rank 1 (") != std::string::npos);
  }
}

TEST_CASE("a loss that is not finite ends the run and names the step") {
  for (uint32_t ranks : {1u, 2u}) {
    Setup setup({ranks});
    std::string errors;
    CHECK(runToEnd(
              setup,
              {"--steps", "1000", "--lr", "1e18", "--log", setup.file("log")},
              &errors) == 5);
    json last = readLog(setup.file("log")).back();
    CHECK(last["loss"].is_null());
    std::string step = last["step"].dump();
    INFO(errors);
    CHECK(errors.find("error: the loss is ") == 0);
    CHECK(errors.find(" at step " + step + "; ") != std::string::npos);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
  }
}

TEST_CASE("a full disk leaves the earlier checkpoint") {
  Setup setup({2, 1, 8, 8000}, 16);
  std::vector<std::string> flags = {"--lr", "0.00001", "--checkpoint-dir",
                                    setup.file("ckpt")};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return setup.arguments(more);
  };
  Program first(setup.folder, with({"--steps", "2"}));
  REQUIRE(first.wait() == 0);
  Program second(setup.folder, with({"--steps", "4", "--resume"}), {}, 32768);
  CHECK(second.wait() == 1);
  std::string errors = second.errors();
  INFO(errors);
  CHECK(errors.find("error: saving the checkpoint (earlier ones are "
                    "unharmed): ") == 0);
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
  Program third(setup.folder,
                with({"--steps", "4", "--resume", "--log", setup.file("log")}));
  CHECK(third.wait() == 0);
  CHECK(column(setup.file("log"), "loss").size() == 2);
  CHECK(!fs::exists(setup.file("ckpt/.writing-step_00000004")));
}

TEST_CASE("a damaged checkpoint is passed over, or refused when named") {
  Setup setup;
  std::vector<std::string> flags = {"--checkpoint-dir", setup.file("ckpt"),
                                    "--checkpoint-every", "2"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  REQUIRE(runToEnd(setup, with({"--steps", "4"})) == 0);
  std::string damaged = setup.file("ckpt/step_00000004/model.safetensors");
  {
    std::fstream file(damaged, std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  std::string errors;
  CHECK(runToEnd(setup,
                 with({"--steps", "6", "--resume",
                       setup.file("ckpt/step_00000004")}),
                 &errors) == 1);
  CHECK(errors == "error: " + damaged +
                      ": the file does not match its hash: it is damaged; "
                      "resume from an earlier checkpoint\n");
  CHECK(runToEnd(setup,
                 with({"--steps", "6", "--log", setup.file("log"), "--resume"}),
                 &errors) == 0);
  CHECK(column(setup.file("log"), "loss").size() == 4);
}

TEST_CASE("bad inputs are one error line each") {
  Setup setup({2});
  auto errorOf = [&](std::vector<std::string> arguments, int code = 1) {
    Program program(setup.folder, std::move(arguments));
    CHECK(program.wait() == code);
    std::string errors = program.errors();
    INFO(errors);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    return errors;
  };
  CHECK(errorOf({setup.artifact, "--data", setup.dataPath, "--stepps", "3"},
                2) == "error: unknown flag '--stepps'; did you mean "
                      "'--steps'?\n");
  CHECK(errorOf({setup.artifact, "-n", "3", "--data", setup.dataPath}) ==
        "error: " + setup.artifact +
            ": the artifact is compiled for 2 ranks, but -n is 3; leave out "
            "-n, or compile with --ranks 3\n");
  CHECK(errorOf({setup.file("absent"), "--data", "synthetic"})
            .find(setup.file("absent")) != std::string::npos);
  CHECK(errorOf({setup.artifact, "--data", setup.file("absent.bin"), "--steps",
                 "3"})
            .find("error: ") == 0);
  CHECK(errorOf({setup.artifact, "--steps", "3"}, 2)
            .find("--data says what to train on") != std::string::npos);
  CHECK(
      errorOf({setup.artifact, "--data", "x=" + setup.dataPath, "--steps", "3"})
          .find("there is no data for input 'y': the data has 'x', but the "
                "model takes 'x', 'y'") != std::string::npos);
  CHECK(errorOf(setup.arguments({"--steps", "1", "--log", "/nowhere/log"}))
            .find("error: /nowhere/log: cannot write the log") == 0);
  CHECK(errorOf(setup.arguments({"--steps", "1", "--save-weights",
                                 "/nowhere/w.safetensors"}))
            .find("/nowhere/w.safetensors") != std::string::npos);
}

TEST_CASE("an artifact for another processor is one error") {
  if (__builtin_cpu_supports("avx512f"))
    return;
  Setup setup({1, 1, 8, 5, "x86-64-v4"});
  std::string errors;
  CHECK(runToEnd(setup, {"--steps", "1"}, &errors) == 1);
  CHECK(errors == "error: " + setup.artifact +
                      ": the artifact has code for x86-64-v4, but this "
                      "processor runs at most x86-64-v3; compile with --target "
                      "x86-64-v3\n");
}

TEST_CASE("a profile lists every kernel") {
  Setup setup;
  Program program(setup.folder, setup.arguments({"--steps", "4", "--profile"}));
  REQUIRE(program.wait() == 0);
  std::string table = program.output();
  for (const char *name : {"k_toy_errors", "k_toy_sums", "k_toy_update",
                           "k_clear", "(wait for sums)"})
    CHECK(table.find(name) != std::string::npos);
}

TEST_CASE("the C API trains, saves and resumes") {
  Setup setup;
  std::string command = std::string(LOCKSTEP_C_API_TEST) + " " +
                        setup.artifact + " " + setup.file("ckpt");
  CHECK(std::system(command.c_str()) == 0);
}
