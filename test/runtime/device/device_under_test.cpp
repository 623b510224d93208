#include "test/runtime/device/device_under_test.h"
#include "runtime/artifact/artifact_writer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::runtime::testing {

using namespace artifact;

std::string deviceKind = "host", kernelFolder = DEVICE_KERNELS;

PlanBuilder::PlanBuilder() {
  plan.model = "device suite";
  plan.ranks = 1;
  plan.global_batch = elementCount;
  plan.optimizer = "none";
  plan.programs.push_back(std::make_unique<ProgramT>());
  program().name = "step";
}

int64_t PlanBuilder::allocate(int64_t bytes) {
  int64_t offset = end;
  end += (bytes + 255) / 256 * 256;
  program().arena_bytes = end;
  return offset;
}

uint32_t PlanBuilder::generated(const std::string &symbol, bool segmented) {
  auto kernel = std::make_unique<KernelT>();
  kernel->name = "k_" + symbol;
  kernel->symbol = symbol;
  kernel->bytes = double(8 * elementCount);
  if (deviceKind == "cuda") {
    kernel->threads = threadsPerBlock;
    kernel->items_per_block = itemsPerBlock;
    kernel->segmented = segmented;
  }
  plan.kernels.push_back(std::move(kernel));
  return uint32_t(plan.kernels.size() - 1);
}

uint32_t PlanBuilder::library(LibraryKernel kind) {
  auto kernel = std::make_unique<KernelT>();
  kernel->name = std::string("k_") + EnumNameLibraryKernel(kind);
  kernel->library = kind;
  plan.kernels.push_back(std::move(kernel));
  return uint32_t(plan.kernels.size() - 1);
}

static AttributeT &addAttribute(PlanT &plan, const std::string &name) {
  auto &attributes = plan.kernels.back()->attributes;
  attributes.push_back(std::make_unique<AttributeT>());
  attributes.back()->name = name;
  return *attributes.back();
}

void PlanBuilder::attribute(const std::string &name,
                            std::vector<int64_t> ints) {
  addAttribute(plan, name).ints = std::move(ints);
}

void PlanBuilder::attribute(const std::string &name, double value) {
  addAttribute(plan, name).doubles = {value};
}

void PlanBuilder::attribute(const std::string &name, const std::string &text) {
  addAttribute(plan, name).text = text;
}

void PlanBuilder::input(const std::string &name, int64_t offset) {
  auto input = std::make_unique<InputT>();
  input->name = name;
  input->global_shape = input->local_shape = {elementCount};
  input->bytes = elementCount * 4;
  input->offset = offset;
  program().inputs.push_back(std::move(input));
}

void PlanBuilder::scalar(const std::string &name, ScalarKind kind,
                         int64_t offset) {
  auto scalar = std::make_unique<ScalarT>();
  scalar->name = name;
  scalar->kind = kind;
  scalar->offset = offset;
  program().scalars.push_back(std::move(scalar));
}

std::unique_ptr<InstructionT> PlanBuilder::launch(uint32_t kernel,
                                                  std::vector<Operand> operands,
                                                  int64_t items) {
  LaunchT launch;
  launch.kernel = kernel;
  launch.segments.push_back(std::make_unique<SegmentT>());
  launch.segments[0]->arguments = std::move(operands);
  launch.segments[0]->work_items = items;
  auto instruction = std::make_unique<InstructionT>();
  instruction->operation.Set(std::move(launch));
  return instruction;
}

void PlanBuilder::add(std::unique_ptr<InstructionT> instruction) {
  program().instructions.push_back(std::move(instruction));
}

static std::string cubinPath(const std::string &target) {
  return kernelFolder + "/device_kernels." + target + ".cubin";
}

static std::string contentsOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> cubinTargets() {
  std::vector<std::string> targets;
  for (const char *target : {"sm_80", "sm_90a", "sm_100a"})
    if (std::filesystem::exists(cubinPath(target)))
      targets.push_back(target);
  return targets;
}

static void addCode(ArtifactWriter &writer) {
  if (deviceKind != "cuda")
    writer.addCode("x86-64-v3",
                   contentsOf(kernelFolder + "/libdevice_kernels.so"));
  else
    for (const std::string &target : cubinTargets())
      writer.addCode(target, contentsOf(cubinPath(target)));
}

void TestSession::require(const Status &status) {
  INFO(status.toString());
  REQUIRE(status.ok());
}

TestSession::TestSession(PlanBuilder &builder, SessionOptions options) {
  std::string name =
      (std::filesystem::temp_directory_path() / "lockstep-device-XXXXXX")
          .string();
  folder = mkdtemp(name.data());
  std::string path = folder + "/plan.lockstep";
  ArtifactWriter writer("0.1.0-test");
  addCode(writer);
  require(writer.write(builder.plan, path));
  auto opened = ArtifactReader::open(path);
  require(opened.status());
  artifact = std::move(*opened);
  collectives = createSingleRank();
  auto made =
      Session::create(*artifact, *collectives,
                      Hyperparameters::defaultsOf(artifact->plan()), options);
  require(made.status());
  session = std::move(*made);
  require(session->initialize());
}

TestSession::~TestSession() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

StepMetrics TestSession::step(int64_t number) {
  require(session->startSteps(number));
  auto metrics = session->finishSteps();
  require(metrics.status());
  return metrics->front();
}

std::vector<float> ramp(float factor, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float(i) * factor);
  return values;
}

} // namespace lockstep::runtime::testing
