#include "runtime/executor/program_memory.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::runtime;

TEST_CASE("scalars are copied together where nothing lies between them") {
  artifact::PlanT plan;
  artifact::ProgramT program;
  auto scalar = [&](int64_t offset, artifact::ScalarKind kind) {
    program.scalars.push_back(std::make_unique<artifact::ScalarT>());
    program.scalars.back()->offset = offset;
    program.scalars.back()->kind = kind;
  };
  using Kind = artifact::ScalarKind;
  for (int64_t offset : {256, 0, 64, 512})
    scalar(offset, Kind::Hyperparameter);
  auto text = [&] {
    std::string result;
    for (const PlacedRange &range : scalarRanges(plan, program))
      result += std::to_string(range.offset) + "+" +
                std::to_string(range.bytes) + " ";
    return result;
  };
  CHECK(text() == "0+516 ");
  scalar(128, Kind::Metric);
  CHECK(text() == "0+68 256+260 ");
  auto tensor = std::make_unique<artifact::TensorT>();
  tensor->offset = 300;
  tensor->bytes = 4;
  plan.tensors.push_back(std::move(tensor));
  CHECK(text() == "0+68 256+4 512+4 ");
  // A temporary that a loop moves into the gap.
  artifact::LaunchT launch;
  launch.segments.push_back(std::make_unique<artifact::SegmentT>());
  launch.segments[0]->arguments = {artifact::Operand(1000, 4, -482)};
  artifact::LoopT loop;
  loop.count = 3;
  loop.body.push_back(std::make_unique<artifact::InstructionT>());
  loop.body[0]->operation.Set(std::move(launch));
  program.instructions.push_back(std::make_unique<artifact::InstructionT>());
  program.instructions[0]->operation.Set(std::move(loop));
  CHECK(text() == "0+4 64+4 256+4 512+4 ");
}
