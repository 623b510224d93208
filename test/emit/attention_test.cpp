// Attention kernels: configurations, work tables, and PTX that assembles. What
// they compute is checked on a GPU (tools/bench/gpu/attention_bench.py).
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/AttentionLaunch.h"
#include "compiler/emit/nvptx/attention/WorkTable.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "mlir/IR/MLIRContext.h"
#include <catch2/catch.hpp>
#include <functional>
#include <map>

using namespace lockstep;
using namespace lockstep::attention;

namespace {
KernelConfig parse(const std::string &text) {
  std::string error;
  auto config = parseConfig(text, error);
  INFO(error);
  REQUIRE(config);
  return *config;
}

std::string check(const std::string &text) {
  return std::visit([](const auto &each) { return checkConfig(each); },
                    parse(text));
}

using Build = std::function<mlir::LogicalResult(mlir::ModuleOp)>;

std::string lower(const Build &build) {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  REQUIRE(succeeded(build(*module)));
  mlir::FailureOr<std::string> ptx =
      emit::lowerToPtx(*module, "sm_90a", emit::PtxOptimization::None);
  REQUIRE(succeeded(ptx));
  return *ptx;
}

std::vector<Build> getBuilds(const KernelConfig &config) {
  if (auto *forward = std::get_if<ForwardConfig>(&config))
    return {
        [=](auto module) { return buildForwardKernel(module, *forward, "f"); }};
  if (auto *query = std::get_if<QueryGradientConfig>(&config))
    return {[=](auto module) {
      return buildQueryGradientKernel(module, *query, "q");
    }};
  auto backward = std::get<BackwardConfig>(config);
  std::vector<Build> builds{
      [=](auto module) { return buildBackwardKernel(module, backward, "b"); }};
  if (backward.queryGradient == QueryGradient::None)
    return builds;
  builds.push_back(
      [=](auto module) { return buildPrepareKernel(module, backward, "p"); });
  builds.push_back(
      [=](auto module) { return buildConvertKernel(module, backward, "c"); });
  return builds;
}

/// (batch, query head, tile of queries, block of keys) -> how many times that
/// pair is worked on.
using Visits = std::map<std::array<int64_t, 4>, int>;

Visits visitByQueries(const WorkTable<QueryItem> &table, int rows) {
  Visits visits;
  for (const QueryItem &item : table.items)
    for (int block = 0; block < item.blocks; ++block)
      ++visits[{item.batch, item.head, item.row / rows,
                item.firstBlock + block}];
  return visits;
}

/// As the kernel walks: from start to end, then from first.
Visits visitByKeys(const WorkTable<KeyItem> &table, int keyBlock) {
  Visits visits;
  for (const KeyItem &item : table.items) {
    int tile = item.start, head = item.firstHead;
    for (int step = 0; step < item.steps; ++step) {
      ++visits[{item.batch, head, tile, item.row / keyBlock}];
      tile = tile + 1 == item.end ? item.first : tile + 1;
      head += tile == item.start;
    }
  }
  return visits;
}

/// Every pair of a tile and a block with something to see, just once.
void checkVisits(const Visits &visits, Mask mask, const AttentionSize &size,
                 int rows, int keyBlock) {
  for (const auto &[place, count] : visits)
    CHECK(count == 1);
  for (int64_t query = 0; query < size.queries; ++query) {
    int64_t first = 0, last = size.keys - 1;
    if (mask != Mask::Full)
      last = std::min(last, query);
    if (mask == Mask::CausalWindow)
      first = std::max<int64_t>(0, query - size.window + 1);
    for (int64_t block = first / keyBlock; block <= last / keyBlock; ++block)
      for (int64_t batch = 0; batch < size.batch; ++batch)
        for (int64_t head = 0; head < size.queryHeads; ++head)
          if (!visits.count({batch, head, query / rows, block}))
            FAIL("query " << query << " misses block " << block);
  }
}
} // namespace

TEST_CASE("an attention configuration is the words that it prints") {
  for (const char *text :
       {"forward 64", "forward 64 causal keybias stages=3 polynomial=8",
        "forward 64 window consumers=3 querystages=1",
        "forward 128 causal boolean", "backward 64 added keystages=2",
        "backward 128 causal bulk defer late",
        "backward 64 noquery stages=3 keystages=2",
        "querygradient 64 window querystages=2"})
    CHECK(printConfig(parse(text)) == text);
}

TEST_CASE("words that no attention configuration has are named") {
  auto getError = [](const char *text) {
    std::string error;
    CHECK_FALSE(parseConfig(text, error));
    return error;
  };
  CHECK(getError("forward 64 bulk") ==
        "unknown word 'bulk' in an attention configuration");
  CHECK(getError("sideways 64") ==
        "unknown word 'sideways' in an attention configuration");
  CHECK(getError("forward wide") ==
        "unknown word 'wide' in an attention configuration");
  CHECK(getError("backward 64 stages=two") ==
        "unknown word 'stages=two' in an attention configuration");
  CHECK(getError("forward") ==
        "expected a kernel and a head dimension, but got 'forward'");
}

TEST_CASE("attention configurations that no kernel can have are refused") {
  CHECK(check("forward 512") ==
        "expected a head dimension of 64, 128 or 256, but got 512");
  CHECK(check("backward 96") ==
        "expected a head dimension of 64, 128 or 256, but got 96");
  CHECK(check("querygradient 32") ==
        "expected a head dimension of 64, 128 or 256, but got 32");
  CHECK(check("forward 256") == "expected at most 232448 bytes of shared "
                                "memory, but got 278624");
  CHECK(check("forward 64 consumers=4") ==
        "expected 2 or 3 consumers, but got 4");
  CHECK(check("forward 128 consumers=3") ==
        "expected a head dimension of 64 with 3 consumers, but got 128");
  CHECK(check("forward 64 stages=1") == "expected 2 stages or more, but got 1");
  CHECK(check("forward 64 querystages=0") ==
        "expected 1 tile of queries or more, but got 0");
  CHECK(check("forward 64 polynomial=1") ==
        "expected a polynomial for one exponential in 2 or more, or 0, but got "
        "1");
  CHECK(check("forward 128 stages=3") ==
        "expected at most 232448 bytes of shared memory, but got 295040");
  CHECK(check("querygradient 64 keybias boolean") ==
        "expected a mask over keys, or one over queries and keys, but got "
        "both");
  CHECK(check("backward 256") ==
        "expected no query gradient above a head dimension of 128, but got "
        "256");
  CHECK(check("backward 64 keystages=0") ==
        "expected 1 block of keys or more, but got 0");
  CHECK(check("backward 64 noquery defer") ==
        "expected a key gradient that is not deferred where the query gradient "
        "is left out, but got a deferred one");
}

TEST_CASE("a refused attention configuration is an error at the module") {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    message = d.str();
    return mlir::success();
  });
  ForwardConfig forward;
  forward.headDim = 32;
  CHECK(failed(buildForwardKernel(*module, forward, "f")));
  CHECK(message == "attention kernel: expected a head dimension of 64, 128 or "
                   "256, but got 32");
  BackwardConfig backward = getBackwardConfig(64, Mask::Full, true);
  CHECK(failed(buildPrepareKernel(*module, backward, "p")));
  CHECK(message == "attention kernel: expected sums of dq to prepare, but got "
                   "a backward without them");
  CHECK(failed(buildConvertKernel(*module, backward, "c")));
  CHECK(message == "attention kernel: expected sums of dq to convert, but got "
                   "a backward without them");
}

TEST_CASE("sizes that attention kernels cannot take are refused") {
  AttentionSize size;
  size.queryHeads = 6;
  size.keyHeads = 4;
  CHECK(checkSize(64, Mask::Full, size) ==
        "expected a number of query heads that is a multiple of 4, but got 6");
  size.keyHeads = 3;
  CHECK(checkSize(64, Mask::Full, size).empty());
  size.headDim = 100;
  CHECK(checkSize(128, Mask::Full, size) ==
        "expected a head dimension up to 128, a multiple of 8, but got 100");
  size.headDim = 64;
  size.queries = 5;
  size.keys = 7;
  CHECK(checkSize(64, Mask::Causal, size).empty());
  CHECK(checkSize(64, Mask::CausalWindow, size) ==
        "expected as many keys as the 5 queries with a window, but got 7");
  size.keys = 5;
  CHECK(checkSize(64, Mask::CausalWindow, size) ==
        "expected a window of at least 1, but got 0");
  size.batch = int64_t(1) << 30;
  CHECK(checkSize(64, Mask::Full, size) ==
        "expected fewer than 2^31 rows of queries, but got 32212254720");
  size.batch = 0;
  CHECK(checkSize(64, Mask::Full, size) ==
        "expected sizes of at least 1, but got 0");
}

TEST_CASE("work tables cover what is seen just once") {
  struct Lengths {
    int64_t queries, keys;
  };
  for (Mask mask : {Mask::Full, Mask::Causal, Mask::CausalWindow})
    for (auto [queries, keys] :
         {Lengths{1, 1}, Lengths{300, 300}, Lengths{777, 777},
          Lengths{500, 130}, Lengths{130, 500}}) {
      if (mask == Mask::CausalWindow && queries != keys)
        continue;
      AttentionSize size;
      size.batch = 2;
      size.queryHeads = 4;
      size.keyHeads = 2;
      size.queries = queries;
      size.keys = keys;
      size.window = 150;
      INFO("mask " << int(mask) << " T " << queries << " S " << keys);
      for (int headDim : {64, 128, 256}) {
        int keyBlock = getKeyBlock(headDim);
        ForwardConfig forward = getForwardConfig(headDim, mask);
        auto byQueries = buildWorkTable(forward, size, 7);
        checkVisits(visitByQueries(byQueries, getQueryRows(forward)), mask,
                    size, getQueryRows(forward), keyBlock);
        BackwardConfig backward = getBackwardConfig(headDim, mask, false);
        auto byKeys = buildWorkTable(backward, size, 7);
        checkVisits(visitByKeys(byKeys, keyBlock), mask, size,
                    getQueryRows(backward), keyBlock);
        QueryGradientConfig query = getQueryGradientConfig(headDim, mask);
        checkVisits(
            visitByQueries(buildWorkTable(query, size, 7), getQueryRows(query)),
            mask, size, getQueryRows(query), keyBlock);
        CHECK(byKeys.gridBlocks + 1 == int(byKeys.bounds.size()));
        CHECK(byKeys.bounds.back() == int(byKeys.items.size()));
        // Keys that no query sees get their zeros as well.
        CHECK(int64_t(byKeys.items.size()) ==
              size.batch * size.keyHeads * ((keys + keyBlock - 1) / keyBlock));
        for (const KeyItem &item : byKeys.items)
          CHECK(item.steps >= 1);
      }
    }
}

TEST_CASE("every head dimension has the least kernel that takes it") {
  CHECK(getKernelHeadDim(8) == 64);
  CHECK(getKernelHeadDim(64) == 64);
  CHECK(getKernelHeadDim(72) == 128);
  CHECK(getKernelHeadDim(136) == 256);
  CHECK(getKernelHeadDim(256) == 256);
  for (int headDim : {64, 128, 256})
    for (Mask mask : {Mask::Full, Mask::Causal, Mask::CausalWindow}) {
      CHECK(checkConfig(getForwardConfig(headDim, mask)) == "");
      CHECK(checkConfig(getQueryGradientConfig(headDim, mask)) == "");
      for (bool deterministic : {false, true})
        CHECK(checkConfig(getBackwardConfig(headDim, mask, deterministic)) ==
              "");
    }
}

TEST_CASE("causal work is spread evenly over the blocks") {
  AttentionSize size;
  size.batch = 4;
  size.queryHeads = size.keyHeads = 32;
  size.queries = size.keys = 4096;
  CHECK(buildWorkTable(getForwardConfig(128, Mask::Causal), size, 132).balance >
        0.99);
  CHECK(buildWorkTable(getBackwardConfig(128, Mask::Causal, false), size, 132)
            .balance > 0.99);
}

TEST_CASE("the attention kernels of choice assemble without warnings") {
  if (emit::findPtxas().empty())
    return;
  std::vector<KernelConfig> configs;
  for (int headDim : {64, 128, 256})
    for (Mask mask : {Mask::Full, Mask::Causal, Mask::CausalWindow}) {
      configs.push_back(getForwardConfig(headDim, mask));
      configs.push_back(getBackwardConfig(headDim, mask, false));
      configs.push_back(getBackwardConfig(headDim, mask, true));
      configs.push_back(getQueryGradientConfig(headDim, mask));
    }
  for (const char *text :
       {"forward 64 causal consumers=3",
        "forward 64 keybias stages=3",
        "forward 128 keybias",
        "backward 64 keybias keystages=2",
        "backward 64 causal keybias stages=3 keystages=2 noquery",
        "querygradient 128 keybias",
        "forward 64 boolean stages=3 polynomial=8",
        "forward 128 causal boolean",
        "forward 128 added",
        "forward 64 window added consumers=3",
        "querygradient 64 boolean",
        "querygradient 128 causal added",
        "backward 64 boolean keystages=2",
        "backward 128 boolean stages=3 defer late",
        "backward 128 causal added bulk defer late",
        "backward 64 added stages=3 keystages=2 noquery",
        "backward 128 causal boolean stages=3 noquery",
        "forward 256 causal boolean querystages=1",
        "backward 256 added noquery",
        "forward 256 keybias querystages=1",
        "querygradient 256 causal keybias querystages=1"})
    configs.push_back(parse(text));
  auto checkKernel = [](const std::string &name, const Build &build) {
    emit::CubinResult result = emit::assembleCubin(lower(build), "sm_90a");
    INFO(name << ": " << result.messages);
    CHECK(result.status == emit::CubinResult::Status::Assembled);
    // C75xx: products would be serialized, or registers ignored.
    CHECK(result.messages.find("C75") == std::string::npos);
  };
  for (const KernelConfig &config : configs)
    for (const Build &build : getBuilds(config))
      checkKernel(printConfig(config), build);
  for (MaskElement element :
       {MaskElement::Boolean, MaskElement::F32, MaskElement::BFloat16})
    for (auto build : {&buildKeyBiasKernel, &buildMaskPiecesKernel})
      checkKernel("pass over a mask", [=](mlir::ModuleOp module) {
        return build(module, element, "k");
      });
}

namespace {
/// The types of a PTX kernel's parameters: m (a tensor map), p, i, l, f.
std::string getSignature(const std::string &ptx) {
  size_t begin = ptx.find(".entry"), end = ptx.find(")", begin);
  std::string signature;
  for (size_t at = begin; (at = ptx.find(".param", at)) < end; ++at) {
    std::string line = ptx.substr(at, ptx.find('\n', at) - at);
    auto has = [&](const char *part) {
      return line.find(part) != std::string::npos;
    };
    signature += has(".b8")    ? 'm'
                 : has(".ptr") ? 'p'
                 : has("64")   ? 'l'
                 : has(".f32") ? 'f'
                               : 'i';
  }
  return signature;
}

std::string getSignature(const AttentionLaunch &launch) {
  using Kind = LaunchParameter::Kind;
  std::string signature;
  for (const LaunchParameter &parameter : launch.parameters)
    signature += parameter.kind == Kind::TensorMap ? 'm'
                 : parameter.kind == Kind::Number  ? 'i'
                 : parameter.kind == Kind::Wide    ? 'l'
                 : parameter.kind == Kind::Scalar  ? 'f'
                                                   : 'p';
  return signature;
}

Build getBuild(AttentionKernel kernel, const KernelConfig &config) {
  return [=](mlir::ModuleOp module) {
    switch (kernel) {
    case AttentionKernel::KeyBias:
      return buildKeyBiasKernel(module, MaskElement::Boolean, "k");
    case AttentionKernel::MaskPieces:
      return buildMaskPiecesKernel(module, MaskElement::Boolean, "k");
    case AttentionKernel::Forward:
      return buildForwardKernel(module, std::get<ForwardConfig>(config), "k");
    case AttentionKernel::Prepare:
      return buildPrepareKernel(module, std::get<BackwardConfig>(config), "k");
    case AttentionKernel::Backward:
      return buildBackwardKernel(module, std::get<BackwardConfig>(config), "k");
    case AttentionKernel::Convert:
      return buildConvertKernel(module, std::get<BackwardConfig>(config), "k");
    case AttentionKernel::QueryGradient:
      break;
    }
    return buildQueryGradientKernel(module,
                                    std::get<QueryGradientConfig>(config), "k");
  };
}
} // namespace

TEST_CASE("attention launches pass what the kernels' PTX takes") {
  AttentionSize size;
  size.queries = size.keys = 300;
  AttentionStrides strides;
  for (int tensor = 0; tensor <= int(AttentionTensor::ValueGradient); ++tensor)
    strides[AttentionTensor(tensor)] = {64, 300 * 64, 300 * 64};
  CHECK(checkStrides(strides).empty());
  ForwardConfig forward;
  forward.keyBias = true;
  BackwardConfig backward, rest = getBackwardConfig(64, Mask::Full, true);
  QueryGradientConfig query;
  auto check = [](const AttentionPlan &plan,
                  const std::vector<KernelConfig> &configs) {
    REQUIRE(plan.launches.size() == configs.size());
    for (size_t i = 0; i < configs.size(); ++i) {
      const AttentionLaunch &launch = plan.launches[i];
      INFO("kernel " << int(launch.kernel));
      CHECK(getSignature(launch) ==
            getSignature(lower(getBuild(launch.kernel, configs[i]))));
      CHECK(launch.gridBlocks > 0);
      for (const LaunchParameter &parameter : launch.parameters)
        if (parameter.kind == LaunchParameter::Kind::Scratch)
          CHECK(plan.scratchBytes.count(parameter.scratch) == 1);
    }
  };
  check(planForward(forward, size, strides, 0.125f, 4), {forward, forward});
  check(planBackward(backward, size, strides, 0.125f, 4),
        {backward, backward, backward});
  check(planBackward(query, rest, size, strides, 0.125f, 4), {query, rest});
  strides[AttentionTensor::Mask] = {300, 0, 90000};
  forward.keyBias = false;
  for (TensorMask mask : {TensorMask::Boolean, TensorMask::Added}) {
    forward.tensorMask = backward.tensorMask = mask;
    rest.tensorMask = query.tensorMask = mask;
    check(planForward(forward, size, strides, 0.125f, 4), {forward, forward});
    check(planBackward(backward, size, strides, 0.125f, 4),
          {backward, backward, backward, backward});
    check(planBackward(query, rest, size, strides, 0.125f, 4),
          {query, query, rest, rest});
  }
}

namespace {
/// The numbers that follow the scratch of a launch, up to a kind of parameter.
std::vector<int64_t> getNumbers(const AttentionLaunch &launch,
                                AttentionScratch scratch) {
  using Kind = LaunchParameter::Kind;
  std::vector<int64_t> numbers;
  bool found = false;
  for (const LaunchParameter &parameter : launch.parameters) {
    if (found &&
        (parameter.kind == Kind::Number || parameter.kind == Kind::Wide))
      numbers.push_back(parameter.number);
    found |= parameter.kind == Kind::Scratch && parameter.scratch == scratch;
  }
  return numbers;
}
} // namespace

TEST_CASE("a mask over queries and keys is planned as pieces of 64 by 64") {
  AttentionSize size;
  size.batch = 3;
  size.queryHeads = size.keyHeads = 5;
  size.queries = 130;
  size.keys = 300;
  AttentionStrides strides;
  for (int tensor = 0; tensor <= int(AttentionTensor::ValueGradient); ++tensor)
    strides[AttentionTensor(tensor)] = {64, 300 * 64, 5 * 300 * 64};
  // Shared by the heads; one byte an element.
  strides[AttentionTensor::Mask] = {300, 0, 39000, 1};
  CHECK(checkStrides(strides).empty());
  ForwardConfig forward;
  forward.tensorMask = TensorMask::Boolean;
  AttentionPlan plan = planForward(forward, size, strides, 0.125f, 4);
  REQUIRE(plan.launches.size() == 2);
  auto pieces = AttentionScratch::MaskPieces;
  // 130 queries take 2 tiles of 128, 300 keys 3 blocks of 128.
  CHECK(getNumbers(plan.launches[0], pieces) ==
        std::vector<int64_t>{130, 300, 4, 6, 1, 300, 1, 0, 39000});
  CHECK(plan.launches[0].gridBlocks == 3 * 4 * 6);
  CHECK(plan.scratchBytes[pieces] == 3 * 4 * 6 * 128 * 4);
  CHECK(getNumbers(plan.launches[1], pieces) == std::vector<int64_t>{6, 0, 24});
  // Backward has rows of keys and columns of queries. Shared by the batch.
  strides[AttentionTensor::Mask] = {300, 39000, 0, 1};
  BackwardConfig backward = getBackwardConfig(128, Mask::Full, false);
  backward.tensorMask = TensorMask::Added;
  plan = planBackward(backward, size, strides, 0.125f, 4);
  REQUIRE(plan.launches.size() == 4);
  CHECK(getNumbers(plan.launches[1], pieces) ==
        std::vector<int64_t>{300, 130, 6, 3, 5, 1, 300, 39000, 0});
  CHECK(plan.scratchBytes[pieces] == 5 * 6 * 3 * 128 * 128);
  CHECK(getNumbers(plan.launches[2], pieces) == std::vector<int64_t>{3, 18, 0});
}

TEST_CASE("a key mask that all of the batch share has a stride of 0") {
  AttentionSize size;
  size.batch = 2;
  size.keys = 50;
  AttentionStrides strides;
  for (int tensor = 0; tensor <= int(AttentionTensor::ValueGradient); ++tensor)
    strides[AttentionTensor(tensor)] = {64, 64, 64};
  ForwardConfig forward;
  forward.keyBias = true;
  auto getStride = [&] {
    AttentionPlan plan = planForward(forward, size, strides, 1, 4);
    return getNumbers(plan.launches[0], AttentionScratch::KeyBias).back();
  };
  CHECK(getStride() == 50);
  strides[AttentionTensor::KeyMask] = {};
  CHECK(getStride() == 0);
}

TEST_CASE("attention tensors whose rows are not 16 bytes apart are refused") {
  AttentionStrides strides;
  strides[AttentionTensor::Query] = {68, 640, 640};
  CHECK(checkStrides(strides) == "expected strides that are multiples of 8 "
                                 "elements, but got 68");
}
