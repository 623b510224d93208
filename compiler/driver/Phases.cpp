//===- Phases.cpp - Names of the phases -----------------------------------===//
#include "compiler/driver/CompileOptions.h"
#include <iterator>

static constexpr const char *kNames[] = {
    "import", "precision", "autodiff", "partition", "fuse", "schedule", "emit"};

const char *lockstep::phaseName(Phase phase) {
  return kNames[static_cast<int>(phase)];
}

std::optional<lockstep::Phase>
lockstep::phaseFromName(const std::string &name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i])
      return static_cast<Phase>(i);
  return std::nullopt;
}

std::vector<std::string> lockstep::phaseNames() {
  return {std::begin(kNames), std::end(kNames)};
}
