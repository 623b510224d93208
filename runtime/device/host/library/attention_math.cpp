// Compiled for x86-64-v3, which every artifact needs.
#include "runtime/device/host/library/attention_math.h"

#include <immintrin.h>

namespace lockstep::runtime {

static constexpr float minusInfinity = -__builtin_inff();

/// exp of 8 values, to about 1 ulp; below -87.3 it is 0, NaN stays NaN.
static inline __m256 exp8(__m256 x) {
  const __m256 lowest = _mm256_set1_ps(-87.33654f);
  __m256 tooLow = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ);
  // With a NaN the second operand is the result.
  x = _mm256_max_ps(lowest, x);
  x = _mm256_min_ps(_mm256_set1_ps(88.72283f), x);
  __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)),
                      _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145751953125f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p,
                      _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
  // 2^n in two factors, so that n = 128 does not overflow the exponent.
  __m256i whole = _mm256_cvtps_epi32(n);
  __m256i half = _mm256_srai_epi32(whole, 1);
  __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  __m256 scale1 =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  __m256 scale2 =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  p = _mm256_mul_ps(_mm256_mul_ps(p, scale1), scale2);
  return _mm256_andnot_ps(tooLow, p);
}

static inline float sum8(__m256 x) {
  __m128 half =
      _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  half = _mm_add_ss(half, _mm_shuffle_ps(half, half, 1));
  return _mm_cvtss_f32(half);
}

/// The largest of 8 values; NaN if one of them is.
static inline float max8(__m256 x) {
  float lanes[8];
  _mm256_storeu_ps(lanes, x);
  float largest = lanes[0];
  for (int i = 1; i < 8; ++i)
    largest = lanes[i] > largest || lanes[i] != lanes[i] ? lanes[i] : largest;
  return largest;
}

/// Applies bounds and mask to a row: what does not count becomes -inf, the
/// padding as well.
static void maskRow(float *row, int64_t index, int64_t columns, int64_t padded,
                    const TileMask &mask) {
  int64_t begin = mask.firstBegin + index, end = mask.lastEnd + index;
  begin = begin < 0 ? 0 : begin > columns ? columns : begin;
  end = end < begin ? begin : end > columns ? columns : end;
  if (mask.add) {
    const float *add = mask.add + index * mask.rowStride;
    if (mask.columnStride == 1)
      for (int64_t j = begin; j < end; ++j)
        row[j] += add[j];
    else
      for (int64_t j = begin; j < end; ++j)
        row[j] += add[j * mask.columnStride];
  } else if (mask.allowed) {
    const uint8_t *allowed = mask.allowed + index * mask.rowStride;
    for (int64_t j = begin; j < end; ++j)
      row[j] = allowed[j * mask.columnStride] ? row[j] : minusInfinity;
  }
  for (int64_t j = 0; j < begin; ++j)
    row[j] = minusInfinity;
  for (int64_t j = end; j < padded; ++j)
    row[j] = minusInfinity;
}

void softmaxTile(float *scores, int64_t stride, int64_t rows, int64_t columns,
                 const TileMask &mask, float *maximum, float *sum,
                 float *correction) {
  int64_t padded = (columns + 7) / 8 * 8;
  for (int64_t i = 0; i < rows; ++i) {
    float *row = scores + i * stride;
    maskRow(row, i, columns, padded, mask);
    __m256 largest = _mm256_set1_ps(minusInfinity);
    for (int64_t j = 0; j < padded; j += 8)
      largest = _mm256_max_ps(largest, _mm256_loadu_ps(row + j));
    float rowMaximum = max8(largest);
    float next = maximum[i] > rowMaximum ? maximum[i] : rowMaximum;
    if (next == minusInfinity) { // no allowed key so far
      for (int64_t j = 0; j < padded; ++j)
        row[j] = 0;
      correction[i] = 1;
      continue;
    }
    __m256 shift = _mm256_set1_ps(next);
    __m256 total = _mm256_setzero_ps();
    for (int64_t j = 0; j < padded; j += 8) {
      __m256 p = exp8(_mm256_sub_ps(_mm256_loadu_ps(row + j), shift));
      _mm256_storeu_ps(row + j, p);
      total = _mm256_add_ps(total, p);
    }
    float factor = _mm256_cvtss_f32(exp8(_mm256_set1_ps(maximum[i] - next)));
    correction[i] = factor;
    sum[i] = sum[i] * factor + sum8(total);
    maximum[i] = next;
  }
}

void gradientTile(float *scores, float *gradients, int64_t stride, int64_t rows,
                  int64_t columns, const TileMask &mask, const float *lse,
                  const float *delta, float scale) {
  int64_t padded = (columns + 7) / 8 * 8;
  const __m256 factor = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < rows; ++i) {
    float *row = scores + i * stride;
    float *gradient = gradients + i * stride;
    for (int64_t j = columns; j < padded; ++j)
      gradient[j] = 0;
    if (lse[i] == minusInfinity) {
      for (int64_t j = 0; j < padded; ++j)
        row[j] = gradient[j] = 0;
      continue;
    }
    maskRow(row, i, columns, padded, mask);
    __m256 shift = _mm256_set1_ps(lse[i]);
    __m256 offset = _mm256_set1_ps(delta[i]);
    for (int64_t j = 0; j < padded; j += 8) {
      __m256 p = exp8(_mm256_sub_ps(_mm256_loadu_ps(row + j), shift));
      __m256 d = _mm256_sub_ps(_mm256_loadu_ps(gradient + j), offset);
      _mm256_storeu_ps(row + j, p);
      _mm256_storeu_ps(gradient + j,
                       _mm256_mul_ps(_mm256_mul_ps(p, factor), d));
    }
  }
}

void scaleRow(float *row, int64_t count, float factor) {
  for (int64_t j = 0; j < count; ++j)
    row[j] *= factor;
}

float dotRow(const float *x, const float *y, int64_t count) {
  __m256 total = _mm256_setzero_ps();
  int64_t j = 0;
  for (; j + 8 <= count; j += 8)
    total =
        _mm256_fmadd_ps(_mm256_loadu_ps(x + j), _mm256_loadu_ps(y + j), total);
  float rest = 0;
  for (; j < count; ++j)
    rest += x[j] * y[j];
  return sum8(total) + rest;
}

} // namespace lockstep::runtime
