// Compiled for AVX-512 with AMX; called only where hasTiles().
#include "runtime/device/host/library/tile_kernels.h"

#include <immintrin.h>

namespace lockstep::runtime {

namespace {

/// Columns that are visited between two chunks of steps: their sums stay in the
/// first cache, as does a chunk of a panel.
constexpr int64_t groupColumns = 128, chunkSteps = 4;

int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

class TileThread {
public:
  TileThread() {
    struct {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t rowBytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    for (int i = 0; i < 8; ++i) {
      config.rowBytes[i] = 64;
      config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
  }
  ~TileThread() { _tile_release(); }
};

/// Adds the products of two tiles each, or of the first ones alone. Tile 0 to 3
/// are the sums, 4 and 5 of the first factor, 6 and 7 of the second. `nextA`
/// and `nextB` are what the factors will be afterwards.
template <bool twoRows, bool twoColumns>
void multiplySteps(const uint8_t *a, const uint8_t *b, const uint8_t *nextA,
                   const uint8_t *nextB, int64_t steps) {
  auto loadA = [&](int part) {
    _tile_loadd(4, a + 2 * part * tileBytes, 64);
    if (twoRows)
      _tile_loadd(5, a + (2 * part + 1) * tileBytes, 64);
  };
  auto loadB = [&](int part) {
    _tile_loadd(6, b + 2 * part * tileBytes, 64);
    if (twoColumns)
      _tile_loadd(7, b + (2 * part + 1) * tileBytes, 64);
  };
  auto multiply = [&](const uint8_t *coming, int part) {
    for (int64_t line = part * tileBytes; line < (part + 1) * tileBytes;
         line += 64)
      _mm_prefetch(coming + line, _MM_HINT_T0);
    if (nextA)
      for (int64_t line = part * tileBytes; line < (part + 1) * tileBytes;
           line += 64)
        _mm_prefetch(nextA + line, _MM_HINT_T0);
    _tile_dpbf16ps(0, 4, 6);
    if (twoColumns)
      _tile_dpbf16ps(1, 4, 7);
    if (twoRows)
      _tile_dpbf16ps(2, 5, 6);
    if (twoRows && twoColumns)
      _tile_dpbf16ps(3, 5, 7);
  };
  // The order has few loads.
  for (int64_t i = 0; i < steps; ++i, a += stepBytes, b += stepBytes) {
    const uint8_t *coming = i + 1 < steps ? b + stepBytes : nextB;
    loadA(0), loadB(2), multiply(coming, 4);
    loadB(0), multiply(coming, 5);
    loadA(2), multiply(coming, 0);
    loadA(1), multiply(coming, 1);
    loadB(1), multiply(coming, 2);
    loadA(0), multiply(coming, 3);
    nextA = nextA ? nextA + stepBytes : nullptr;
  }
}

void multiplySteps(bool twoRows, bool twoColumns, const uint8_t *a,
                   const uint8_t *b, const uint8_t *nextA, const uint8_t *nextB,
                   int64_t steps) {
  if (twoRows)
    return twoColumns ? multiplySteps<true, true>(a, b, nextA, nextB, steps)
                      : multiplySteps<true, false>(a, b, nextA, nextB, steps);
  return twoColumns ? multiplySteps<false, true>(a, b, nextA, nextB, steps)
                    : multiplySteps<false, false>(a, b, nextA, nextB, steps);
}

void zeroSum(int sum) {
  switch (sum) {
  case 0:
    return _tile_zero(0);
  case 1:
    return _tile_zero(1);
  case 2:
    return _tile_zero(2);
  default:
    return _tile_zero(3);
  }
}
void loadSum(int sum, const float *c, int64_t stride) {
  switch (sum) {
  case 0:
    return _tile_loadd(0, c, 4 * stride);
  case 1:
    return _tile_loadd(1, c, 4 * stride);
  case 2:
    return _tile_loadd(2, c, 4 * stride);
  default:
    return _tile_loadd(3, c, 4 * stride);
  }
}
void storeSum(int sum, float *c, int64_t stride) {
  switch (sum) {
  case 0:
    return _tile_stored(0, c, 4 * stride);
  case 1:
    return _tile_stored(1, c, 4 * stride);
  case 2:
    return _tile_stored(2, c, 4 * stride);
  default:
    return _tile_stored(3, c, 4 * stride);
  }
}

/// Sums that wait for the next chunk: a tile's rows, one behind the other.
constexpr int64_t sumRow = 16, sumSize = 256;

class Block {
public:
  explicit Block(const TileBlock &block) : t(block) {}
  void multiply() const;

private:
  void multiplyPanels(int64_t row, int64_t column, int64_t step,
                      bool isLastColumn, float *sums) const;
  bool isDirect(int64_t row, int64_t column) const;
  float *at(int64_t row, int64_t column) const {
    return t.c + t.cRows.values[row] + t.cColumns.values[column];
  }
  int64_t stride(int64_t row) const { return t.cRows.steps[row / 16]; }
  void storeBlock(int sum, int64_t row, int64_t column, float *waiting) const;
  void storeApart(const float *tile, int64_t row, int64_t column) const;

  const TileBlock &t;
};

/// The tile of c at a row and column is 16 whole rows with one stride, to which
/// sums are added as they are.
bool Block::isDirect(int64_t row, int64_t column) const {
  return t.alpha == 1 && (t.beta == 0 || t.beta == 1) &&
         row + 16 <= t.cRows.count && column + 16 <= t.cColumns.count &&
         t.cColumns.steps[column / 16] == 1 && stride(row) > 0;
}

/// c at a row and column from the sums of all blocks.
void Block::storeApart(const float *tile, int64_t row, int64_t column) const {
  int64_t height = least(16, t.cRows.count - row),
          width = least(16, t.cColumns.count - column);
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) {
      float *out = at(row + i, column + j);
      float value = t.alpha * tile[i * sumRow + j];
      *out = t.beta == 0 ? value : value + t.beta * *out;
    }
}

void addSum(int sum, float *to, int64_t stride) {
  alignas(64) float tile[sumSize];
  storeSum(sum, tile, sumRow);
  for (int64_t i = 0; i < 16; ++i)
    _mm512_storeu_ps(to + i * stride,
                     _mm512_add_ps(_mm512_loadu_ps(to + i * stride),
                                   _mm512_load_ps(tile + i * sumRow)));
}

/// The sums of a block go to c, or wait for those of the next block. Blocks are
/// added up one by one, so that sums of many terms lose less.
void Block::storeBlock(int sum, int64_t row, int64_t column,
                       float *waiting) const {
  if (isDirect(row, column)) {
    if (t.isFirst && t.beta == 0)
      storeSum(sum, at(row, column), stride(row));
    else
      addSum(sum, at(row, column), stride(row));
    return;
  }
  if (t.isFirst)
    storeSum(sum, waiting, sumRow);
  else
    addSum(sum, waiting, sumRow);
  if (t.isLast)
    storeApart(waiting, row, column);
}

/// A chunk of the sums of two panels. `sums` keeps them between the chunks.
void Block::multiplyPanels(int64_t row, int64_t column, int64_t step,
                           bool isLastColumn, float *sums) const {
  bool twoRows = row + 16 < t.lastRow, twoColumns = column + 16 < t.lastColumn;
  int64_t count = least(chunkSteps, t.steps - step);
  bool last = step + count == t.steps;
  auto forSums = [&](auto body) {
    for (int r = 0; r <= twoRows; ++r)
      for (int k = 0; k <= twoColumns; ++k)
        body(2 * r + k, row + 16 * r, column + 16 * k);
  };
  float *waiting =
      t.waiting +
      ((row - t.firstRow) / panelSize *
           ((t.lastColumn - t.firstColumn + panelSize - 1) / panelSize) +
       (column - t.firstColumn) / panelSize) *
          (4 * sumSize);
  forSums([&](int sum, int64_t, int64_t) {
    if (step > 0)
      loadSum(sum, sums + sum * sumSize, sumRow);
    else
      zeroSum(sum);
  });
  const uint8_t *first =
      t.a + (row - t.firstRow) / panelSize * t.aPanel + step * stepBytes;
  const uint8_t *second =
      t.b + (column - t.firstColumn) / panelSize * t.bPanel + step * stepBytes;
  multiplySteps(twoRows, twoColumns, first, second,
                isLastColumn ? first + count * stepBytes : nullptr,
                second + t.bPanel, count);
  forSums([&](int sum, int64_t i, int64_t j) {
    if (last)
      storeBlock(sum, i, j, waiting + sum * sumSize);
    else
      storeSum(sum, sums + sum * sumSize, sumRow);
  });
}

void Block::multiply() const {
  alignas(64) float sums[groupColumns / panelSize][4 * sumSize];
  for (int64_t group = t.firstColumn; group < t.lastColumn;
       group += groupColumns) {
    int64_t end = least(group + groupColumns, t.lastColumn);
    for (int64_t row = t.firstRow; row < t.lastRow; row += panelSize)
      for (int64_t step = 0; step < t.steps; step += chunkSteps)
        for (int64_t column = group; column < end; column += panelSize)
          multiplyPanels(row, column, step, column + panelSize >= end,
                         sums[(column - group) / panelSize]);
  }
}

} // namespace

void multiplyBlock(const TileBlock &block) {
  TileThread thread;
  Block(block).multiply();
}

} // namespace lockstep::runtime
