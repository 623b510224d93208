#include "runtime/device/host/library/tile_product.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::runtime {

static int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// The common difference of the offsets, 1 for a single one, 0 without one.
static int32_t stepOf(const int32_t *values, int64_t count) {
  if (count < 2)
    return 1;
  int32_t step = values[1] - values[0];
  for (int64_t i = 2; i < count; ++i)
    if (values[i] - values[i - 1] != step)
      return 0;
  return step;
}

/// How many of 16 offsets are neighbours each time: 16, 8, 4 or 1.
static int32_t runOf(const int32_t *values) {
  for (int32_t run : {16, 8, 4}) {
    bool holds = true;
    for (int32_t i = 0; i < 16; ++i)
      holds &= i % run == 0 || values[i] == values[i - 1] + 1;
    if (holds)
      return run;
  }
  return 1;
}

Offsets::Offsets(std::vector<int32_t> given)
    : count(int64_t(given.size())), values(std::move(given)) {
  values.resize(size_t(ceilDiv(count, 16) * 16), count ? values.back() : 0);
  for (int64_t first = 0; first < count; first += 16) {
    const int32_t *block = values.data() + first;
    steps.push_back(stepOf(block, std::min<int64_t>(16, count - first)));
    runs.push_back(runOf(block));
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

/// Rows (or columns) and terms of the shared factor that are packed at a time;
/// rows (or columns) of a task, whose own factor stays in the second cache.
constexpr int64_t mostShared = 2048, mostTerms = 512, mostOwn = 128;

struct Factor {
  const float *source;
  const Offsets &outer, &terms;
  TileLayout layout;

  void pack(int64_t first, int64_t term, int64_t steps, uint8_t *panel) const {
    packPanel(source, outer.view(), terms.view(), layout, first, term, steps,
              panel);
  }
};

struct Range {
  int64_t first, last;
};

/// How the positions of both factors are cut into tasks. Affects no result.
struct TaskGrid {
  int64_t own, shared; ///< positions of a task, whole panels
  int64_t down, across;

  TaskGrid(int64_t ownSize, int64_t sharedSize) {
    int64_t wanted = 4 * lockstep_max_threads();
    int64_t panels = ceilDiv(ownSize, panelSize);
    own = panelSize *
          std::clamp<int64_t>(panels / wanted, 1, mostOwn / panelSize);
    down = ceilDiv(ownSize, own);
    int64_t groups = ceilDiv(sharedSize, 4 * panelSize);
    across = std::clamp<int64_t>(wanted / (2 * down), 1, groups);
    shared = ceilDiv(groups, across) * 4 * panelSize;
    across = ceilDiv(sharedSize, shared);
  }
};

} // namespace

/// The second factor is packed once for all threads, and of the first one each
/// task packs its part; the other way round when the first one is small enough
/// to stay in the second cache.
void TileProduct::run(const float *a, const float *b, float *c) const {
  Factor first{a, aRows, aSums, TileLayout::Rows},
      second{b, bColumns, bSums, TileLayout::Pairs};
  bool sharesRows = aRows.size() < std::min(bColumns.size(), mostOwn + 1);
  const Factor &shared = sharesRows ? first : second,
               &own = sharesRows ? second : first;
  int64_t sharedSize = shared.outer.size(), ownSize = own.outer.size(),
          k = aSums.size();
  int64_t block = std::min(sharedSize, mostShared),
          mostSteps = ceilDiv(std::min(k, mostTerms), stepTerms);
  TaskGrid grid(ownSize, block);
  auto *sharedPanels = threadScratchOf<uint8_t>(4, ceilDiv(block, panelSize) *
                                                       mostSteps * stepBytes);
  auto multiply = [&](Range sharedRange, Range ownRange, int64_t term,
                      int64_t steps, const uint8_t *panels) {
    auto *ownPanels = threadScratchOf<uint8_t>(3, mostOwn / panelSize *
                                                      mostSteps * stepBytes);
    for (int64_t i = ownRange.first; i < ownRange.last; i += panelSize)
      own.pack(i, term, steps,
               ownPanels +
                   (i - ownRange.first) / panelSize * steps * stepBytes);
    Range rows = sharesRows ? sharedRange : ownRange,
          columns = sharesRows ? ownRange : sharedRange;
    multiplyBlock(
        {c, cRows.view(), cColumns.view(), sharesRows ? panels : ownPanels,
         sharesRows ? ownPanels : panels, rows.first, rows.last, columns.first,
         columns.last, steps, alpha, term == 0 ? beta : 1});
  };
  for (int64_t start = 0; start < sharedSize; start += block)
    for (int64_t term = 0; term < k; term += mostTerms) {
      int64_t end = std::min(start + block, sharedSize);
      int64_t steps = ceilDiv(std::min(mostTerms, k - term), stepTerms);
      int64_t panelBytes = steps * stepBytes;
      parallelFor(ceilDiv(end - start, panelSize), [&](int64_t panel) {
        shared.pack(start + panel * panelSize, term, steps,
                    sharedPanels + panel * panelBytes);
      });
      parallelFor(grid.down * grid.across, [&](int64_t task) {
        int64_t before = task % grid.across * grid.shared,
                i = task / grid.across * grid.own;
        Range part{start + before, std::min(start + before + grid.shared, end)};
        if (part.first < part.last)
          multiply(part, {i, std::min(i + grid.own, ownSize)}, term, steps,
                   sharedPanels + before / panelSize * panelBytes);
      });
    }
}

} // namespace lockstep::runtime
