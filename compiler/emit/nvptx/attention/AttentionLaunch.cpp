//===- AttentionLaunch.cpp - What it takes to launch the kernels ----------===//
//
// Parameters in the order of AttentionKernels.h.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/attention/AttentionLaunch.h"
#include <cstring>
#include <type_traits>

using namespace lockstep;
using namespace lockstep::attention;

std::string attention::checkStrides(const AttentionStrides &strides) {
  for (const auto &[tensor, each] : strides) {
    // The passes over masks take any.
    if (tensor == AttentionTensor::KeyMask || tensor == AttentionTensor::Mask)
      continue;
    for (int64_t stride : {each.row, each.head, each.batch})
      if (stride < 8 || stride % 8)
        return "expected strides that are multiples of 8 elements, but got " +
               std::to_string(stride);
  }
  return {};
}

namespace {
/// Adds parameters to a launch, one after the other.
class LaunchBuilder {
public:
  LaunchBuilder(AttentionKernel kernel, const AttentionSize &size,
                const AttentionStrides &strides)
      : size(size), strides(strides) {
    launch.kernel = kernel;
  }

  LaunchBuilder &map(AttentionTensor tensor, int boxRows);
  LaunchBuilder &pointer(AttentionTensor tensor) {
    LaunchParameter &parameter = add(LaunchParameter::Kind::Pointer);
    parameter.tensor = tensor;
    return *this;
  }
  LaunchBuilder &scratch(AttentionScratch scratch, bool isUsed = true) {
    LaunchParameter &parameter = add(isUsed ? LaunchParameter::Kind::Scratch
                                            : LaunchParameter::Kind::Null);
    parameter.scratch = scratch;
    return *this;
  }
  LaunchBuilder &number(int64_t value) {
    add(LaunchParameter::Kind::Number).number = value;
    return *this;
  }
  LaunchBuilder &wide(int64_t value) {
    add(LaunchParameter::Kind::Wide).number = value;
    return *this;
  }
  LaunchBuilder &scalar(float value) {
    add(LaunchParameter::Kind::Scalar).scalar = value;
    return *this;
  }
  /// As kernels read them; null and zeros for one that takes no mask.
  template <typename Config> LaunchBuilder &maskPieces(const Config &config);
  /// out's and dout's, as the passes over rows want them.
  LaunchBuilder &rowStrides() {
    for (AttentionTensor tensor :
         {AttentionTensor::Output, AttentionTensor::OutputGradient}) {
      const TensorStrides &each = strides.at(tensor);
      wide(each.row).wide(each.head).wide(each.batch);
    }
    return *this;
  }
  template <typename Item> LaunchBuilder &table(const WorkTable<Item> &table) {
    launch.table.resize(table.items.size() * sizeof(Item) / 4);
    std::memcpy(launch.table.data(), table.items.data(),
                table.items.size() * sizeof(Item));
    launch.bounds = table.bounds;
    launch.gridBlocks = table.gridBlocks;
    add(LaunchParameter::Kind::Table);
    add(LaunchParameter::Kind::Bounds);
    return *this;
  }
  LaunchBuilder &grid(int64_t blocks) {
    launch.gridBlocks = blocks;
    return *this;
  }
  AttentionLaunch finish(int threads, int sharedBytes) {
    launch.threads = threads;
    launch.sharedBytes = sharedBytes;
    return std::move(launch);
  }

private:
  LaunchParameter &add(LaunchParameter::Kind kind) {
    launch.parameters.emplace_back().kind = kind;
    return launch.parameters.back();
  }

  const AttentionSize &size;
  const AttentionStrides &strides;
  AttentionLaunch launch;
};
} // namespace

static bool hasKeys(AttentionTensor tensor) {
  return tensor == AttentionTensor::Key || tensor == AttentionTensor::Value ||
         tensor == AttentionTensor::KeyGradient ||
         tensor == AttentionTensor::ValueGradient;
}

LaunchBuilder &LaunchBuilder::map(AttentionTensor tensor, int boxRows) {
  LaunchParameter &parameter = add(LaunchParameter::Kind::TensorMap);
  parameter.tensor = tensor;
  const TensorStrides &each = strides.at(tensor);
  bool keys = hasKeys(tensor);
  parameter.map.extents = {size.headDim, keys ? size.keys : size.queries,
                           keys ? size.keyHeads : size.queryHeads, size.batch};
  parameter.map.byteStrides = {2 * each.row, 2 * each.head, 2 * each.batch};
  parameter.map.box = {boxColumns, boxRows, 1, 1};
  return *this;
}

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Makes the key bias, where a kernel takes one.
static void planKeyBias(bool isUsed, const AttentionSize &size,
                        const AttentionStrides &strides, float scale,
                        AttentionPlan &plan) {
  if (!isUsed)
    return;
  int64_t padded = getPaddedKeys(size.keys), rows = size.batch * padded;
  auto given = strides.find(AttentionTensor::KeyMask);
  int64_t stride = given == strides.end() ? size.keys : given->second.batch;
  plan.scratchBytes[AttentionScratch::KeyBias] = rows * 4;
  plan.launches.push_back(LaunchBuilder(AttentionKernel::KeyBias, size, strides)
                              .pointer(AttentionTensor::KeyMask)
                              .scratch(AttentionScratch::KeyBias)
                              .number(rows)
                              .number(size.keys)
                              .number(padded)
                              .wide(stride)
                              .scalar(scale)
                              .grid(divideUp(rows, keyBiasThreads))
                              .finish(keyBiasThreads, 0));
}

namespace {
/// How a mask over queries and keys becomes pieces, and lies in them.
struct PieceGrid {
  MaskPieceCounts counts;
  int64_t heads, batches;

  /// Pieces from one head, batch to the next.
  int64_t getHead() const {
    return heads == 1 ? 0 : counts.rows * counts.columns;
  }
  int64_t getBatch() const {
    return batches == 1 ? 0 : heads * counts.rows * counts.columns;
  }
  int64_t getCount() const {
    return batches * heads * counts.rows * counts.columns;
  }
};
} // namespace

template <typename Config>
static PieceGrid getPieceGrid(const Config &config, const AttentionSize &size,
                              const AttentionStrides &strides) {
  const TensorStrides &mask = strides.at(AttentionTensor::Mask);
  return {getMaskPieces(config, size.queries, size.keys),
          mask.head ? size.queryHeads : 1, mask.batch ? size.batch : 1};
}

/// Brings a mask over queries and keys into pieces for a kernel that takes one.
template <typename Config>
static void planMaskPieces(const Config &config, const AttentionSize &size,
                           const AttentionStrides &strides, float scale,
                           AttentionPlan &plan) {
  if (config.tensorMask == TensorMask::None)
    return;
  PieceGrid grid = getPieceGrid(config, size, strides);
  TensorStrides mask = strides.at(AttentionTensor::Mask);
  int64_t rows = size.queries, columns = size.keys;
  if (std::is_same_v<Config, BackwardConfig>) {
    std::swap(rows, columns);
    std::swap(mask.row, mask.column);
  }
  plan.scratchBytes[AttentionScratch::MaskPieces] =
      std::max(plan.scratchBytes[AttentionScratch::MaskPieces],
               grid.getCount() * getMaskPieceBytes(config.tensorMask));
  plan.launches.push_back(
      LaunchBuilder(AttentionKernel::MaskPieces, size, strides)
          .pointer(AttentionTensor::Mask)
          .scratch(AttentionScratch::MaskPieces)
          .number(rows)
          .number(columns)
          .number(grid.counts.rows)
          .number(grid.counts.columns)
          .number(grid.heads)
          .wide(mask.row)
          .wide(mask.column)
          .wide(mask.head)
          .wide(mask.batch)
          .scalar(scale)
          .grid(grid.getCount())
          .finish(maskPieceThreads, 0));
}

template <typename Config>
LaunchBuilder &LaunchBuilder::maskPieces(const Config &config) {
  bool isUsed = config.tensorMask != TensorMask::None;
  PieceGrid grid{{0, 0}, 1, 1};
  if (isUsed)
    grid = getPieceGrid(config, size, strides);
  return scratch(AttentionScratch::MaskPieces, isUsed)
      .number(grid.counts.columns)
      .number(grid.getHead())
      .number(grid.getBatch());
}

AttentionPlan attention::planForward(const ForwardConfig &config,
                                     const AttentionSize &size,
                                     const AttentionStrides &strides,
                                     float scale, int multiprocessors) {
  AttentionPlan plan;
  planKeyBias(config.keyBias, size, strides, scale, plan);
  planMaskPieces(config, size, strides, scale, plan);
  plan.launches.push_back(
      LaunchBuilder(AttentionKernel::Forward, size, strides)
          .map(AttentionTensor::Query, getQueryRows(config))
          .map(AttentionTensor::Key, getKeyBlock(config.headDim))
          .map(AttentionTensor::Value, getKeyBlock(config.headDim))
          .map(AttentionTensor::Output, storeBoxRows)
          .pointer(AttentionTensor::LogSumExp)
          .scratch(AttentionScratch::KeyBias, config.keyBias)
          .table(buildWorkTable(config, size, multiprocessors))
          .number(size.queries)
          .number(size.keys)
          .number(size.queryHeads)
          .number(size.window)
          .scalar(scale)
          .maskPieces(config)
          .finish(getThreads(config), getSharedLayout(config).totalBytes));
  return plan;
}

static AttentionLaunch getBackward(const BackwardConfig &config,
                                   const AttentionSize &size,
                                   const AttentionStrides &strides, float scale,
                                   int multiprocessors) {
  int rows = getQueryRows(config);
  bool hasQueryGradient = config.queryGradient != QueryGradient::None;
  return LaunchBuilder(AttentionKernel::Backward, size, strides)
      .map(AttentionTensor::Query, rows)
      .map(AttentionTensor::Key, getKeyBlock(config.headDim))
      .map(AttentionTensor::Value, getKeyBlock(config.headDim))
      .map(AttentionTensor::OutputGradient, rows)
      .map(AttentionTensor::KeyGradient, storeBoxRows)
      .map(AttentionTensor::ValueGradient, storeBoxRows)
      .scratch(AttentionScratch::LogSum)
      .scratch(AttentionScratch::RowSum)
      .scratch(AttentionScratch::QuerySums, hasQueryGradient)
      .scratch(AttentionScratch::KeyBias, config.keyBias)
      .table(buildWorkTable(config, size, multiprocessors))
      .number(getPaddedRows(config, size.queries) / rows)
      .number(size.keys)
      .number(size.queryHeads)
      .number(size.window)
      .scalar(scale)
      .maskPieces(config)
      .finish(getThreads(config), getSharedLayout(config).totalBytes);
}

static void addVectors(const BackwardConfig &config, const AttentionSize &size,
                       AttentionPlan &plan) {
  int64_t rows =
      size.batch * size.queryHeads * getPaddedRows(config, size.queries);
  plan.scratchBytes[AttentionScratch::LogSum] = rows * 4;
  plan.scratchBytes[AttentionScratch::RowSum] = rows * 4;
}

AttentionPlan attention::planBackward(const BackwardConfig &config,
                                      const AttentionSize &size,
                                      const AttentionStrides &strides,
                                      float scale, int multiprocessors) {
  AttentionPlan plan;
  addVectors(config, size, plan);
  int64_t heads = size.batch * size.queryHeads;
  int64_t padded = getPaddedRows(config, size.queries);
  plan.scratchBytes[AttentionScratch::QuerySums] =
      heads * getQuerySumBytes(config, size.queries);
  planKeyBias(config.keyBias, size, strides, scale, plan);
  plan.launches.push_back(
      LaunchBuilder(AttentionKernel::Prepare, size, strides)
          .pointer(AttentionTensor::Output)
          .pointer(AttentionTensor::OutputGradient)
          .pointer(AttentionTensor::LogSumExp)
          .scratch(AttentionScratch::LogSum)
          .scratch(AttentionScratch::RowSum)
          .scratch(AttentionScratch::QuerySums)
          .number(heads * padded)
          .number(size.queries)
          .number(padded)
          .number(size.queryHeads)
          .number(size.headDim)
          .rowStrides()
          .grid(divideUp(heads * padded, getPrepareRows(config.headDim)))
          .finish(prepareThreads, 0));
  planMaskPieces(config, size, strides, scale, plan);
  plan.launches.push_back(
      getBackward(config, size, strides, scale, multiprocessors));
  int64_t tiles = padded / getQueryRows(config);
  plan.launches.push_back(LaunchBuilder(AttentionKernel::Convert, size, strides)
                              .map(AttentionTensor::QueryGradient, storeBoxRows)
                              .scratch(AttentionScratch::QuerySums)
                              .number(tiles)
                              .number(size.queryHeads)
                              .scalar(scale)
                              .grid(2 * heads * tiles)
                              .finish(convertThreads, convertSharedBytes));
  return plan;
}

AttentionPlan attention::planBackward(const QueryGradientConfig &queryConfig,
                                      const BackwardConfig &config,
                                      const AttentionSize &size,
                                      const AttentionStrides &strides,
                                      float scale, int multiprocessors) {
  AttentionPlan plan;
  addVectors(config, size, plan);
  planKeyBias(config.keyBias, size, strides, scale, plan);
  planMaskPieces(queryConfig, size, strides, scale, plan);
  int rows = getQueryRows(queryConfig);
  plan.launches.push_back(
      LaunchBuilder(AttentionKernel::QueryGradient, size, strides)
          .map(AttentionTensor::Query, rows)
          .map(AttentionTensor::Key, getKeyBlock(config.headDim))
          .map(AttentionTensor::Value, getKeyBlock(config.headDim))
          .map(AttentionTensor::OutputGradient, rows)
          .map(AttentionTensor::QueryGradient, storeBoxRows)
          .pointer(AttentionTensor::Output)
          .pointer(AttentionTensor::OutputGradient)
          .pointer(AttentionTensor::LogSumExp)
          .scratch(AttentionScratch::LogSum)
          .scratch(AttentionScratch::RowSum)
          .scratch(AttentionScratch::KeyBias, queryConfig.keyBias)
          .table(buildWorkTable(queryConfig, size, multiprocessors))
          .number(size.queries)
          .number(size.keys)
          .number(getPaddedRows(config, size.queries))
          .number(size.queryHeads)
          .number(size.window)
          .number(size.headDim)
          .rowStrides()
          .scalar(scale)
          .maskPieces(queryConfig)
          .finish(getThreads(queryConfig),
                  getSharedLayout(queryConfig).totalBytes));
  planMaskPieces(config, size, strides, scale, plan);
  plan.launches.push_back(
      getBackward(config, size, strides, scale, multiprocessors));
  return plan;
}
