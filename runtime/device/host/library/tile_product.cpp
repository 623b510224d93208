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

double tileNanoseconds(int64_t m, int64_t n, int64_t k, double perElement) {
  // Fixed: two loops over threads and the tables.
  constexpr double productsPerNs = 200, perSecond = 0.4, fixed = 20e3;
  auto whole = [](int64_t size, int64_t unit) {
    return double(ceilDiv(size, unit) * unit);
  };
  return whole(m, 16) * whole(n, 16) * whole(k, stepTerms) / productsPerNs +
         perElement * double(m) * double(k) +
         perSecond * double(k) * double(n) + fixed;
}

double vectorNanoseconds(int64_t m, int64_t n, int64_t k) {
  constexpr double productsPerNs = 80;
  return double(m) * double(n) * double(k) / productsPerNs;
}

namespace {

/// Positions of the shared factor that are packed at a time, and the bytes that
/// this takes. Positions and terms of the own factor that a task packs at a
/// time: they stay in the second cache while the shared factor streams by.
constexpr int64_t mostShared = 2048, mostSharedBytes = int64_t(16) << 20;
constexpr int64_t mostOwn = 128, mostTerms = 256;
/// Rows that are few enough to be the shared factor.
constexpr int64_t fewRows = 128;

struct Range {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

/// One factor and its panels of some terms.
struct Factor {
  const float *source;
  const Offsets &outer, &terms;
  TileLayout layout;
};

/// The panels of a range of positions and terms of a factor.
struct Panels {
  uint8_t *memory;
  Range positions, terms;

  int64_t count() const { return ceilDiv(positions.size(), panelSize); }
  int64_t panelBytes() const {
    return ceilDiv(terms.size(), stepTerms) * stepBytes;
  }
  uint8_t *at(int64_t position, int64_t term) const {
    return memory + (position - positions.first) / panelSize * panelBytes() +
           (term - terms.first) / stepTerms * stepBytes;
  }
  void pack(const Factor &factor, int64_t position, Range some) const {
    packPanel(factor.source, factor.outer.view(), factor.terms.view(),
              factor.layout, position, some.first,
              ceilDiv(some.size(), stepTerms), at(position, some.first));
  }
};

/// How the positions of both factors are cut into tasks. Affects no result.
struct TaskGrid {
  int64_t own, shared; ///< positions of a task, whole panels
  int64_t down, across;

  TaskGrid(int64_t ownSize, int64_t sharedSize) {
    int64_t threads = lockstep_max_threads();
    int64_t panels = ceilDiv(ownSize, panelSize);
    int64_t rounds = ceilDiv(panels, threads * (mostOwn / panelSize));
    own = panelSize * ceilDiv(panels, threads * rounds);
    down = ceilDiv(ownSize, own);
    int64_t groups = ceilDiv(sharedSize, 4 * panelSize);
    across = std::clamp<int64_t>(threads / down, 1, groups);
    shared = ceilDiv(groups, across) * 4 * panelSize;
    across = ceilDiv(sharedSize, shared);
  }
};

/// The second factor is packed once for all threads, and of the first one each
/// task packs its part; the other way round when the first one is small.
class Run {
public:
  Run(const TileProduct &p, const float *a, const float *b, float *c)
      : p(p), c(c),
        sharesRows(p.aRows.size() <= std::min(p.bColumns.size(), fewRows)),
        rows{a, p.aRows, p.aSums, TileLayout::Rows},
        columns{b, p.bColumns, p.bSums, TileLayout::Pairs},
        shared(sharesRows ? rows : columns), own(sharesRows ? columns : rows) {}

  void operator()() const {
    int64_t size = shared.outer.size(), terms = p.aSums.size();
    int64_t block = std::min(size, mostShared);
    int64_t panels = ceilDiv(block, panelSize);
    int64_t span =
        std::max(int64_t(1), mostSharedBytes /
                                 (panels * mostTerms / stepTerms * stepBytes)) *
        mostTerms;
    for (int64_t i = 0; i < size; i += block)
      for (int64_t term = 0; term < terms; term += span)
        multiply({i, std::min(i + block, size)},
                 {term, std::min(term + span, terms)});
  }

private:
  void multiply(Range positions, Range terms) const;
  void multiplyTask(const Panels &panels, Range sharedPart,
                    Range ownPart) const;

  const TileProduct &p;
  float *c;
  bool sharesRows;
  Factor rows, columns;
  const Factor &shared, &own;
};

/// The terms from `term` on that are packed together.
Range blockAt(int64_t term, Range all) {
  return {term, std::min(term + mostTerms, all.last)};
}

void Run::multiply(Range positions, Range terms) const {
  Panels panels{nullptr, positions, terms};
  panels.memory =
      threadScratchOf<uint8_t>(4, panels.count() * panels.panelBytes());
  int64_t blocks = ceilDiv(terms.size(), mostTerms);
  parallelFor(panels.count() * blocks, [&](int64_t chunk) {
    panels.pack(shared, positions.first + chunk / blocks * panelSize,
                blockAt(terms.first + chunk % blocks * mostTerms, terms));
  });
  TaskGrid grid(own.outer.size(), positions.size());
  parallelFor(grid.down * grid.across, [&](int64_t task) {
    int64_t first = positions.first + task % grid.across * grid.shared,
            i = task / grid.across * grid.own;
    multiplyTask(panels, {first, std::min(first + grid.shared, positions.last)},
                 {i, std::min(i + grid.own, own.outer.size())});
  });
}

void Run::multiplyTask(const Panels &panels, Range sharedPart,
                       Range ownPart) const {
  auto *memory = threadScratchOf<uint8_t>(3, mostOwn / panelSize * mostTerms /
                                                 stepTerms * stepBytes);
  int64_t pairs = mostOwn / panelSize * ceilDiv(sharedPart.size(), panelSize);
  auto *waiting = threadScratchOf<float>(6, pairs * panelSize * panelSize);
  Range first = sharesRows ? sharedPart : ownPart,
        second = sharesRows ? ownPart : sharedPart;
  for (int64_t term = panels.terms.first; term < panels.terms.last;
       term += mostTerms) {
    Panels ownPanels{memory, ownPart, blockAt(term, panels.terms)};
    for (int64_t i = ownPart.first; i < ownPart.last; i += panelSize)
      ownPanels.pack(own, i, ownPanels.terms);
    TileBlock block;
    block.c = c;
    block.cRows = p.cRows.view();
    block.cColumns = p.cColumns.view();
    block.a = memory;
    block.aPanel = ownPanels.panelBytes();
    block.b = panels.at(sharedPart.first, term);
    block.bPanel = panels.panelBytes();
    if (sharesRows) {
      std::swap(block.a, block.b);
      std::swap(block.aPanel, block.bPanel);
    }
    block.firstRow = first.first;
    block.lastRow = first.last;
    block.firstColumn = second.first;
    block.lastColumn = second.last;
    block.steps = ceilDiv(ownPanels.terms.size(), stepTerms);
    block.alpha = p.alpha;
    block.beta = panels.terms.first == 0 ? p.beta : 1;
    block.waiting = waiting;
    block.isFirst = term == panels.terms.first;
    block.isLast = ownPanels.terms.last == panels.terms.last;
    multiplyBlock(block);
  }
}

} // namespace

void TileProduct::run(const float *a, const float *b, float *c) const {
  Run(*this, a, b, c)();
}

} // namespace lockstep::runtime
