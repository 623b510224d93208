#include "runtime/device/host/library/tile_product.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::runtime {

static int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

Offsets::Offsets(std::vector<int32_t> given)
    : count(int64_t(given.size())), values(std::move(given)) {
  values.resize(size_t(ceilDiv(count, 16) * 16), count ? values.back() : 0);
  steps.resize(values.size() / 16, 1);
  for (size_t block = 0; block < steps.size(); ++block) {
    size_t first = 16 * block, last = std::min<size_t>(first + 16, count);
    if (first + 1 >= last)
      continue;
    steps[block] = values[first + 1] - values[first];
    for (size_t i = first + 2; i < last; ++i)
      if (values[i] - values[i - 1] != steps[block])
        steps[block] = -1;
  }
}

Offsets Offsets::strided(int64_t count, int64_t stride) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = int32_t(i * stride);
  return Offsets(std::move(values));
}

bool hasTiles() {
  static const bool result = [] {
    unsigned a, b, c, d;
    constexpr unsigned amxBf16 = 1u << 22, amxTile = 1u << 24, bf16 = 1u << 5;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amxBf16) ||
        !(d & amxTile))
      return false;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & bf16) ||
        !__builtin_cpu_supports("avx512bw"))
      return false;
    // Linux gives the tiles' state to processes that ask for it.
    constexpr long requestPermission = 0x1023, tileData = 18;
    return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  }();
  return result;
}

bool tilesAreFaster(int64_t m, int64_t n, int64_t k) {
  if (!hasTiles())
    return false;
  // Nanoseconds on one core at the rates that were measured: products of tiles,
  // elements split, products with AVX-512.
  auto whole = [](int64_t size, int64_t unit) {
    return double(ceilDiv(size, unit) * unit);
  };
  double tiles = whole(m, 16) * whole(n, 16) * whole(k, stepTerms) / 200 +
                 0.4 * (double(m) * k + double(k) * n) + 300;
  return tiles < double(m) * n * k / 75;
}

namespace {

/// Columns and terms of the second factor that are packed at a time.
constexpr int64_t mostColumns = 2048, mostTerms = 512;
/// Rows of a task, whose first factor stays in the second cache; columns of
/// one, at least.
constexpr int64_t mostTaskRows = 128, leastTaskColumns = 128;

/// How the rows and columns of a block are cut into tasks. Affects no result.
struct TaskGrid {
  int64_t rows, columns; ///< of one task, whole panels
  int64_t down, across;

  TaskGrid(int64_t m, int64_t n) {
    int64_t wanted = 2 * lockstep_max_threads();
    int64_t panels = ceilDiv(m, panelSize);
    rows = panelSize *
           std::clamp<int64_t>(panels / wanted, 1, mostTaskRows / panelSize);
    down = ceilDiv(m, rows);
    int64_t groups = ceilDiv(n, leastTaskColumns);
    across = std::clamp<int64_t>(wanted / down, 1, groups);
    columns = ceilDiv(groups, across) * leastTaskColumns;
    across = ceilDiv(n, columns);
  }
};

} // namespace

void TileProduct::run(const float *a, const float *b, float *c) const {
  int64_t m = cRows.size(), n = cColumns.size(), k = aSums.size();
  int64_t columns = std::min(n, mostColumns),
          mostSteps = ceilDiv(std::min(k, mostTerms), stepTerms);
  TaskGrid grid(m, columns);
  auto *packedB = threadScratchOf<uint8_t>(4, ceilDiv(columns, panelSize) *
                                                  mostSteps * stepBytes);
  for (int64_t column = 0; column < n; column += columns)
    for (int64_t term = 0; term < k; term += mostTerms) {
      int64_t lastColumn = std::min(column + columns, n);
      int64_t steps = ceilDiv(std::min(mostTerms, k - term), stepTerms);
      int64_t panelBytes = steps * stepBytes;
      parallelFor(ceilDiv(lastColumn - column, panelSize), [&](int64_t panel) {
        packPanel(b, bColumns.view(), bSums.view(), TileLayout::Pairs,
                  column + panel * panelSize, term, steps,
                  packedB + panel * panelBytes);
      });
      parallelFor(grid.down * grid.across, [&](int64_t task) {
        int64_t row = task / grid.across * grid.rows,
                before = task % grid.across * grid.columns;
        int64_t lastRow = std::min(row + grid.rows, m);
        if (column + before >= lastColumn)
          return;
        auto *packedA = threadScratchOf<uint8_t>(3, mostTaskRows / panelSize *
                                                        mostSteps * stepBytes);
        for (int64_t first = row; first < lastRow; first += panelSize)
          packPanel(a, aRows.view(), aSums.view(), TileLayout::Rows, first,
                    term, steps,
                    packedA + (first - row) / panelSize * panelBytes);
        multiplyBlock({c, cRows.view(), cColumns.view(), packedA,
                       packedB + before / panelSize * panelBytes, row, lastRow,
                       column + before,
                       std::min(column + before + grid.columns, lastColumn),
                       steps, alpha, term == 0 ? beta : 1});
      });
    }
}

} // namespace lockstep::runtime
