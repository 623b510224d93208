//===- AttentionConfig.cpp - What a generated attention kernel is ---------===//
#include "compiler/emit/nvptx/attention/AttentionConfig.h"

using namespace lockstep;
using namespace lockstep::attention;

int attention::getQueryRows(const ForwardConfig &config) {
  return 64 * config.consumers;
}
int attention::getQueryRows(const QueryGradientConfig &config) {
  return sharesRows(config.headDim) ? 64 : 128;
}
// The scores of a step are 64 rows of keys by these columns, in registers.
int attention::getQueryRows(const BackwardConfig &config) {
  return config.headDim > 64 ? 64 : 128;
}

int64_t attention::getPaddedRows(const BackwardConfig &config,
                                 int64_t queries) {
  int64_t rows = getQueryRows(config);
  return (queries + rows - 1) / rows * rows;
}
int64_t attention::getPaddedKeys(int64_t keys) {
  return (keys + keyPadding - 1) / keyPadding * keyPadding;
}
int64_t attention::getQuerySumBytes(const BackwardConfig &config,
                                    int64_t queries) {
  return getPaddedRows(config, queries) * config.headDim * 4;
}

int attention::getMaskPieceBytes(TensorMask mask) {
  return maskPieceThreads * (mask == TensorMask::Boolean ? 4 : 128);
}

static int64_t countPieces(int64_t length, int64_t step) {
  return (length + step - 1) / step * (step / maskPiece);
}
MaskPieceCounts attention::getMaskPieces(const ForwardConfig &config,
                                         int64_t queries, int64_t keys) {
  return {countPieces(queries, getQueryRows(config)),
          countPieces(keys, getKeyBlock(config.headDim))};
}
MaskPieceCounts attention::getMaskPieces(const QueryGradientConfig &config,
                                         int64_t queries, int64_t keys) {
  return {countPieces(queries, getQueryRows(config)),
          countPieces(keys, getKeyBlock(config.headDim))};
}
MaskPieceCounts attention::getMaskPieces(const BackwardConfig &config,
                                         int64_t queries, int64_t keys) {
  return {countPieces(keys, getKeyBlock(config.headDim)),
          countPieces(queries, getQueryRows(config))};
}

int attention::getThreads(const ForwardConfig &config) {
  return 128 * (config.consumers + 1);
}
int attention::getThreads(const BackwardConfig &) { return 384; }
int attention::getThreads(const QueryGradientConfig &) { return 384; }

// Shared memory has no place for more.
int attention::getStagedColumns(const ForwardConfig &config) {
  return config.headDim > 128 ? 64 : config.headDim;
}
int attention::getStagedColumns(const QueryGradientConfig &config) {
  return sharesRows(config.headDim) ? config.headDim / 2 : config.headDim;
}

// A thread reads 8 columns.
int attention::getPrepareRows(int headDim) {
  return prepareThreads / (headDim / 8);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

namespace {
class Offsets {
public:
  int take(int bytes) {
    int offset = next;
    next += bytes;
    return offset;
  }

private:
  int next = 0;
};
} // namespace

ForwardLayout attention::getSharedLayout(const ForwardConfig &config) {
  ForwardLayout layout;
  Offsets offsets;
  layout.queryBytes = getQueryRows(config) * config.headDim * 2;
  layout.keyBytes = getKeyBlock(config.headDim) * config.headDim * 2;
  layout.query = offsets.take(config.queryStages * layout.queryBytes);
  layout.key = offsets.take(config.stages * layout.keyBytes);
  layout.value = offsets.take(config.stages * layout.keyBytes);
  layout.output =
      offsets.take(getQueryRows(config) * getStagedColumns(config) * 2);
  layout.keyBias = offsets.take(
      config.keyBias ? config.stages * getKeyBiasBytes(config.headDim) : 0);
  layout.barrierCount = 4 * config.stages + 2 * config.queryStages;
  layout.barriers = offsets.take(8 * layout.barrierCount);
  layout.totalBytes = offsets.take(0);
  return layout;
}

BackwardLayout attention::getSharedLayout(const BackwardConfig &config) {
  BackwardLayout layout;
  Offsets offsets;
  int rows = getQueryRows(config);
  bool hasQueryGradient = config.queryGradient != QueryGradient::None;
  layout.queryBytes = rows * config.headDim * 2;
  layout.keyBytes = getKeyBlock(config.headDim) * config.headDim * 2;
  layout.vectorBytes = rows * 4;
  layout.scoreBytes = rows * getKeyBlock(config.headDim) * 2;
  layout.key = offsets.take(config.keyStages * layout.keyBytes);
  layout.value = offsets.take(config.keyStages * layout.keyBytes);
  layout.query = offsets.take(config.stages * layout.queryBytes);
  layout.outputGradient = offsets.take(config.stages * layout.queryBytes);
  layout.scoreGradient =
      offsets.take(hasQueryGradient ? 2 * layout.scoreBytes : 0);
  layout.queryGradient = offsets.take(
      config.queryGradient == QueryGradient::BulkReduce ? 32768 : 0);
  layout.keyGradient = offsets.take(hasQueryGradient ? layout.keyBytes : 0);
  layout.logSum = offsets.take(config.stages * layout.vectorBytes);
  layout.rowSum = offsets.take(config.stages * layout.vectorBytes);
  // Of queries and dout, of keys and values, of the results; then of the
  // scores' gradient and of dk's staging buffer.
  layout.barrierCount = 4 * config.stages + 4 * config.keyStages +
                        (hasQueryGradient ? 2 * 2 + 1 : 0);
  layout.barriers = offsets.take(8 * layout.barrierCount);
  layout.totalBytes = offsets.take(0);
  return layout;
}

QueryGradientLayout
attention::getSharedLayout(const QueryGradientConfig &config) {
  QueryGradientLayout layout;
  Offsets offsets;
  layout.queryBytes = getQueryRows(config) * config.headDim * 2;
  layout.keyBytes = getKeyBlock(config.headDim) * config.headDim * 2;
  layout.query = offsets.take(config.queryStages * layout.queryBytes);
  layout.outputGradient = offsets.take(config.queryStages * layout.queryBytes);
  layout.key = offsets.take(config.stages * layout.keyBytes);
  layout.value = offsets.take(config.stages * layout.keyBytes);
  layout.output = offsets.take(layout.queryBytes);
  layout.keyBias = offsets.take(
      config.keyBias ? config.stages * getKeyBiasBytes(config.headDim) : 0);
  layout.barrierCount = 4 * config.stages + 2 * config.queryStages;
  layout.barriers = offsets.take(8 * layout.barrierCount);
  layout.totalBytes = offsets.take(0);
  return layout;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static std::string expected(const std::string &what, int got) {
  return "expected " + what + ", but got " + std::to_string(got);
}

/// What all kernels have.
template <typename Config>
static std::string checkCommon(const Config &config) {
  if (config.headDim != 64 && config.headDim != 128 && config.headDim != 256)
    return expected("a head dimension of 64, 128 or 256", config.headDim);
  if (config.keyBias && config.tensorMask != TensorMask::None)
    return "expected a mask over keys, or one over queries and keys, but got "
           "both";
  return {};
}

static std::string checkShared(int bytes) {
  if (bytes > maxSharedBytes)
    return expected("at most " + std::to_string(maxSharedBytes) +
                        " bytes of shared memory",
                    bytes);
  return {};
}

std::string attention::checkConfig(const ForwardConfig &config) {
  std::string error = checkCommon(config);
  if (!error.empty())
    return error;
  if (config.consumers != 2 && config.consumers != 3)
    return expected("2 or 3 consumers", config.consumers);
  // Three warpgroups leave 160 registers to each thread.
  if (config.consumers == 3 && config.headDim != 64)
    return expected("a head dimension of 64 with 3 consumers", config.headDim);
  if (config.stages < 2)
    return expected("2 stages or more", config.stages);
  if (config.queryStages < 1)
    return expected("1 tile of queries or more", config.queryStages);
  if (config.polynomial < 0 || config.polynomial == 1)
    return expected("a polynomial for one exponential in 2 or more, or 0",
                    config.polynomial);
  return checkShared(getSharedLayout(config).totalBytes);
}

std::string attention::checkConfig(const BackwardConfig &config) {
  std::string error = checkCommon(config);
  if (!error.empty())
    return error;
  if (config.stages < 2)
    return expected("2 stages or more", config.stages);
  if (config.keyStages < 1)
    return expected("1 block of keys or more", config.keyStages);
  // Where it was built, it took longer than the pair.
  if (config.queryGradient != QueryGradient::None && sharesRows(config.headDim))
    return expected("no query gradient above a head dimension of 128",
                    config.headDim);
  if (config.queryGradient == QueryGradient::None && config.deferKeyGradient)
    return "expected a key gradient that is not deferred where the query "
           "gradient is left out, but got a deferred one";
  return checkShared(getSharedLayout(config).totalBytes);
}

std::string attention::checkConfig(const QueryGradientConfig &config) {
  std::string error = checkCommon(config);
  if (!error.empty())
    return error;
  if (config.stages < 2)
    return expected("2 stages or more", config.stages);
  if (config.queryStages < 1)
    return expected("1 tile of queries or more", config.queryStages);
  return checkShared(getSharedLayout(config).totalBytes);
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

int attention::getKernelHeadDim(int64_t headDim) {
  return headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256;
}

ForwardConfig attention::getForwardConfig(int headDim, Mask mask) {
  ForwardConfig config;
  config.headDim = headDim;
  config.mask = mask;
  if (headDim == 256)
    config.queryStages = 1;
  if (headDim == 64) {
    config.stages = 3;
    config.polynomial = mask == Mask::Full ? 8 : 0;
  }
  return config;
}

BackwardConfig attention::getBackwardConfig(int headDim, Mask mask,
                                            bool deterministic) {
  BackwardConfig config;
  config.headDim = headDim;
  config.mask = mask;
  config.keyStages = headDim == 64 ? 2 : 1;
  if (deterministic || sharesRows(headDim)) {
    config.queryGradient = QueryGradient::None;
    config.stages = sharesRows(headDim) ? 2 : 3;
  } else if (headDim == 128) {
    config.deferKeyGradient = true;
    config.lateValueGradient = true;
    // The buffers of the bulk reduction take the third stage's place.
    if (mask == Mask::Full)
      config.stages = 3;
    else
      config.queryGradient = QueryGradient::BulkReduce;
  }
  return config;
}

QueryGradientConfig attention::getQueryGradientConfig(int headDim, Mask mask) {
  QueryGradientConfig config;
  config.headDim = headDim;
  config.mask = mask;
  config.queryStages = headDim == 64 ? 2 : 1;
  return config;
}
