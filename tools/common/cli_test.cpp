// The command-line frame: nearest flags, exit codes, configuration files.
#include "tools/common/cli.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace lockstep;
using namespace lockstep::tools;

namespace {
/// Captures what goes to a file descriptor.
class Capture {
public:
  explicit Capture(int descriptor) : descriptor(descriptor) {
    std::fflush(nullptr);
    saved = dup(descriptor);
    file = std::tmpfile();
    dup2(fileno(file), descriptor);
  }
  std::string text() {
    std::fflush(nullptr);
    dup2(saved, descriptor);
    close(saved);
    std::rewind(file);
    std::string result;
    for (int c; (c = std::fgetc(file)) != EOF;)
      result += static_cast<char>(c);
    std::fclose(file);
    return result;
  }

private:
  int descriptor, saved;
  std::FILE *file;
};

struct Result {
  std::optional<int> code;
  std::string error, model;
  double lr = 0;
};

Result parse(std::vector<const char *> arguments) {
  Result result;
  CommandLine line("lockstep-test", "A test.");
  line.app().add_option("model", result.model, "the model")->required();
  line.app().add_option("--lr", result.lr, "learning rate");
  int ranks = 1;
  line.app().add_option("--ranks,-n", ranks, "ranks")->check(CLI::Range(1, 64));
  std::string weights;
  line.app().add_option("--weights", weights, "weights");
  line.app().add_option("--weight-decay", weights, "decay");
  arguments.insert(arguments.begin(), "lockstep-test");
  Capture capture(2);
  result.code =
      line.parse(static_cast<int>(arguments.size()), arguments.data());
  result.error = capture.text();
  return result;
}
} // namespace

TEST_CASE("good command lines go on") {
  Result result = parse({"m.pt2", "--lr", "3e-4"});
  CHECK(!result.code);
  CHECK(result.model == "m.pt2");
  CHECK(result.lr == 3e-4);
  CHECK(result.error.empty());
}

TEST_CASE("an unknown flag suggests the nearest") {
  Result result = parse({"m.pt2", "--weigths", "x"});
  CHECK(result.code == 2);
  CHECK(result.error ==
        "error: unknown flag '--weigths'; did you mean '--weights'?\n");
  CHECK(parse({"--wieght-decay=1"}).error ==
        "error: unknown flag '--wieght-decay'; did you mean "
        "'--weight-decay'?\n");
  CHECK(parse({"m.pt2", "--weight-dec", "1"}).error ==
        "error: unknown flag '--weight-dec'; did you mean "
        "'--weight-decay'?\n");
  CHECK(parse({"m.pt2", "--zzzzzzzz"}).error ==
        "error: unknown flag '--zzzzzzzz'; see lockstep-test --help\n");
}

TEST_CASE("usage errors are one line and give 2") {
  for (std::vector<const char *> arguments :
       std::vector<std::vector<const char *>>{{},
                                              {"a", "b"},
                                              {"m", "--lr"},
                                              {"m", "--lr", "x"},
                                              {"m", "-n", "0"}}) {
    Result result = parse(arguments);
    CHECK(result.code == 2);
    CHECK(result.error.compare(0, 7, "error: ") == 0);
    CHECK(std::count(result.error.begin(), result.error.end(), '\n') == 1);
  }
}

TEST_CASE("a configuration file holds flags") {
  std::string path = "cli_test." + std::to_string(getpid()) + ".toml";
  std::ofstream(path) << "lr = 0.25\nranks = 4\n";
  CHECK(parse({"m.pt2", "--config", path.c_str()}).lr == 0.25);
  CHECK(parse({"m.pt2", "--config", path.c_str(), "--lr", "1"}).lr == 1);
  std::ofstream(path) << "rank = 4\n";
  Result unknown = parse({"m.pt2", "--config", path.c_str()});
  CHECK(unknown.code == 2);
  CHECK(unknown.error.find("did you mean '--ranks'?") != std::string::npos);
  std::remove(path.c_str());
  CHECK(parse({"m.pt2", "--config", "missing.toml"}).code == 1);
}

TEST_CASE("the exit code is the status's") {
  Capture capture(2);
  int ok = finish(Status::success());
  int bad = finish(inputError("bad\nthing").at("file").remedy("fix it"));
  int thrown = runTool([]() -> int { throw std::runtime_error("oops"); });
  CHECK(capture.text() == "error: file: bad thing; fix it\n"
                          "error: internal fault: oops\n");
  CHECK(ok == 0);
  CHECK(bad == 1);
  CHECK(thrown == 3);
}
