//===- GemmConfig.cpp - What a generated GEMM kernel is -------------------===//
#include "compiler/emit/nvptx/gemm/GemmConfig.h"

using namespace lockstep;
using namespace lockstep::gemm;

int gemm::getClusterSize(const GemmConfig &config) {
  return config.cluster == Cluster::None ? 1 : 2;
}
int gemm::getClusterM(const GemmConfig &config) {
  return config.cluster == Cluster::AlongM ? 2 : 1;
}
int gemm::getClusterN(const GemmConfig &config) {
  return config.cluster == Cluster::AlongN ? 2 : 1;
}
int gemm::getThreads(const GemmConfig &config) {
  return 128 * (config.consumers + 1);
}
int gemm::getWarpgroupRows(const GemmConfig &config) {
  return config.schedule == Schedule::PingPong
             ? config.tileM
             : config.tileM / config.consumers;
}
int gemm::getOutputBytes(const GemmConfig &config) {
  return config.output == Output::BFloat16 ? 2 : 4;
}
int gemm::getRingColumns(const GemmConfig &config) {
  return config.ringBytes / getOutputBytes(config);
}
int gemm::getRounds(const GemmConfig &config) {
  int columns = getRingColumns(config);
  int blocks = (config.tileN + columns - 1) / columns;
  int tensors = config.side == Side::SavePreactivation ? 2 : 1;
  return getWarpgroupRows(config) / 64 * blocks * tensors;
}
bool gemm::readsSide(const GemmConfig &config) {
  return config.side == Side::AddResidual ||
         config.side == Side::ActivationGradient;
}

int64_t gemm::getColumnSumLines(const GemmConfig &config, int64_t rows) {
  int64_t step = config.tileM * getClusterM(config);
  int64_t tiles = (rows + step - 1) / step * getClusterM(config);
  return tiles * (config.tileM / getWarpgroupRows(config)) * 4;
}

SharedLayout gemm::getSharedLayout(const GemmConfig &config) {
  SharedLayout layout;
  layout.aBytes = config.tileM * tileK * 2;
  layout.bBytes = config.tileN * tileK * 2;
  layout.stageBytes = layout.aBytes + layout.bBytes;
  layout.ringOffset = config.stages * layout.stageBytes;
  layout.ringBufferBytes = 64 * config.ringBytes;
  layout.barrierOffset = layout.ringOffset + config.consumers * config.ring *
                                                 layout.ringBufferBytes;
  // A full and an empty barrier for each stage, one for each consumer.
  layout.totalBytes =
      layout.barrierOffset + 16 * config.stages + 8 * config.consumers;
  return layout;
}

static CopyBox getOperandBox(Major major, int rows) {
  if (major == Major::K)
    return {tileK, rows, 2, 128};
  return {64, tileK, 2, 128};
}

CopyBox gemm::getBoxA(const GemmConfig &config) {
  return getOperandBox(config.a, config.tileM / getClusterN(config));
}
CopyBox gemm::getBoxB(const GemmConfig &config) {
  return getOperandBox(config.b, config.tileN / getClusterM(config));
}
CopyBox gemm::getBoxD(const GemmConfig &config) {
  return {getRingColumns(config), 64, getOutputBytes(config), config.ringBytes};
}
CopyBox gemm::getBoxSide(const GemmConfig &config) {
  return {config.ringBytes / 2, 64, 2, config.ringBytes};
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static std::string expected(const std::string &what, int got) {
  return "expected " + what + ", but got " + std::to_string(got);
}

static std::string checkTile(const GemmConfig &config) {
  bool pingPong = config.schedule == Schedule::PingPong;
  if (pingPong && config.consumers != 2)
    return expected("2 consumers of a ping-pong schedule", config.consumers);
  if (config.consumers < 1 || config.consumers > 3)
    return expected("1 to 3 consumers", config.consumers);
  int rowsStep = pingPong ? 64 : 64 * config.consumers;
  if (config.tileM < rowsStep || config.tileM % rowsStep)
    return expected("a tile height that is a multiple of " +
                        std::to_string(rowsStep),
                    config.tileM);
  if (config.tileN < 16 || config.tileN > 256 || config.tileN % 16)
    return expected("a tile width of 16 to 256, a multiple of 16",
                    config.tileN);
  int sums = getWarpgroupRows(config) / 64 * config.tileN / 2;
  if (sums > config.consumerRegisters - 40)
    return expected("at most " + std::to_string(config.consumerRegisters - 40) +
                        " sums a thread",
                    sums);
  return {};
}

static std::string checkOperands(const GemmConfig &config) {
  int rowsA = config.tileM / getClusterN(config);
  int rowsB = config.tileN / getClusterM(config);
  int stepA = config.a == Major::K ? 8 : 64;
  int stepB = config.b == Major::K ? 8 : 64;
  if (rowsA % stepA)
    return expected("a block to fetch a multiple of " + std::to_string(stepA) +
                        " rows of A",
                    rowsA);
  if (rowsB % stepB)
    return expected("a block to fetch a multiple of " + std::to_string(stepB) +
                        " columns of B",
                    rowsB);
  return {};
}

std::string gemm::checkEpilogue(const GemmConfig &config) {
  if (config.output != Output::BFloat16 &&
      (config.bias || config.activation != Activation::None ||
       config.side != Side::None))
    return "expected a plain sum for an f32 output, but got an epilogue";
  bool activates = config.activation != Activation::None;
  if (config.side == Side::SavePreactivation && !activates)
    return "expected an activation whose input is saved, but got none";
  if (config.side == Side::ActivationGradient && !activates)
    return "expected an activation whose gradient is taken, but got none";
  if (config.side == Side::ActivationGradient && config.bias)
    return "expected no bias before a gradient of an activation, but got one";
  return {};
}

static std::string checkColumnSums(const GemmConfig &config) {
  if (!config.columnSums)
    return {};
  if (config.splitK || config.batched)
    return "expected whole sums of one matrix for column sums, but got split K "
           "or a batch";
  // Rows past the end are zeros only where nothing is added to them.
  if (config.bias || config.side == Side::SavePreactivation)
    return "expected no bias and no saved tensor with column sums, but got one";
  if (config.tileN % 64)
    return expected("a tile width that is a multiple of 64 for column sums",
                    config.tileN);
  return {};
}

static std::string checkRing(const GemmConfig &config) {
  if (config.ringBytes != 64 && config.ringBytes != 128)
    return expected("64 or 128 bytes a row of a staging buffer",
                    config.ringBytes);
  if (config.output != Output::BFloat16 && config.ringBytes != 128)
    return expected("128 bytes a row of a staging buffer of f32",
                    config.ringBytes);
  int columns = getRingColumns(config);
  if (config.tileN < columns)
    return expected("a tile of at least " + std::to_string(columns) +
                        " columns",
                    config.tileN);
  // The last buffer of such a row overlaps its neighbour with equal values.
  bool overlaps = config.tileN % columns != 0;
  if (overlaps &&
      (config.output == Output::Float32Accumulate || readsSide(config)))
    return expected("a tile width that is a multiple of " +
                        std::to_string(columns) + " columns",
                    config.tileN);
  int rounds = getRounds(config);
  if (config.ring < 1 || rounds % config.ring)
    return expected("a ring that divides " + std::to_string(rounds) + " rounds",
                    config.ring);
  if (readsSide(config) && config.ring != rounds)
    return expected("a ring of " + std::to_string(rounds) +
                        " to read a second tensor",
                    config.ring);
  return {};
}

static std::string checkResources(const GemmConfig &config) {
  if (config.stages < 2)
    return expected("2 stages or more", config.stages);
  int bytes = getSharedLayout(config).totalBytes;
  if (bytes > maxSharedBytes)
    return expected("at most " + std::to_string(maxSharedBytes) +
                        " bytes of shared memory",
                    bytes);
  for (int registers : {config.producerRegisters, config.consumerRegisters})
    if (registers < 24 || registers > 240 || registers % 8)
      return expected("24 to 240 registers, a multiple of 8", registers);
  int registers =
      config.producerRegisters + config.consumers * config.consumerRegisters;
  if (registers > 512)
    return expected("at most 512 registers over the warpgroups", registers);
  return {};
}

std::string gemm::checkConfig(const GemmConfig &config) {
  if (config.splitK && config.schedule != Schedule::Cooperative)
    return "expected a cooperative schedule for split K, but got ping-pong";
  for (auto *check : {checkTile, checkOperands, checkEpilogue, checkColumnSums,
                      checkRing, checkResources}) {
    std::string error = check(config);
    if (!error.empty())
      return error;
  }
  return {};
}
