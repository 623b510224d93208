// Philox4x32-10: random numbers that depend on a key and a counter only, so
// that any rank can draw any element.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_PHILOX_H
#define LOCKSTEP_RUNTIME_SUPPORT_PHILOX_H

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Four random words for a 64-bit key and a 128-bit counter. Always inlined,
/// and without an array on the way, so that loops over counters are vectorized.
__attribute__((always_inline)) inline std::array<uint32_t, 4>
philox(uint64_t key, uint64_t counterLow, uint64_t counterHigh) {
  uint32_t c0 = uint32_t(counterLow), c1 = uint32_t(counterLow >> 32);
  uint32_t c2 = uint32_t(counterHigh), c3 = uint32_t(counterHigh >> 32);
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * c0, b = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(b >> 32) ^ c1 ^ k0;
    c2 = uint32_t(a >> 32) ^ c3 ^ k1;
    c1 = uint32_t(b);
    c3 = uint32_t(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// A uniform number in (0, 1) from 32 random bits.
inline double uniformFrom(uint32_t bits) {
  return (double(bits) + 0.5) * 0x1p-32;
}

/// The index-th uniform number of a stream.
inline double uniformAt(uint64_t key, uint64_t stream, uint64_t index) {
  return uniformFrom(philox(key, index / 4, stream)[index % 4]);
}

/// The index-th standard normal number of a stream (Box-Muller).
inline double normalAt(uint64_t key, uint64_t stream, uint64_t index) {
  std::array<uint32_t, 4> words = philox(key, index / 4, stream);
  size_t pair = index % 4 / 2 * 2;
  double radius = std::sqrt(-2 * std::log(uniformFrom(words[pair])));
  double angle = 2 * M_PI * uniformFrom(words[pair + 1]);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

/// FNV-1a: a stream number from a name.
inline uint64_t streamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_PHILOX_H
