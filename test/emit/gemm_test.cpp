// Generated GEMM kernels, as far as they show without a GPU: configurations,
// tile tables, PTX that assembles.
#include "compiler/emit/nvptx/gemm/GemmChoice.h"
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
#include "compiler/emit/nvptx/gemm/GemmLaunch.h"
#include "compiler/emit/nvptx/gemm/mma/MmaKernel.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "mlir/IR/MLIRContext.h"
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

using namespace lockstep;
using namespace lockstep::gemm;

static GemmConfig parse(const std::string &text) {
  std::string error;
  auto config = parseConfig(text, error);
  INFO(text << ": " << error);
  REQUIRE(config);
  return *config;
}

TEST_CASE("a configuration is the words that it prints") {
  for (const char *text :
       {"pingpong 128x128", "pingpong 128x192 stages=5 ring=3 ringbytes=64",
        "cooperative 192x192 consumers=3 stages=4 ring=1 registers=160 "
        "loadregisters=32 cluster=none a=outer b=outer f32 split",
        "pingpong 128x128 stages=5 ring=4 b=outer gelu gradient sums",
        "pingpong 128x128 stages=5 ring=4 bias gelu save batched overlap "
        "hints"})
    CHECK(printConfig(parse(text)) == text);
}

TEST_CASE("an unknown word of a configuration is named") {
  std::string error;
  CHECK_FALSE(parseConfig("pingpong 128x128 stages=5x", error));
  CHECK(error == "unknown word 'stages=5x' in a GEMM configuration");
  CHECK_FALSE(parseConfig("pingpong", error));
  CHECK(error == "expected a schedule and a tile, but got 'pingpong'");
}

TEST_CASE("what a configuration cannot be is said") {
  const std::map<std::string, std::string> refused = {
      {"pingpong 128x128 consumers=3",
       "expected 2 consumers of a ping-pong schedule, but got 3"},
      {"cooperative 192x128",
       "expected a tile height that is a multiple of 128, but got 192"},
      {"pingpong 128x264 ",
       "expected a tile width of 16 to 256, a multiple of 16, but got 264"},
      {"pingpong 128x256 stages=2",
       "expected at most 192 sums a thread, but got 256"},
      {"pingpong 128x192 stages=4 ring=3 b=outer registers=240 "
       "loadregisters=24",
       "expected a block to fetch a multiple of 64 columns of B, but got 96"},
      {"pingpong 128x128 f32 bias",
       "expected a plain sum for an f32 output, but got an epilogue"},
      {"pingpong 128x128 save",
       "expected an activation whose input is saved, but got none"},
      {"pingpong 128x128 gradient stages=5 ring=4",
       "expected an activation whose gradient is taken, but got none"},
      {"pingpong 128x128 gelu gradient bias stages=5 ring=4",
       "expected no bias before a gradient of an activation, but got one"},
      {"pingpong 128x128 bias sums",
       "expected no bias and no saved tensor with column sums, but got one"},
      {"pingpong 128x128 batched sums",
       "expected whole sums of one matrix for column sums, but got split K or "
       "a batch"},
      {"pingpong 128x128 ring=3",
       "expected a ring that divides 4 rounds, but got 3"},
      {"pingpong 128x128 residual",
       "expected a ring of 4 to read a second tensor, but got 2"},
      {"pingpong 128x128 stages=7",
       "expected at most 232448 bytes of shared memory, but got 262272"},
      {"pingpong 128x128 loadregisters=56",
       "expected at most 512 registers over the warpgroups, but got 520"},
      {"pingpong 128x128 split",
       "expected a cooperative schedule for split K, but got ping-pong"},
  };
  for (const auto &[text, message] : refused) {
    INFO(text);
    CHECK(checkConfig(parse(text)) == message);
  }
}

TEST_CASE("what a kernel cannot take of a size is said") {
  CHECK(checkSize(parse("pingpong 128x128 bias"), {64, 33, 64}) ==
        "expected an even width with a bias, but got 33");
  CHECK(checkSize(parse("pingpong 128x128"), {64, 32, 64, 2}) ==
        "expected a batch of 1, but got 2");
  CHECK(checkSize(parse("pingpong 128x128"), {0, 32, 64}) ==
        "expected extents of 1 to 2^30, but got 0");
  CHECK(checkSize(parse("pingpong 128x128 batched"), {64, 33, 64, 2}).empty());
}

TEST_CASE("what a kernel cannot take of how operands lie is said") {
  GemmConfig config = parse("pingpong 128x128 a=outer batched");
  GemmSize size{1001, 64, 100, 2};
  GemmStrides strides{1008, 104, 64, 1008 * 100, 104 * 64, 64 * 1001};
  CHECK(checkStrides(config, size, strides).empty());
  auto with = [&](auto change) {
    GemmStrides changed = strides;
    change(changed);
    return checkStrides(config, size, changed);
  };
  CHECK(with([](GemmStrides &s) { s.a = 1001; }) ==
        "expected a leading dimension of A that is a multiple of 8, but got "
        "1001");
  CHECK(with([](GemmStrides &s) { s.b = 96; }) ==
        "expected a leading dimension of B of at least 100, but got 96");
  CHECK(with([](GemmStrides &s) { s.dBatch = 64 * 1001 + 4; }) ==
        "expected matrices of D a multiple of 8 elements apart, but got 64068");
  // f32: four elements are 16 bytes.
  config.output = Output::Float32;
  CHECK(with([](GemmStrides &s) { s.d = 68; }).empty());
}

TEST_CASE("a launch describes the kernel's arguments in order") {
  using Kind = LaunchParameter::Kind;
  auto getKinds = [](const GemmLaunch &launch) {
    std::vector<Kind> kinds;
    for (const LaunchParameter &parameter : launch.parameters)
      kinds.push_back(parameter.kind);
    return kinds;
  };
  GemmLaunch launch =
      planLaunch(parse("pingpong 128x128 stages=5 ring=4 b=outer bias gelu "
                       "save batched overlap"),
                 {300, 200, 104, 5}, {104, 200, 208, 31200, 20800, 62400}, 132);
  CHECK(getKinds(launch) ==
        std::vector<Kind>{Kind::TensorMap, Kind::TensorMap, Kind::TensorMap,
                          Kind::TensorMap, Kind::Pointer, Kind::TileTable,
                          Kind::Null, Kind::Null, Kind::Null, Kind::Number,
                          Kind::Number});
  const TensorMapShape &a = launch.parameters[0].map;
  CHECK(a.extents == std::vector<int64_t>{104, 300, 5});
  CHECK(a.byteStrides == std::vector<int64_t>{208, 62400});
  CHECK(a.box == std::vector<int32_t>{64, 128, 1});
  const TensorMapShape &b = launch.parameters[1].map;
  CHECK(b.extents == std::vector<int64_t>{200, 104, 5});
  CHECK(b.box == std::vector<int32_t>{64, 64, 1});
  CHECK(launch.parameters[3].tensor == GemmTensor::Side);
  CHECK(launch.parameters[4].tensor == GemmTensor::Bias);
  CHECK(launch.parameters[10].number == 200);
  CHECK(launch.threads == 384);
  CHECK(launch.overlap);

  launch = planLaunch(parse("cooperative 192x192 consumers=3 stages=4 ring=1 "
                            "cluster=none a=outer b=outer f32 split"),
                      {768, 768, 32768}, {768, 768, 768}, 132);
  CHECK(getKinds(launch)[6] == Kind::Workspace);
  CHECK(getKinds(launch)[7] == Kind::Counters);
  CHECK(launch.counterBytes == 16 * 7 * 3 * 4);
  CHECK(launch.parameters[2].map.elementBytes == 4);
  CHECK(launch.parameters[2].map.box == std::vector<int32_t>{32, 64});
}

namespace {
/// What a table says of one tile.
struct Coverage {
  std::vector<std::pair<int, int>> ranges; // along k
  std::set<int> written, read;             // slots
  int finishers = 0;
};
} // namespace

/// Each cluster's items in order, with whether it may wait for another one.
static std::vector<std::vector<TileItem>> getQueues(const GemmConfig &config,
                                                    const TileTable &table) {
  int clusters = table.gridBlocks / getClusterSize(config);
  std::vector<std::vector<TileItem>> queues(clusters);
  const auto *ends =
      reinterpret_cast<const int32_t *>(table.items.data() + table.itemCount);
  for (int cluster = 0; cluster < clusters; ++cluster) {
    int end = config.splitK ? ends[cluster] : table.itemCount;
    for (int i = cluster; i < end; i += clusters)
      queues[cluster].push_back(table.items[i]);
  }
  return queues;
}

static void addItem(Coverage &coverage, const TileItem &item) {
  coverage.ranges.push_back({item.firstBlock, item.firstBlock + item.blocks});
  if (item.kind == ItemKind::Partial) {
    CHECK(coverage.written.insert(item.slot).second);
    return;
  }
  ++coverage.finishers;
  for (int i = 0; i < item.partials; ++i)
    coverage.read.insert(item.slot + i);
}

static void checkTable(const GemmConfig &config, const GemmSize &size,
                       int processors, int group) {
  INFO(size.m << "x" << size.n << "x" << size.k << " batch " << size.batch
              << ", " << processors << " processors, group " << group);
  TileTable table = buildTileTable(config, size, processors, group);
  std::map<std::array<int, 3>, Coverage> tiles;
  auto queues = getQueues(config, table);
  for (size_t cluster = 0; cluster < queues.size(); ++cluster)
    for (const TileItem &item : queues[cluster]) {
      CHECK(item.blocks > 0);
      addItem(tiles[{item.batch, item.row, item.column}], item);
      // Nobody waits for a cluster that comes later, or for itself.
      if (item.kind == ItemKind::Finish)
        for (size_t other = cluster; other < queues.size(); ++other)
          for (const TileItem &later : queues[other])
            CHECK(later.kind != ItemKind::Partial);
    }
  int64_t height = config.tileM * getClusterM(config);
  int64_t width = config.tileN * getClusterN(config);
  CHECK(int64_t(tiles.size()) == size.batch * ((size.m + height - 1) / height) *
                                     ((size.n + width - 1) / width));
  std::set<int> slots;
  for (auto &[place, coverage] : tiles) {
    CHECK(place[0] < size.batch);
    CHECK(place[1] % height == 0);
    CHECK(place[1] < size.m);
    CHECK(place[2] % width == 0);
    CHECK(place[2] < size.n);
    CHECK(coverage.finishers == 1);
    CHECK(coverage.read == coverage.written);
    std::sort(coverage.ranges.begin(), coverage.ranges.end());
    int covered = 0;
    for (auto [begin, end] : coverage.ranges) {
      CHECK(begin == covered);
      covered = end;
    }
    CHECK(covered == (size.k + tileK - 1) / tileK);
    for (int slot : coverage.written) {
      CHECK(slot < table.slots);
      CHECK(slots.insert(slot).second);
    }
  }
}

TEST_CASE("a tile table covers every tile exactly once") {
  const GemmConfig configs[] = {
      parse("pingpong 128x128"),
      parse("pingpong 128x192 cluster=n"),
      parse("pingpong 128x176 cluster=none"),
      parse("pingpong 64x128 batched"),
      parse("cooperative 192x192 consumers=3 cluster=none split"),
      parse("cooperative 128x256 split")};
  std::mt19937 random(7);
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (const GemmConfig &config : configs)
    for (int i = 0; i < 40; ++i) {
      GemmSize size{draw(1, 2000), draw(1, 2000), draw(1, 5000), 1};
      if (config.batched)
        size.batch = draw(1, 5);
      int group = draw(1, 12);
      checkTable(config, size, draw(2, 140), draw(0, 1) ? group : -group);
    }
}

TEST_CASE("a few tiles with a long K are cut over all processors") {
  GemmConfig config =
      parse("cooperative 192x192 consumers=3 cluster=none split");
  // 16 tiles on 132 processors: eight slices, seven of them by others.
  TileTable table = buildTileTable(config, {768, 768, 32768}, 132);
  CHECK(table.slices == 8);
  CHECK(table.slots == 16 * 7);
  CHECK(getWorkspaceBytes(config, table) == 16 * 7 * 192 * 192 * 4);
  // Two and a half waves: the tiles of the half one are cut in two.
  table = buildTileTable(config, {2048, 5632, 16384}, 132);
  CHECK(table.slices == 2);
  CHECK(table.slots == 66);
  CHECK(table.itemCount == 3 * 132);
  // Eleven tiles are missing to a full wave: a cut would cost more.
  CHECK(buildTileTable(config, {2048, 2048, 16384}, 132).slices == 1);
  // Full waves: none is cut.
  CHECK(buildTileTable(config, {192 * 12, 192 * 11, 4096}, 132).slices == 1);
}

static std::string choose(const GemmRequest &request) {
  auto choice = chooseGemm(request, 132);
  if (!choice)
    return "library";
  CHECK(checkConfig(choice->config).empty());
  const GemmConfig &config = choice->config;
  return std::string(config.schedule == Schedule::PingPong ? "pingpong "
                                                           : "cooperative ") +
         std::to_string(config.tileM) + "x" + std::to_string(config.tileN);
}

TEST_CASE("the kernel is chosen for its size and what it does besides") {
  GemmRequest forward;
  forward.size = {32768, 3072, 768};
  CHECK(choose(forward) == "pingpong 128x128");
  forward.bias = true;
  forward.activation = Activation::Gelu;
  forward.side = Side::SavePreactivation;
  CHECK(choose(forward) == "pingpong 128x128");
  CHECK(chooseGemm(forward, 132)->config.ring == 4);
  // An odd width has no kernel with a bias.
  forward.size.n = 3071;
  CHECK(choose(forward) == "library");

  GemmRequest logits;
  logits.size = {32768, 50304, 768};
  CHECK(choose(logits) == "pingpong 128x192");

  GemmRequest weights;
  weights.a = weights.b = Major::Outer;
  weights.size = {768, 3072, 32768};
  CHECK(choose(weights) == "cooperative 192x192");
  weights.size = {2048, 5632, 16384};
  CHECK(choose(weights) == "cooperative 128x256");
  weights.size = {2048, 2048, 16384};
  CHECK(choose(weights) == "pingpong 128x128");
  weights.size = {768, 768, 32768};
  CHECK(choose(weights) == "library");

  GemmRequest narrow;
  narrow.size = {1024, 64, 1024, 384};
  CHECK(choose(narrow) == "pingpong 128x64");
  narrow.size = {1024, 1024, 64, 384};
  CHECK(choose(narrow) == "library");
}

static std::string getPtx(const GemmConfig &config) {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  if (failed(buildGemmKernel(*module, config, "gemm")))
    return {};
  auto ptx = emit::lowerToPtx(*module, "sm_90a", emit::PtxOptimization::None);
  return succeeded(ptx) ? *ptx : std::string();
}

TEST_CASE("a kernel of each kind assembles without spills") {
  for (const char *text :
       {"pingpong 128x128", "pingpong 128x128 b=outer cluster=none overlap",
        "pingpong 128x128 a=outer b=outer accumulate",
        "pingpong 128x128 stages=5 ring=4 bias gelu save hints",
        "pingpong 128x128 stages=5 ring=4 bias gelutanh residual",
        "pingpong 128x128 stages=5 ring=4 b=outer silu gradient sums",
        "pingpong 128x192 stages=5 ring=3 ringbytes=64 registers=240 "
        "loadregisters=24 batched",
        "cooperative 128x256 stages=4 a=outer b=outer f32 split"}) {
    INFO(text);
    std::string ptx = getPtx(parse(text));
    CHECK(ptx.find("wgmma.mma_async") != std::string::npos);
    CHECK(ptx.find(".entry gemm(") != std::string::npos);
    emit::CubinResult result = emit::assembleCubin(ptx, "sm_90a", true);
    if (result.status == emit::CubinResult::Status::NoPtxas)
      continue;
    INFO(result.messages);
    REQUIRE(result.status == emit::CubinResult::Status::Assembled);
    CHECK(result.messages.find(" 0 bytes spill stores") != std::string::npos);
    CHECK(result.messages.find("warning") == std::string::npos);
    CHECK(result.messages.find("serialized") == std::string::npos);
  }
}

TEST_CASE("mma.sync kernels assemble for every chip without spills") {
  for (const char *chip : {"sm_80", "sm_90a", "sm_100a"})
    for (const char *text :
         {"pingpong 128x128", "pingpong 128x128 a=outer b=outer accumulate",
          "pingpong 128x128 b=outer bias gelu save"}) {
      INFO(chip << ": " << text);
      mlir::MLIRContext context;
      emit::loadPtxDialects(context);
      mlir::OwningOpRef<mlir::ModuleOp> module =
          mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
      REQUIRE(succeeded(
          buildMmaKernel(*module, getMmaConfig(parse(text)), "gemm")));
      auto ptx = emit::lowerToPtx(*module, chip, emit::PtxOptimization::None);
      REQUIRE(succeeded(ptx));
      CHECK(ptx->find("mma.sync.aligned.m16n8k16") != std::string::npos);
      emit::CubinResult result = emit::assembleCubin(*ptx, chip, true);
      if (result.status == emit::CubinResult::Status::NoPtxas)
        continue;
      INFO(result.messages);
      REQUIRE(result.status == emit::CubinResult::Status::Assembled);
      CHECK(result.messages.find(" 0 bytes spill stores") != std::string::npos);
    }
}

TEST_CASE("several kernels share a module") {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  REQUIRE(
      succeeded(buildGemmKernel(*module, parse("pingpong 128x128"), "first")));
  REQUIRE(succeeded(buildMmaKernel(*module, MmaConfig(), "second")));
  auto ptx = emit::lowerToPtx(*module, "sm_90a", emit::PtxOptimization::None);
  REQUIRE(succeeded(ptx));
  emit::CubinResult result = emit::assembleCubin(*ptx, "sm_90a");
  INFO(result.messages);
  CHECK(result.status != emit::CubinResult::Status::Failed);
}

TEST_CASE("a kernel of a refused configuration is not built") {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message = diagnostic.str();
                                          return mlir::success();
                                        });
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  CHECK(failed(
      buildGemmKernel(*module, parse("pingpong 128x128 ring=3"), "gemm")));
  CHECK(message ==
        "GEMM kernel: expected a ring that divides 4 rounds, but got 3");
}
