// Conversions between float and the 16-bit types, rounding to nearest even.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_HALF_H
#define LOCKSTEP_RUNTIME_SUPPORT_HALF_H

#include <cstdint>
#include <cstring>

namespace lockstep {

inline float bitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t floatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float bfloat16ToFloat(uint16_t value) {
  return bitsToFloat(uint32_t(value) << 16);
}
inline uint16_t floatToBfloat16(float value) {
  uint32_t bits = floatToBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t((bits >> 16) | 0x40); // a quiet NaN
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float float16ToFloat(uint16_t value) {
  uint32_t sign = uint32_t(value & 0x8000) << 16;
  uint32_t exponent = (value >> 10) & 31, fraction = value & 0x3ff;
  if (exponent == 31)
    return bitsToFloat(sign | 0x7f800000u | fraction << 13);
  if (exponent)
    return bitsToFloat(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = float(fraction) * 0x1p-24f;
  return bitsToFloat(sign | floatToBits(magnitude));
}
inline uint16_t floatToFloat16(float value) {
  uint32_t bits = floatToBits(value);
  uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u)
    return sign | 0x7e00;
  if (bits >= 0x477ff000u) // rounds to 2^16 or more
    return sign | 0x7c00;
  if (bits < 0x38800000u) { // below 2^-14: adding 0.5 leaves units of 2^-24
    float shifted = bitsToFloat(bits) + 0.5f;
    return sign | uint16_t(floatToBits(shifted) - floatToBits(0.5f));
  }
  return sign |
         uint16_t((bits - 0x38000000u + 0xfff + ((bits >> 13) & 1)) >> 13);
}

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_HALF_H
