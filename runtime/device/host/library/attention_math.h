// The pointwise part of attention on one tile of scores, vectorised by hand.
// Tiles are row-major with a row stride that is a multiple of 8; columns from
// `columns` to the next multiple of 8 are padding, which leaves as zeros.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_MATH_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_MATH_H

#include <cstdint>

namespace lockstep::runtime {

/// Which scores of a tile count. Row i sees the columns [firstBegin + i,
/// lastEnd + i) of the tile, and of these what the mask leaves.
struct TileMask {
  int64_t firstBegin = INT64_MIN / 2;
  int64_t lastEnd = INT64_MAX / 2;
  const float *add = nullptr;       ///< added to the scaled score
  const uint8_t *allowed = nullptr; ///< nonzero: may attend
  int64_t rowStride = 0, columnStride = 0;
};

/// Scores (already scaled) become exp(score - maximum); `maximum` and `sum` of
/// each row are brought up to date, and `correction` is what earlier sums and
/// outputs of the row are to be multiplied with.
void softmaxTile(float *scores, int64_t stride, int64_t rows, int64_t columns,
                 const TileMask &mask, float *maximum, float *sum,
                 float *correction);

/// Scores become probabilities exp(score - lse), and `gradients` (of the
/// probabilities) become scale * probability * (gradient - delta).
void gradientTile(float *scores, float *gradients, int64_t stride, int64_t rows,
                  int64_t columns, const TileMask &mask, const float *lse,
                  const float *delta, float scale);

/// row *= factor.
void scaleRow(float *row, int64_t count, float factor);

/// Sum of x[i] * y[i].
float dotRow(const float *x, const float *y, int64_t count);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_MATH_H
