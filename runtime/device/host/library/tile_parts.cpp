// Compiled for AVX-512 with bf16; called only where hasTiles().
#include "runtime/device/host/library/tile_kernels.h"

#include <immintrin.h>

namespace lockstep::runtime {

namespace {

/// Which of 16 positions from `first` are below the size.
__mmask16 maskOf(const TileOffsets &offsets, int64_t first) {
  int64_t left = offsets.count - first;
  return left >= 16 ? 0xffff : left <= 0 ? 0 : __mmask16((1u << left) - 1);
}

void transpose(__m512 v[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
  auto low = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(
        _mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  auto high = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(
        _mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  for (int i = 0; i < 16; i += 4) { // columns i..i+3 of each 128-bit lane
    v[i] = low(t[i], t[i + 2]);
    v[i + 1] = high(t[i], t[i + 2]);
    v[i + 2] = low(t[i + 1], t[i + 3]);
    v[i + 3] = high(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    v[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    v[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    v[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// bf16 parts of x (low halves of the 32-bit elements) and y (high halves).
void splitPair(__m512 x, __m512 y, uint8_t *tiles) {
  const __m512i interleave = _mm512_set_epi16(
      31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
      6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i highHalf = _mm512_set1_epi32(int(0xffff0000));
  // Rounding may not reach infinity. NaN stays.
  const __m512 most = _mm512_set1_ps(0x1.fep127f),
               least = _mm512_set1_ps(-0x1.fep127f);
  auto round = [&](__m512 low, __m512 high) {
    return _mm512_permutexvar_epi16(interleave,
                                    (__m512i)_mm512_cvtne2ps_pbh(high, low));
  };
  auto lowOf = [](__m512i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
  };
  auto highOf = [&](__m512i v) {
    return _mm512_castsi512_ps(_mm512_and_si512(v, highHalf));
  };
  auto clamp = [&](__m512 v) {
    return _mm512_max_ps(least, _mm512_min_ps(most, v));
  };
  __m512i part = round(clamp(x), clamp(y));
  _mm512_store_si512(tiles, part);
  for (int i = 1; i < 3; ++i) {
    x = _mm512_sub_ps(x, lowOf(part));
    y = _mm512_sub_ps(y, highOf(part));
    part = round(x, y);
    _mm512_store_si512(tiles + 2 * i * tileBytes, part);
  }
}

/// 16 numbers at offsets of which every `run` are neighbours.
template <int run>
__m512 loadRuns(const float *source, const int32_t *offsets) {
  if constexpr (run == 16)
    return _mm512_loadu_ps(source + offsets[0]);
  if constexpr (run == 8)
    return _mm512_insertf32x8(
        _mm512_castps256_ps512(_mm256_loadu_ps(source + offsets[0])),
        _mm256_loadu_ps(source + offsets[8]), 1);
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(source + offsets[0]));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(source + offsets[4]), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(source + offsets[8]), 2);
  return _mm512_insertf32x4(v, _mm_loadu_ps(source + offsets[12]), 3);
}

template <int run>
void loadRows(const float *source, const int32_t *rows, const int32_t *offsets,
              __m512 v[16]) {
  for (int i = 0; i < 16; ++i)
    v[i] = loadRuns<run>(source + rows[i], offsets);
}

void loadRows(const float *source, const int32_t *rows, const int32_t *offsets,
              int32_t run, __m512 v[16]) {
  if (run == 16)
    loadRows<16>(source, rows, offsets, v);
  else if (run == 8)
    loadRows<8>(source, rows, offsets, v);
  else
    loadRows<4>(source, rows, offsets, v);
}

/// v[i] = every second number of 31 from rows[i] on.
void loadEven(const float *source, const int32_t *rows, __m512 v[16]) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12,
                                        10, 8, 6, 4, 2, 0);
  for (int i = 0; i < 16; ++i)
    v[i] = _mm512_permutex2var_ps(
        _mm512_loadu_ps(source + rows[i]), even,
        _mm512_maskz_loadu_ps(0x7fff, source + rows[i] + 16));
}

void gatherRows(const float *source, const int32_t *rows, __mmask16 rowMask,
                const int32_t *offsets, __mmask16 mask, __m512 v[16]) {
  __m512i index = _mm512_loadu_si512(offsets);
  for (int i = 0; i < 16; ++i)
    v[i] = _mm512_mask_i32gather_ps(_mm512_setzero_ps(),
                                    rowMask >> i & 1 ? mask : __mmask16(0),
                                    index, source + rows[i], 4);
}

/// v[i] = source at position `major + i` of one dimension and 16 positions from
/// `lane` on of the other; zero beyond the sizes.
void loadBlock(const float *source, const TileOffsets &majors, int64_t major,
               const TileOffsets &lanes, int64_t lane, __m512 v[16]) {
  __mmask16 majorMask = maskOf(majors, major), laneMask = maskOf(lanes, lane);
  if (!majorMask || !laneMask) {
    for (int i = 0; i < 16; ++i)
      v[i] = _mm512_setzero_ps();
    return;
  }
  const int32_t *m = majors.values + major, *l = lanes.values + lane;
  int32_t laneRun = lanes.runs[lane / 16], majorRun = majors.runs[major / 16];
  if (majorMask != 0xffff || laneMask != 0xffff)
    return gatherRows(source, m, majorMask, l, laneMask, v);
  if (laneRun >= majorRun && laneRun > 1)
    return loadRows(source, m, l, laneRun, v);
  if (majorRun > 1) {
    loadRows(source, l, m, majorRun, v);
    return transpose(v);
  }
  if (lanes.steps[lane / 16] == 2)
    return loadEven(source + l[0], m, v);
  if (majors.steps[major / 16] == 2) {
    loadEven(source + m[0], l, v);
    return transpose(v);
  }
  gatherRows(source, m, majorMask, l, laneMask, v);
}

/// Positions of two dimensions that make up the rows of a tile: row i has 16
/// elements from `lanes[0]` at `majors[0] + i`, and 16 from `lanes[1]` at
/// `majors[1] + i`.
struct TileRows {
  const TileOffsets &majorOffsets, &laneOffsets;
  int64_t majors[2], lanes[2];

  bool areWhole() const {
    for (int i = 0; i < 2; ++i)
      if (majors[i] + 16 > majorOffsets.count ||
          lanes[i] + 16 > laneOffsets.count ||
          laneOffsets.runs[lanes[i] / 16] != 16)
        return false;
    return true;
  }
};

void packTile(const float *source, const TileRows &rows, uint8_t *tiles) {
  if (rows.areWhole()) {
    const int32_t *xs = rows.majorOffsets.values + rows.majors[0],
                  *ys = rows.majorOffsets.values + rows.majors[1];
    const float *x = source + rows.laneOffsets.values[rows.lanes[0]],
                *y = source + rows.laneOffsets.values[rows.lanes[1]];
    for (int i = 0; i < 16; ++i)
      splitPair(_mm512_loadu_ps(x + xs[i]), _mm512_loadu_ps(y + ys[i]),
                tiles + 64 * i);
    return;
  }
  __m512 x[16], y[16];
  loadBlock(source, rows.majorOffsets, rows.majors[0], rows.laneOffsets,
            rows.lanes[0], x);
  loadBlock(source, rows.majorOffsets, rows.majors[1], rows.laneOffsets,
            rows.lanes[1], y);
  for (int i = 0; i < 16; ++i)
    splitPair(x[i], y[i], tiles + 64 * i);
}

} // namespace

void packPanel(const float *source, TileOffsets outer, TileOffsets terms,
               TileLayout layout, int64_t first, int64_t firstTerm,
               int64_t steps, uint8_t *panel) {
  for (int64_t step = 0; step < steps; ++step, panel += stepBytes) {
    int64_t term = firstTerm + step * stepTerms;
    for (int64_t half = 0; half < 2; ++half) {
      int64_t position = first + 16 * half;
      if (position >= outer.count) // No product reads it.
        break;
      TileRows rows =
          layout == TileLayout::Rows
              ? TileRows{outer, terms, {position, position}, {term, term + 16}}
              : TileRows{terms, outer, {term, term + 16}, {position, position}};
      packTile(source, rows, panel + half * tileBytes);
    }
  }
}

} // namespace lockstep::runtime
