//===- Philox.h - The counter-based random numbers of dropout -----------*- C++
//-*-===//
//
// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3,
// 2011). 64-bit numbers enter as two 32-bit words, low word first. The 64-bit
// seed and the operation's id share the two words of the key: key = (low(seed),
// high(seed) ^ id).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_PHILOX_H
#define LOCKSTEP_COMPILER_REFERENCE_PHILOX_H

#include <array>
#include <cstdint>

namespace lockstep {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0],
             b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The uniform number in [0, 1) of `train.dropout` for one element; see the
/// operation's description.
inline double getDropoutUniform(uint64_t seed, uint64_t id, uint64_t step,
                                uint64_t globalIndex) {
  uint64_t block = globalIndex / 4;
  std::array<uint32_t, 4> words =
      philox4x32({uint32_t(block), uint32_t(block >> 32), uint32_t(step),
                  uint32_t(step >> 32)},
                 {uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(id)});
  return words[globalIndex % 4] * 0x1p-32;
}

} // namespace lockstep

#endif
