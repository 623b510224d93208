// The two inner parts of a product on tiles: splitting numbers into tiles of
// bf16, and multiplying blocks of such tiles. They are compiled for processors
// with AVX-512 and AMX, so this header has nothing that other code shares: no
// inline functions, no templates.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_KERNELS_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_KERNELS_H

#include <cstdint>

namespace lockstep::runtime {

/// A step is 32 terms of the sum; a panel is 32 rows of the first factor or
/// columns of the second. The tiles of a step of a panel:
/// [part 0 (largest), 1, 2][half of the panel][16 x 32 bf16].
constexpr int64_t stepTerms = 32, panelSize = 32;
constexpr int64_t tileBytes = 1024, stepBytes = 6 * tileBytes;

/// Offsets (in elements) of a dimension's positions, in blocks of 16.
struct TileOffsets {
  const int32_t *values; ///< padded to whole blocks
  /// Per block: the common difference of the offsets that are below `count`, 1
  /// for a single one, 0 without one.
  const int32_t *steps;
  /// Per block: 16, 8 or 4 where every so many offsets are neighbours, else 1.
  const int32_t *runs;
  int64_t count;
};

/// Rows: a tile's row is a row of the matrix, as the first factor wants.
/// Pairs: a tile's row is two terms of the sum, as the second factor wants.
/// Terms j and j + 16 of a step are neighbours in both.
enum class TileLayout { Rows, Pairs };

/// Fills the panel from `first` with `steps` steps of terms from `firstTerm`
/// on: the parts of source[outer + term]. Positions beyond the sizes are zero.
void packPanel(const float *source, TileOffsets outer, TileOffsets terms,
               TileLayout layout, int64_t first, int64_t firstTerm,
               int64_t steps, uint8_t *panel);

/// A block of a product: some rows and columns of c, some terms of the sums.
struct TileBlock {
  float *c;
  TileOffsets cRows, cColumns;
  const uint8_t *a, *b;   ///< panels from firstRow and firstColumn on
  int64_t aPanel, bPanel; ///< bytes from one panel to the next
  int64_t firstRow, lastRow, firstColumn, lastColumn, steps;
  float alpha, beta; ///< c = alpha * sums + beta * c; not read when beta is 0
  /// Where tiles of c are not whole rows at one stride, sums of a block that is
  /// not the last one of the terms wait in `waiting`: 4096 bytes for each pair
  /// of panels. The others are added to c each time.
  float *waiting;
  bool isFirst, isLast; ///< of the terms' blocks
};

void multiplyBlock(const TileBlock &block);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_TILE_KERNELS_H
