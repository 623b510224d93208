// The command-line frame of all tools; see cli.h.
#include "tools/common/cli.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>

using namespace lockstep;
using namespace lockstep::tools;

/// Edit distance in which a swap of two neighbours counts as one edit.
static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1),
      current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substitution = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string tools::nearest(const std::string &word,
                           const std::vector<std::string> &candidates) {
  std::string best;
  size_t limit = std::max<size_t>(2, word.size() / 3), bestDistance = limit + 1;
  for (const std::string &candidate : candidates) {
    // A cut-off word ("grad-acc") is a likely abbreviation.
    size_t distance = editDistance(word, candidate);
    if (word.size() >= 3 && candidate.compare(0, word.size(), word) == 0)
      distance = std::min<size_t>(distance, 1);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

const char *tools::versionString() { return LOCKSTEP_VERSION; }

CommandLine::CommandLine(const std::string &tool,
                         const std::string &description)
    : tool(tool), parser(std::make_unique<CLI::App>(description, tool)) {
  parser->set_version_flag("--version", tool + " " + versionString());
  parser->set_config("--config", "", "TOML file that holds flags");
  parser->allow_config_extras(CLI::config_extras_mode::error);
  parser->allow_extras();
  parser->option_defaults()->always_capture_default();
}

std::string CommandLine::unknownFlag(const std::string &flag) const {
  std::string name = flag.substr(0, flag.find('='));
  std::string bare =
      name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::vector<std::string> known;
  for (const CLI::Option *option : parser->get_options())
    for (const std::string &longName : option->get_lnames())
      known.push_back(longName);
  std::string suggestion = nearest(bare, known);
  std::string message = "unknown flag '" + name + "'";
  if (!suggestion.empty())
    return message + "; did you mean '--" + suggestion + "'?";
  return message + "; see " + tool + " --help";
}

int CommandLine::usage(const std::string &message) const {
  return finish(usageError(message));
}

std::optional<int> CommandLine::parse(int argc, const char *const *argv) {
  auto firstExtra = [&]() -> std::optional<std::string> {
    std::vector<std::string> extras = parser->remaining(true);
    for (const std::string &extra : extras)
      if (extra.size() > 1 && extra[0] == '-')
        return unknownFlag(extra);
    if (!extras.empty())
      return "unexpected argument '" + extras.front() + "'; see " + tool +
             " --help";
    return std::nullopt;
  };
  try {
    parser->parse(argc, argv);
  } catch (const CLI::Success &request) {
    return parser->exit(request); // --help, --version
  } catch (const CLI::FileError &error) {
    return finish(inputError(error.what()));
  } catch (const CLI::ConfigError &error) {
    // CLI11 says "INI was not able to parse <key>" of a key that is no flag.
    std::string text = error.what(), prefix = "INI was not able to parse ";
    if (text.compare(0, prefix.size(), prefix) == 0)
      return usage("in the file given by --config: " +
                   unknownFlag("--" + text.substr(prefix.size())));
    return usage(text);
  } catch (const CLI::ParseError &error) {
    // A misspelt flag is the likelier cause of, say, a missing argument.
    if (std::optional<std::string> extra = firstExtra())
      return usage(*extra);
    return usage(std::string(error.what()) + "; see " + tool + " --help");
  }
  if (std::optional<std::string> extra = firstExtra())
    return usage(*extra);
  return std::nullopt;
}

int tools::finish(const Status &status) {
  if (!status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", status.toString().c_str());
  }
  return status.exitCode();
}

int tools::runTool(const std::function<int()> &body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return finish(internalFault("out of memory"));
  } catch (const std::exception &error) {
    return finish(
        internalFault("internal fault: " + std::string(error.what())));
  }
}
