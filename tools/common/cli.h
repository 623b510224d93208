// What all command-line tools share: parsing with CLI11, the nearest known flag
// for an unknown one, --version, --config FILE (TOML), and exit codes. A tool's
// main is
//
//   int main(int argc, char **argv) {
//     return lockstep::tools::runTool([&] {
//       lockstep::tools::CommandLine line("lockstep-foo", "Does foo.");
//       std::string path;
//       line.app().add_option("model", path, "the model")->required();
//       if (std::optional<int> code = line.parse(argc, argv))
//         return *code;
//       return lockstep::tools::finish(foo(path));
//     });
//   }
//
// Every failure prints exactly one line "error: ..." on standard error. Exit
// codes are lockstep::ExitCode's; usage errors give 2, exceptions 3.
#ifndef LOCKSTEP_TOOLS_COMMON_CLI_H
#define LOCKSTEP_TOOLS_COMMON_CLI_H

#include "runtime/support/status.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::tools {

class CommandLine {
public:
  CommandLine(const std::string &tool, const std::string &description);

  /// Options are added here, in CLI11's way.
  CLI::App &app() { return *parser; }

  /// Nothing when the tool shall go on; else the exit code (0 after --help and
  /// --version, 2 after a usage error, which has been printed).
  std::optional<int> parse(int argc, const char *const *argv);

private:
  std::string unknownFlag(const std::string &flag) const;
  int usage(const std::string &message) const;

  std::string tool;
  std::unique_ptr<CLI::App> parser;
};

/// The candidate with the smallest edit distance to `word`, or "" when none is
/// near enough to be a likely misspelling.
std::string nearest(const std::string &word,
                    const std::vector<std::string> &candidates);

/// Prints the error line when there is one; returns the exit code.
int finish(const Status &status);

/// Runs a tool's body; an exception that escapes is an internal fault (3).
int runTool(const std::function<int()> &body);

/// The version of this build, "0.1.0".
const char *versionString();

} // namespace lockstep::tools

#endif // LOCKSTEP_TOOLS_COMMON_CLI_H
