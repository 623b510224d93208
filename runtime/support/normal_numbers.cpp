// The loop over blocks is written for the compiler's vectorizer: no branches,
// and nothing but f32 and 32-bit integers in the lanes. Every product that is
// added to something is an explicit fused one, so that each level of x86-64
// gives the same bits: eight at a time with AVX2 and FMA, one by one without.
#include "runtime/support/normal_numbers.h"
#include "runtime/support/philox.h"

#include <algorithm>
#include <cstring>

namespace lockstep {

#define LOCKSTEP_INLINE static inline __attribute__((always_inline))

template <typename To, typename From> LOCKSTEP_INLINE To bitsAs(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From), "expected types of one size");
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

/// x * (...(x * c[n-1] + c[n-2])...) + c[0]
template <int n>
LOCKSTEP_INLINE float polynomial(float x, const float (&c)[n]) {
  float value = c[n - 1];
  for (int i = n - 2; i >= 0; --i)
    value = __builtin_fmaf(value, x, c[i]);
  return value;
}

/// bits + 1/2, rounded once.
LOCKSTEP_INLINE float middleOf(uint32_t bits) {
  return __builtin_fmaf(float(int32_t(bits >> 16)), 65536.0f,
                        float(int32_t(bits & 0xffff)) + 0.5f);
}

/// sqrt(-2 log u) for u = (bits + 1/2) / 2^32 = (1 + f) 2^e with 1 + f from
/// sqrt(1/2) to sqrt(2). Where e = 0, f is taken from 1 - u, which is exact
/// where u itself would round to 1.
LOCKSTEP_INLINE float radiusOf(uint32_t bits) {
  constexpr uint32_t rootHalf = 0x3f3504f3;
  int32_t shifted = int32_t(bitsAs<uint32_t>(middleOf(bits)) - rootHalf);
  int32_t exponent = (shifted >> 23) - 32;
  float near = -0x1p-32f * middleOf(~bits);
  float far = bitsAs<float>((uint32_t(shifted) & 0x7fffff) + rootHalf) - 1.0f;
  float f = exponent == 0 ? near : far;
  // (-2 log(1 + f) + 2 f - f^2) / f^3; all within 6e-9 of the logarithm.
  float rest =
      polynomial(f, {-0.666666329f, 0.500016212f, -0.400045723f, 0.33249107f,
                     -0.283623815f, 0.26257512f, -0.25763309f, 0.157192379f});
  float square = f * f;
  float logarithm =
      __builtin_fmaf(-2.0f, f, __builtin_fmaf(square * f, rest, square));
  // -2 log 2 in two parts, the first of few enough bits for an exact product.
  float e = float(exponent);
  logarithm = __builtin_fmaf(e, -1.38629436e+00f, logarithm);
  return __builtin_sqrtf(logarithm);
}

/// cos and sin of 2 pi (bits + 1/2) / 2^32 = (k + x) pi/2 with |x| <= 1/2.
LOCKSTEP_INLINE void directionOf(uint32_t bits, float &cosine, float &sine) {
  uint32_t k = (bits + 0x20000000u) >> 30;
  float x = (float(int32_t(bits - (k << 30))) + 0.5f) * 0x1p-30f;
  float z = x * x;
  float s = x * polynomial(z, {1.57079637f, -0.64596349f, 0.079680033f,
                               -0.00460165786f});
  float c = __builtin_fmaf(z,
                           polynomial(z, {-1.23370051f, 0.253669232f,
                                          -0.0208602883f, 0.000904021668f}),
                           1.0f);
  bool odd = k & 1;
  uint32_t cosineSign = (k + 1) << 30 & 0x80000000u,
           sineSign = k << 30 & 0x80000000u;
  cosine = bitsAs<float>(bitsAs<uint32_t>(odd ? s : c) ^ cosineSign);
  sine = bitsAs<float>(bitsAs<uint32_t>(odd ? c : s) ^ sineSign);
}

LOCKSTEP_INLINE void fillBlocks(uint64_t key, uint64_t stream, uint64_t block,
                                int64_t blocks, float *__restrict target) {
  for (int64_t i = 0; i < blocks; ++i) {
    std::array<uint32_t, 4> words = philox(key, block + uint64_t(i), stream);
    float radius0 = radiusOf(words[0]), radius1 = radiusOf(words[2]);
    float cosine0, sine0, cosine1, sine1;
    directionOf(words[1], cosine0, sine0);
    directionOf(words[3], cosine1, sine1);
    target[4 * i] = radius0 * cosine0;
    target[4 * i + 1] = radius0 * sine0;
    target[4 * i + 2] = radius1 * cosine1;
    target[4 * i + 3] = radius1 * sine1;
  }
}

#define LOCKSTEP_VARIANT(name, ...)                                            \
  __VA_ARGS__ static void name(uint64_t key, uint64_t stream, uint64_t block,  \
                               int64_t blocks, float *target) {                \
    fillBlocks(key, stream, block, blocks, target);                            \
  }
LOCKSTEP_VARIANT(fillLevel3, __attribute__((target("arch=x86-64-v3"))))
LOCKSTEP_VARIANT(fillLevel1, )

std::vector<NormalBlocks> normalBlockVariants() {
  std::vector<NormalBlocks> variants;
  if (__builtin_cpu_supports("x86-64-v3"))
    variants.push_back(fillLevel3);
  variants.push_back(fillLevel1);
  return variants;
}

void normalNumbers(uint64_t key, uint64_t stream, uint64_t first, int64_t count,
                   float *target) {
  static const NormalBlocks fill = normalBlockVariants().front();
  // The ends of a range may lie within blocks.
  auto part = [&](int64_t numbers) {
    float block[4];
    fill(key, stream, first / 4, 1, block);
    std::copy_n(block + first % 4, numbers, target);
    first += uint64_t(numbers);
    count -= numbers;
    target += numbers;
  };
  if (first % 4 && count)
    part(std::min(count, int64_t(4 - first % 4)));
  int64_t blocks = count / 4;
  fill(key, stream, first / 4, blocks, target);
  first += uint64_t(4 * blocks);
  target += 4 * blocks;
  count -= 4 * blocks;
  if (count)
    part(count);
}

} // namespace lockstep
