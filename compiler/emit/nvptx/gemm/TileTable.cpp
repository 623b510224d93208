//===- TileTable.cpp - Which block multiplies which tile when -------------===//
#include "compiler/emit/nvptx/gemm/TileTable.h"
#include <algorithm>
#include <cstring>

using namespace lockstep;
using namespace lockstep::gemm;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t gemm::getWorkspaceBytes(const GemmConfig &config,
                                const TileTable &table) {
  return table.slots * getClusterSize(config) * config.tileM * config.tileN * 4;
}

int64_t gemm::getCounterBytes(const GemmConfig &config,
                              const TileTable &table) {
  return table.slots * getClusterSize(config) * config.consumers * 4;
}

std::string gemm::checkSize(const GemmConfig &config, const GemmSize &size) {
  for (int64_t extent : {size.m, size.n, size.k, size.batch})
    if (extent < 1 || extent > INT32_MAX / 2)
      return "expected extents of 1 to 2^30, but got " + std::to_string(extent);
  if (size.batch > 1 && !config.batched)
    return "expected a batch of 1, but got " + std::to_string(size.batch);
  if (config.bias && size.n % 2)
    return "expected an even width with a bias, but got " +
           std::to_string(size.n);
  return {};
}

/// All tiles, whole, in the order in which they are started.
static std::vector<TileItem> listTiles(const GemmConfig &config,
                                       const GemmSize &size, int group) {
  int height = config.tileM * getClusterM(config);
  int width = config.tileN * getClusterN(config);
  int tilesM = divideUp(size.m, height), tilesN = divideUp(size.n, width);
  int blocks = divideUp(size.k, tileK);
  bool alongN = group < 0;
  int outer = alongN ? tilesN : tilesM, inner = alongN ? tilesM : tilesN;
  int step = std::max(1, std::abs(group));
  std::vector<TileItem> tiles;
  tiles.reserve(size.batch * tilesM * tilesN);
  for (int batch = 0; batch < size.batch; ++batch)
    for (int first = 0; first < outer; first += step)
      for (int i = 0; i < inner; ++i)
        for (int o = first; o < std::min(first + step, outer); ++o) {
          TileItem item;
          item.row = (alongN ? i : o) * height;
          item.column = (alongN ? o : i) * width;
          item.blocks = blocks;
          item.batch = batch;
          tiles.push_back(item);
        }
  return tiles;
}

namespace {
/// A tile's blocks along k in `slices` slices, `kept` of them by the cluster
/// that finishes it.
struct Cut {
  int slices = 1, kept = 1;
};
} // namespace

// In blocks along k: what a partial sum costs whoever leaves it (the end of a
// main loop, the store) and whoever adds it.
static constexpr double leaveCost = 6, addCost = 3;

/// The cut of tiles, fewer than clusters, that ends soonest; none where that
/// promises less than a tenth.
static Cut chooseCut(int tiles, int clusters, int blocks) {
  Cut best;
  double bestTime = 0.9 * blocks;
  int helpers = clusters - tiles;
  for (int slices = 2; slices <= std::min(64, blocks); ++slices)
    for (int kept = 1; kept < slices; ++kept) {
      int partials = slices - kept;
      double each = double(blocks) / slices;
      double helperTime =
          divideUp(int64_t(tiles) * partials, helpers) * (each + leaveCost);
      double time = std::max(helperTime, each * kept) + addCost * partials;
      if (time < bestTime) {
        bestTime = time;
        best = {slices, kept};
      }
    }
  return best;
}

/// The last tiles, in slices: partial sums to the first clusters, then clusters
/// that finish a tile each. Slots are numbered in this order.
static void assignSlices(std::vector<std::vector<TileItem>> &queues,
                         const TileItem *tiles, int count, const Cut &cut) {
  int helpers = queues.size() - count;
  int blocks = tiles[0].blocks;
  auto boundary = [&](int slice) {
    return int(int64_t(blocks) * slice / cut.slices);
  };
  int partials = cut.slices - cut.kept;
  int64_t next = 0;
  for (int slice = cut.kept; slice < cut.slices; ++slice)
    for (int tile = 0; tile < count; ++tile) {
      TileItem item = tiles[tile];
      item.firstBlock = boundary(slice);
      item.blocks = boundary(slice + 1) - item.firstBlock;
      item.kind = ItemKind::Partial;
      item.slot = tile * partials + slice - cut.kept;
      queues[next++ % helpers].push_back(item);
    }
  for (int tile = 0; tile < count; ++tile) {
    TileItem item = tiles[tile];
    item.blocks = boundary(cut.kept);
    item.kind = ItemKind::Finish;
    item.slot = tile * partials;
    item.partials = partials;
    queues[helpers + tile].push_back(item);
  }
}

/// Interleaves the clusters' items and appends where each cluster's end.
static void layOutQueues(const std::vector<std::vector<TileItem>> &queues,
                         TileTable &table) {
  size_t clusters = queues.size(), steps = 0;
  for (const auto &queue : queues)
    steps = std::max(steps, queue.size());
  table.itemCount = steps * clusters;
  std::vector<int32_t> ends(divideUp(clusters, 8) * 8, 0);
  table.items.resize(table.itemCount + ends.size() / 8);
  for (size_t cluster = 0; cluster < clusters; ++cluster) {
    for (size_t i = 0; i < queues[cluster].size(); ++i)
      table.items[i * clusters + cluster] = queues[cluster][i];
    ends[cluster] = cluster + queues[cluster].size() * clusters;
  }
  std::memcpy(table.items.data() + table.itemCount, ends.data(),
              ends.size() * sizeof(int32_t));
}

TileTable gemm::buildTileTable(const GemmConfig &config, const GemmSize &size,
                               int multiprocessors, int group) {
  TileTable table;
  int clusterSize = getClusterSize(config);
  int clusters = std::max(1, multiprocessors / clusterSize);
  std::vector<TileItem> tiles = listTiles(config, size, group);
  int count = tiles.size();
  if (!config.splitK) {
    table.gridBlocks = std::min(clusters, count) * clusterSize;
    table.itemCount = count;
    table.items = std::move(tiles);
    // A ping-pong warpgroup looks one of its steps ahead of its last item.
    table.items.resize(count + 4 * clusters);
    return table;
  }
  table.gridBlocks = clusters * clusterSize;
  std::vector<std::vector<TileItem>> queues(clusters);
  int rest = count % clusters;
  Cut cut;
  if (rest)
    cut = chooseCut(rest, clusters, tiles.front().blocks);
  int whole = cut.slices > 1 ? count - rest : count;
  for (int tile = 0; tile < whole; ++tile)
    queues[tile % clusters].push_back(tiles[tile]);
  if (cut.slices > 1) {
    table.slices = cut.slices;
    table.slots = int64_t(rest) * (cut.slices - cut.kept);
    assignSlices(queues, tiles.data() + whole, rest, cut);
  }
  layOutQueues(queues, table);
  return table;
}
