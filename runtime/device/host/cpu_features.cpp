#include "runtime/device/host/cpu_features.h"

namespace lockstep::runtime {

static bool supportsV2() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("popcnt");
}
static bool supportsV3() {
  return supportsV2() && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
}
static bool supportsV4() {
  return supportsV3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

/// 1 for x86-64 to 4 for x86-64-v4; 0 for a name that is none of them.
static int levelOf(const std::string &target) {
  for (int level = 1; level <= 4; ++level)
    if (target == (level == 1 ? "x86-64" : "x86-64-v" + std::to_string(level)))
      return level;
  return 0;
}

static int ownLevel() {
  __builtin_cpu_init();
  return supportsV4() ? 4 : supportsV3() ? 3 : supportsV2() ? 2 : 1;
}

bool cpuSupports(const std::string &target) {
  int level = levelOf(target);
  return level && level <= ownLevel();
}

std::string cpuLevel() {
  int level = ownLevel();
  return level == 1 ? "x86-64" : "x86-64-v" + std::to_string(level);
}

StatusOr<const CodeSection *> chooseCode(const std::vector<CodeSection> &code) {
  const CodeSection *best = nullptr;
  std::string names;
  for (const CodeSection &section : code) {
    names += (names.empty() ? "" : ", ") + section.target;
    if (cpuSupports(section.target) &&
        (!best || levelOf(section.target) > levelOf(best->target)))
      best = &section;
  }
  if (!best && !code.empty())
    return inputError("the artifact has code for " + names +
                      ", but this processor runs at most " + cpuLevel())
        .remedy("compile with --target " + cpuLevel());
  return best;
}

} // namespace lockstep::runtime
