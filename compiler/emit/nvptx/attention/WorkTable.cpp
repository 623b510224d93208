//===- WorkTable.cpp - Which block computes which rows when ---------------===//
#include "compiler/emit/nvptx/attention/WorkTable.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

using namespace lockstep;
using namespace lockstep::attention;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

static std::string expected(const std::string &what, int64_t got) {
  return "expected " + what + ", but got " + std::to_string(got);
}

std::string attention::checkSize(int kernelHeadDim, Mask mask,
                                 const AttentionSize &size) {
  for (int64_t count :
       {size.batch, size.queryHeads, size.keyHeads, size.queries, size.keys})
    if (count < 1)
      return expected("sizes of at least 1", count);
  if (size.queryHeads % size.keyHeads)
    return expected("a number of query heads that is a multiple of " +
                        std::to_string(size.keyHeads),
                    size.queryHeads);
  if (size.headDim < 8 || size.headDim % 8 || size.headDim > kernelHeadDim)
    return expected("a head dimension up to " + std::to_string(kernelHeadDim) +
                        ", a multiple of 8",
                    size.headDim);
  // Each row then sees a key at least, its own.
  if (mask == Mask::CausalWindow && size.queries != size.keys)
    return expected("as many keys as the " + std::to_string(size.queries) +
                        " queries with a window",
                    size.keys);
  if (mask == Mask::CausalWindow && size.window < 1)
    return expected("a window of at least 1", size.window);
  constexpr int64_t limit = int64_t(1) << 31;
  if (size.batch * size.queryHeads * (size.queries + 128) >= limit)
    return expected("fewer than 2^31 rows of queries",
                    size.batch * size.queryHeads * size.queries);
  return {};
}

//===----------------------------------------------------------------------===//
// Balance
//===----------------------------------------------------------------------===//

namespace {
/// What each block would do if a free block always took the next item.
struct Schedule {
  double balance;
  std::vector<std::vector<int>> queues;
};
} // namespace

static Schedule simulate(const std::vector<int> &order,
                         const std::vector<double> &costs, int blocks) {
  using Free = std::pair<double, int>; // when, block
  std::priority_queue<Free, std::vector<Free>, std::greater<Free>> free;
  for (int block = 0; block < blocks; ++block)
    free.push({0.0, block});
  Schedule schedule{1, std::vector<std::vector<int>>(blocks)};
  double sum = 0, last = 0;
  for (int item : order) {
    auto [time, block] = free.top();
    free.pop();
    schedule.queues[block].push_back(item);
    sum += costs[item];
    last = std::max(last, time + costs[item]);
    free.push({time + costs[item], block});
  }
  schedule.balance = sum / (blocks * last);
  return schedule;
}

/// Items head by head: `each` of a head. Several sizes of the groups that are
/// sorted inside are tried; a smaller one is kept unless it is clearly worse.
static Schedule schedule(const std::vector<double> &costs, int each,
                         bool differ, int blocks) {
  int count = costs.size(), heads = count / each;
  std::vector<int> order(count);
  for (int i = 0; i < count; ++i)
    order[i] = i;
  if (!differ)
    return simulate(order, costs, blocks);
  Schedule best{0, {}};
  for (double wave : {2.0, 2.5, 3.0, 4.0}) {
    int groups = std::max(1, int(std::lround(count / (wave * blocks))));
    groups = std::min(groups, heads);
    std::vector<int> sorted(order), place(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      place[order[i]] = int(i);
    for (int group = 0; group < groups; ++group) {
      auto at = [&](int g) {
        return sorted.begin() + int64_t(heads) * g / groups * each;
      };
      std::sort(at(group), at(group + 1), [&](int a, int b) {
        return costs[a] != costs[b] ? costs[a] > costs[b] : place[a] < place[b];
      });
    }
    Schedule result = simulate(sorted, costs, blocks);
    if (result.balance > best.balance + 0.003)
      best = std::move(result);
  }
  return best;
}

template <typename Item>
static WorkTable<Item> layOut(const std::vector<Item> &items,
                              const std::vector<double> &costs, int each,
                              bool differ, int multiprocessors) {
  int blocks = std::min<int64_t>(multiprocessors, items.size());
  Schedule result = schedule(costs, each, differ, blocks);
  WorkTable<Item> table;
  table.gridBlocks = blocks;
  table.balance = result.balance;
  table.bounds.push_back(0);
  for (const std::vector<int> &queue : result.queues) {
    for (int item : queue)
      table.items.push_back(items[item]);
    table.bounds.push_back(table.items.size());
  }
  return table;
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

/// Costs are in steps; an item's start and end take as long as some more.
static constexpr double queryItemCost = 0.7, keyItemCost = 1.5;

static WorkTable<QueryItem> buildQueryTable(int rows, int keyBlock, Mask mask,
                                            const AttentionSize &size,
                                            int multiprocessors) {
  std::vector<QueryItem> items;
  std::vector<double> costs;
  int64_t tiles = divideUp(size.queries, rows);
  int64_t group = size.queryHeads / size.keyHeads;
  int64_t allBlocks = divideUp(size.keys, keyBlock);
  for (int64_t batch = 0; batch < size.batch; ++batch)
    for (int64_t head = 0; head < size.queryHeads; ++head)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        int64_t row = tile * rows, first = 0, end = allBlocks;
        if (mask != Mask::Full)
          end = std::min(
              end, divideUp(std::min(row + rows, size.queries), keyBlock));
        if (mask == Mask::CausalWindow)
          first = std::max<int64_t>(0, row - size.window + 1) / keyBlock;
        QueryItem item;
        item.row = row;
        item.head = head;
        item.keyHead = head / group;
        item.batch = batch;
        item.firstBlock = first;
        item.blocks = end - first;
        items.push_back(item);
        costs.push_back(item.blocks + queryItemCost);
      }
  return layOut(items, costs, tiles, mask != Mask::Full, multiprocessors);
}

WorkTable<QueryItem> attention::buildWorkTable(const ForwardConfig &config,
                                               const AttentionSize &size,
                                               int multiprocessors) {
  return buildQueryTable(getQueryRows(config), getKeyBlock(config.headDim),
                         config.mask, size, multiprocessors);
}
WorkTable<QueryItem>
attention::buildWorkTable(const QueryGradientConfig &config,
                          const AttentionSize &size, int multiprocessors) {
  return buildQueryTable(getQueryRows(config), getKeyBlock(config.headDim),
                         config.mask, size, multiprocessors);
}

/// The tiles of queries that see some key of a block.
static void findQueries(const BackwardConfig &config, const AttentionSize &size,
                        KeyItem &item) {
  int64_t rows = getQueryRows(config);
  int64_t tiles = divideUp(size.queries, rows);
  int64_t first = 0, end = tiles;
  // Keys after the last query get zeros: a step with nothing in it.
  if (config.mask != Mask::Full)
    first = std::min(item.row / rows, tiles - 1);
  if (config.mask == Mask::CausalWindow)
    end = std::min(tiles, divideUp(item.row + getKeyBlock(config.headDim) - 1 +
                                       size.window,
                                   rows));
  item.first = item.start = first;
  item.end = end;
}

WorkTable<KeyItem> attention::buildWorkTable(const BackwardConfig &config,
                                             const AttentionSize &size,
                                             int multiprocessors) {
  std::vector<KeyItem> items;
  std::vector<double> costs;
  int keyBlock = getKeyBlock(config.headDim);
  int64_t blocks = divideUp(size.keys, keyBlock);
  int64_t group = size.queryHeads / size.keyHeads;
  for (int64_t batch = 0; batch < size.batch; ++batch)
    for (int64_t head = 0; head < size.keyHeads; ++head)
      for (int64_t block = 0; block < blocks; ++block) {
        KeyItem item;
        item.row = block * keyBlock;
        item.keyHead = head;
        item.batch = batch;
        item.firstHead = head * group;
        findQueries(config, size, item);
        item.steps = (item.end - item.first) * group;
        // Blocks of a head that run together begin at different queries, so
        // that they do not all add to the same rows of dq.
        if (config.mask == Mask::Full)
          item.start = block * item.end / blocks;
        items.push_back(item);
        costs.push_back(item.steps + keyItemCost);
      }
  return layOut(items, costs, blocks, config.mask != Mask::Full,
                multiprocessors);
}
