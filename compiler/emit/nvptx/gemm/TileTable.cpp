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

/// The cut that ends soonest. To leave and add one partial sum takes about as
/// long as three blocks along k.
static Cut chooseCut(int tiles, int clusters, int blocks) {
  Cut best;
  double bestTime = blocks;
  int helpers = clusters - tiles;
  for (int slices = 2; slices <= std::min(64, blocks); ++slices) {
    int kept = 1;
    while (kept < slices &&
           int64_t(tiles) * (slices - kept) > int64_t(helpers) * kept)
      ++kept;
    double time = double(blocks) * kept / slices + 3.0 * (slices - kept);
    if (kept < slices && time < bestTime) {
      bestTime = time;
      best = {slices, kept};
    }
  }
  return best;
}

/// Each cluster's items: helpers with partial sums first, then the clusters
/// that finish a tile each.
static std::vector<std::vector<TileItem>>
assignSlices(const std::vector<TileItem> &tiles, const Cut &cut, int clusters) {
  std::vector<std::vector<TileItem>> queues(clusters);
  int count = tiles.size(), helpers = clusters - count;
  int blocks = tiles.front().blocks;
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
  return queues;
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
  Cut cut;
  if (count < clusters)
    cut = chooseCut(count, clusters, tiles.front().blocks);
  table.slices = cut.slices;
  if (cut.slices > 1) {
    table.slots = int64_t(count) * (cut.slices - cut.kept);
    layOutQueues(assignSlices(tiles, cut, clusters), table);
    return table;
  }
  std::vector<std::vector<TileItem>> queues(clusters);
  for (int tile = 0; tile < count; ++tile)
    queues[tile % clusters].push_back(tiles[tile]);
  layOutQueues(queues, table);
  return table;
}
