//===- GemmChoice.cpp - Which kernel for which product --------------------===//
#include "compiler/emit/nvptx/gemm/GemmChoice.h"
#include <algorithm>
#include <cassert>

using namespace lockstep;
using namespace lockstep::gemm;

namespace {
/// A schedule and tile that won somewhere, with its speed while all
/// multiprocessors are busy in relation to 128x128 in ping-pong.
struct Candidate {
  const char *words;
  double speed;
};
} // namespace

// Measured on an H200 (docs/gpu-kernels.md).
static constexpr Candidate candidates[] = {
    {"pingpong 128x128", 1.0},
    {"pingpong 128x128 stages=5 ring=4", 0.99},
    {"pingpong 128x64 stages=8", 0.65},
    {"pingpong 128x64 stages=8 cluster=none", 0.65},
    {"pingpong 128x192 stages=5 ring=3 ringbytes=64 registers=240 "
     "loadregisters=24",
     1.01},
    {"pingpong 128x192 stages=4 ring=3 registers=240 loadregisters=24", 1.005},
    {"pingpong 128x192 stages=4 ring=3 cluster=n registers=240 "
     "loadregisters=24",
     1.0},
    {"cooperative 192x192 consumers=3 stages=4 ring=1 cluster=none split "
     "registers=160 loadregisters=32",
     1.0},
    {"cooperative 128x256 stages=4 split", 0.98},
};

static GemmConfig makeConfig(const Candidate &candidate,
                             const GemmRequest &request) {
  std::string error;
  std::optional<GemmConfig> config = parseConfig(candidate.words, error);
  assert(config && "a candidate's words are known");
  config->a = request.a;
  config->b = request.b;
  config->output = request.output;
  config->bias = request.bias;
  config->activation = request.activation;
  config->side = request.side;
  config->columnSums = request.columnSums;
  config->batched = request.size.batch > 1;
  config->overlapLaunch = true;
  // What streams through the cache should not push the operands out of it; a
  // residual is about to be read again.
  config->cacheHints =
      request.side != Side::None && request.side != Side::AddResidual;
  return *config;
}

/// The busiest multiprocessor's time, in blocks of 128 x 128 x 64. Besides its
/// blocks along k a tile costs what the next one does not hide, a partial sum
/// what it costs to leave or to add.
static double estimateTime(const GemmConfig &config, const GemmSize &size,
                           int multiprocessors) {
  TileTable table = buildTileTable(config, size, multiprocessors);
  int clusters = table.gridBlocks / getClusterSize(config);
  double tileCost = config.schedule == Schedule::PingPong ? 0.3 : 2;
  std::vector<double> times(clusters, 0);
  for (int i = 0; i < table.itemCount; ++i) {
    const TileItem &item = table.items[i];
    if (item.blocks == 0)
      continue;
    double partials = item.kind == ItemKind::Partial ? 1 : item.partials;
    times[i % clusters] += item.blocks + tileCost + 3 * partials;
  }
  double area = double(config.tileM) * config.tileN / (128 * 128);
  return *std::max_element(times.begin(), times.end()) * area;
}

/// A plain product whose tiles are so few that a long K has to be cut into many
/// slices, or whose K is so short that it is all epilogue.
static bool isLibraryFaster(const GemmRequest &request, int multiprocessors) {
  const GemmSize &size = request.size;
  bool isPlain = request.side == Side::None && !request.columnSums &&
                 request.activation == Activation::None;
  double tiles = double(size.m) * size.n * size.batch / (192 * 192);
  return isPlain && (tiles < multiprocessors / 5.0 || size.k <= 128);
}

std::optional<GemmChoice> gemm::chooseGemm(const GemmRequest &request,
                                           int multiprocessors) {
  if (request.hasAlternative && isLibraryFaster(request, multiprocessors))
    return std::nullopt;
  std::optional<GemmChoice> best;
  for (const Candidate &candidate : candidates) {
    GemmConfig config = makeConfig(candidate, request);
    if (!checkConfig(config).empty() ||
        !checkSize(config, request.size).empty())
      continue;
    // Two tensors written in turns want a longer ring.
    if (request.side == Side::SavePreactivation && config.ring < 4)
      continue;
    double time =
        estimateTime(config, request.size, multiprocessors) / candidate.speed;
    if (!best || time < best->time)
      best = GemmChoice{config, 8, time};
  }
  return best;
}
