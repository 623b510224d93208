// Deterministic damage to .pt2 files: to the bytes of the file, to its records,
// and to the JSON documents in them. The same seed and iteration give the same
// file.
#ifndef LOCKSTEP_TOOLS_FUZZ_MUTATIONS_H
#define LOCKSTEP_TOOLS_FUZZ_MUTATIONS_H

#include "runtime/support/status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::fuzz {

/// SplitMix64: small, and the same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  /// Uniform enough in [0, bound); 0 for bound 0.
  uint64_t below(uint64_t bound) { return bound ? next() % bound : 0; }
  bool chance(unsigned percent) { return below(100) < percent; }

private:
  uint64_t state;
};

struct Seed {
  std::string bytes; ///< the whole file
  std::vector<std::pair<std::string, std::string>> records;
};
StatusOr<Seed> loadSeed(const std::string &path);

/// Writes a damaged copy of `seed` to `path` and says what was done.
StatusOr<std::string> writeMutant(const Seed &seed, Random &random,
                                  const std::string &path);

/// One random change somewhere in a document.
void mutateJson(nlohmann::json &document, Random &random);

} // namespace lockstep::fuzz

#endif // LOCKSTEP_TOOLS_FUZZ_MUTATIONS_H
