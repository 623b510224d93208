#include "runtime/artifact/artifact_reader.h"
#include "runtime/artifact/describe.h"
#include "runtime/artifact/plan_check.h"
#include "test/runtime/toy/toy_model.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>
#include <map>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

static void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Opens and reads everything; the first error.
static Status readWhole(const std::string &path) {
  auto reader = ArtifactReader::open(path);
  if (!reader.ok())
    return std::move(reader).status();
  return (*reader)->verifyWeights();
}

TEST_CASE("an artifact is read as it was written") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  ToyOptions options{2, 2};
  REQUIRE(writeToy(options, path).ok());
  auto reader = ArtifactReader::open(path);
  INFO(reader.status().toString());
  REQUIRE(reader.ok());
  CHECK((*reader)->plan().model == "toy");
  CHECK((*reader)->plan().ranks == 2);
  CHECK((*reader)->compilerVersion() == "0.1.0-test");
  REQUIRE((*reader)->code().size() == 1);
  CHECK((*reader)->code()[0].target == "x86-64-v3");
  CHECK((*reader)->code()[0].object.substr(1, 3) == "ELF");
  auto bytes = (*reader)->weightBytes(*(*reader)->plan().tensors[0]->weight);
  REQUIRE(bytes.size() == 20);
  CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0);
  CHECK(reinterpret_cast<const float *>(bytes.data())[4] == 4.0f);
  CHECK((*reader)->verifyWeights().ok());
}

TEST_CASE("the same plan gives the same bytes") {
  TemporaryFolder folder;
  REQUIRE(writeToy({2, 2}, folder.path + "/a").ok());
  REQUIRE(writeToy({2, 2}, folder.path + "/b").ok());
  CHECK(readFile(folder.path + "/a") == readFile(folder.path + "/b"));
}

TEST_CASE("any changed byte is found and named") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  REQUIRE(writeToy({2, 2}, path).ok());
  std::string good = readFile(path), changed = path + ".changed";
  std::map<std::string, int> kinds;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ (1 << i % 8));
    writeFile(changed, bad);
    Status status = readWhole(changed);
    INFO("byte " << i);
    REQUIRE(!status.ok());
    REQUIRE(status.exitCode() == 1);
    std::string what = status.what();
    kinds[what.substr(0, what.find(" ("))]++;
  }
  CHECK(kinds["section 'plan' does not match its hash: the file is damaged"] >
        1000);
  CHECK(kinds["section 'code.x86-64-v3' does not match its hash: the file is "
              "damaged"] > 1000);
  CHECK(kinds["section 'weights'"] == 20);
  CHECK(kinds["not a lockstep artifact"] == 8);
}

TEST_CASE("a changed weight is named") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  REQUIRE(writeToy({}, path).ok());
  std::string bytes = readFile(path);
  bytes.back() ^= 1;
  writeFile(path, bytes);
  CHECK(readWhole(path).toString() ==
        path + ": section 'weights' (tensor 'w') does not match its hash: the "
               "file is damaged; copy it again from where it was made, or "
               "compile again");
}

TEST_CASE("a file cut at any length is refused") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  REQUIRE(writeToy({}, path).ok());
  std::string good = readFile(path);
  for (size_t size = 0; size < good.size(); size += 1 + size / 16) {
    writeFile(path, good.substr(0, size));
    CHECK(!readWhole(path).ok());
  }
  writeFile(path, good + "x");
  CHECK(!readWhole(path).ok());
}

TEST_CASE("another format version is one clear error") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  REQUIRE(writeToy({}, path).ok());
  std::string bytes = readFile(path);
  bytes[8] = 99;
  writeFile(path, bytes);
  CHECK(readWhole(path).toString() ==
        path + ": artifact format version 99, but this program reads version " +
            std::to_string(formatVersion) +
            "; compile the model again with this version of lockstep-compile");
}

TEST_CASE("an output that cannot be written is an error") {
  CHECK(writeToy({}, "/nowhere/toy.lockstep").exitCode() == 1);
  CHECK(writeToy({}, "/dev/full").exitCode() == 1);
}

TEST_CASE("inconsistent plans are refused, each by its rule") {
  auto check = [](auto change) {
    artifact::PlanT plan = toyPlan({2, 2});
    REQUIRE(checkPlan(plan).ok());
    change(plan);
    return checkPlan(plan).what().substr(0, 2);
  };
  using artifact::Operand;
  auto &&first = [](artifact::PlanT &plan) -> artifact::LaunchT & {
    return *plan.programs[0]->instructions[0]->operation.AsLaunch();
  };
  auto &&loop = [](artifact::PlanT &plan) -> artifact::LoopT & {
    return *plan.programs[0]->instructions[1]->operation.AsLoop();
  };
  auto &&start = [](artifact::PlanT &plan) -> artifact::CollectiveStartT & {
    return *plan.programs[0]->instructions[2]->operation.AsCollectiveStart();
  };
  CHECK(check([&](auto &plan) {
          first(plan).segments[0]->arguments[0] = Operand(-4, 4, 0);
        }) == "P1");
  CHECK(check([&](auto &plan) { loop(plan).count = 1000; }) == "P1");
  CHECK(check([&](auto &plan) { plan.tensors[0]->offset = 1 << 30; }) == "P1");
  CHECK(check([&](auto &plan) { first(plan).kernel = 99; }) == "P2");
  CHECK(check([&](auto &plan) { plan.kernels[0]->symbol = ""; }) == "P2");
  CHECK(check([&](auto &plan) { start(plan).communicator = 1; }) == "P2");
  CHECK(check([&](auto &plan) { start(plan).id = 9; }) == "P3");
  CHECK(check([&](auto &plan) {
          plan.programs[0]->instructions.erase(
              plan.programs[0]->instructions.begin() + 3);
        }) == "P3");
  CHECK(check([&](auto &plan) { start(plan).outputs.clear(); }) == "P4");
  CHECK(check([&](auto &plan) {
          start(plan).kind = artifact::CollectiveKind::AllGather;
        }) == "P4");
  CHECK(check([&](auto &plan) {
          plan.communicators[0]->groups[0]->ranks[1] = 0;
        }) == "P5");
  CHECK(check([&](auto &plan) { plan.tensors[1]->name = "w_tied"; }) == "P6");
  CHECK(check([&](auto &plan) { plan.programs.clear(); }) == "P6");
  CHECK(check([&](auto &plan) {
          plan.programs[0]->inputs[0]->global_shape[0] = 9;
        }) == "P7");
  auto &&toCuda = [](artifact::PlanT &plan) {
    for (auto &kernel : plan.kernels)
      if (kernel->library == artifact::LibraryKernel::None)
        kernel->threads = 128;
  };
  CHECK(check([&](auto &plan) { toCuda(plan); }) == "");
  CHECK(check([&](auto &plan) { plan.kernels[0]->threads = 128; }) == "P8");
  CHECK(check([&](auto &plan) { plan.kernels[0]->shared_bytes = 4; }) == "P8");
  CHECK(check([&](auto &plan) { plan.kernels[4]->threads = 128; }) == "P8");
  CHECK(check([&](auto &plan) {
          toCuda(plan);
          plan.kernels[0]->threads = 1025;
        }) == "P8");
  CHECK(check([&](auto &plan) {
          toCuda(plan);
          plan.kernels[0]->items_per_block = 0;
        }) == "P8");
  auto &&twoSegments = [&](artifact::PlanT &plan) {
    toCuda(plan);
    auto &segments = first(plan).segments;
    first(plan).kernel = 0;
    segments.push_back(std::make_unique<artifact::SegmentT>(*segments.front()));
  };
  CHECK(check([&](auto &plan) { twoSegments(plan); }) == "");
  CHECK(check([&](auto &plan) {
          twoSegments(plan);
          first(plan).segments[1]->work_items = 2;
        }) == "P8");
  CHECK(check([&](auto &plan) {
          twoSegments(plan);
          plan.kernels[0]->segmented = true;
          first(plan).segments[1]->arguments.clear();
        }) == "P8");
}

/// The rule that a plan breaks whose first launch is of a CUDA kernel with this
/// parameter.
template <typename Change> static std::string checkParameter(Change change) {
  artifact::PlanT plan = toyPlan({2, 2});
  for (auto &kernel : plan.kernels)
    if (kernel->library == artifact::LibraryKernel::None)
      kernel->threads = 128;
  plan.programs[0]->instructions[0]->operation.AsLaunch()->kernel = 0;
  artifact::KernelT &kernel = *plan.kernels[0];
  kernel.parameters.push_back(std::make_unique<artifact::KernelParameterT>());
  change(kernel, *kernel.parameters.back());
  return checkPlan(plan).what().substr(0, 2);
}

TEST_CASE("parameters of kernels stay inside of what they name") {
  using artifact::ParameterKind;
  using Kernel = artifact::KernelT;
  using Parameter = artifact::KernelParameterT;
  auto map = [](Parameter &parameter, int64_t rows) {
    parameter.kind = ParameterKind::TensorMap;
    parameter.dtype = artifact::DType::F32;
    parameter.dims = {1, rows};
    parameter.strides = {4};
    parameter.box = {1, 1};
  };
  CHECK(checkParameter([](Kernel &, Parameter &) {}) == "");
  CHECK(checkParameter([](Kernel &, Parameter &p) { p.operand = 99; }) == "P9");
  CHECK(checkParameter([](Kernel &, Parameter &p) { p.byte_offset = -4; }) ==
        "P9");
  CHECK(checkParameter([&](Kernel &, Parameter &p) { map(p, 2); }) == "");
  CHECK(checkParameter([&](Kernel &, Parameter &p) { map(p, 1 << 20); }) ==
        "P9");
  CHECK(checkParameter([&](Kernel &, Parameter &p) {
          map(p, 2);
          p.strides.clear();
        }) == "P9");
  CHECK(checkParameter([](Kernel &kernel, Parameter &p) {
          p.kind = ParameterKind::Constant;
          p.bytes = 4;
          kernel.constants.resize(3);
        }) == "P9");
  CHECK(checkParameter([](Kernel &, Parameter &p) {
          p.kind = ParameterKind::Scratch;
          p.offset = -1;
        }) == "P9");
  CHECK(checkParameter([](Kernel &, Parameter &p) {
          p.kind = ParameterKind::Int32;
          p.value = int64_t(1) << 31;
        }) == "P9");
  CHECK(checkParameter([](Kernel &kernel, Parameter &) {
          kernel.grid = 3;
          kernel.cluster = 2;
        }) == "P9");
  CHECK(checkParameter([](Kernel &kernel, Parameter &) {
          kernel.segmented = true;
        }) == "P9");
  CHECK(checkParameter([](Kernel &kernel, Parameter &) {
          kernel.parameters.clear();
          kernel.overlap = true;
        }) == "P9");
}

TEST_CASE("an artifact is described part by part") {
  TemporaryFolder folder;
  std::string path = folder.path + "/toy.lockstep";
  REQUIRE(writeToy({2, 2}, path).ok());
  auto reader = ArtifactReader::open(path);
  REQUIRE(reader.ok());
  std::string text = describeArtifact(**reader);
  INFO(text);
  for (const char *part :
       {"model     toy: 2 ranks, global batch 8",
        "parameters 5 (tied once), decayed 0, not decayed 5",
        "k_toy_errors  generated", "toy.py:7", "tied with w_tied",
        "loop    2 times", "start   #7 AllReduce Sum F32 24 B on 'data' (sums)",
        "wait    #7", "OptimizerState momentum_buffer.w"})
    CHECK(text.find(part) != std::string::npos);
}
