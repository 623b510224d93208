// SHA-256 of byte ranges: of small ones at once, of sections as a tree of 1 MiB
// leaves, hashed on several threads.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_HASH_H
#define LOCKSTEP_RUNTIME_ARTIFACT_HASH_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runtime {

using Hash = std::array<uint8_t, 32>;

/// SHA-256 of [data, data+bytes).
Hash sha256(const void *data, size_t bytes);

/// SHA-256 of the concatenated SHA-256 values of the 1 MiB pieces of [data,
/// data+bytes).
Hash treeHash(const void *data, size_t bytes);

/// The first `digits` hexadecimal digits.
std::string toHex(const Hash &hash, size_t digits = 64);

/// SHA-256 of a sequence of pieces, for data that is not in one place. The tree
/// hash of the concatenation, as treeHash would give.
class TreeHasher {
public:
  void update(const void *data, size_t bytes);
  Hash finish();

private:
  std::vector<uint8_t> leaf;
  std::vector<uint8_t> leafHashes;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_HASH_H
