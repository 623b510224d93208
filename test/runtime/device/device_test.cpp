// What every device must do.
#include "runtime/support/philox.h"
#include "test/runtime/device/device_under_test.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;

using artifact::LibraryKernel;
using artifact::ScalarKind;

TEST_CASE("the arena starts as zeros and keeps what is written") {
  PlanBuilder plan;
  int64_t offset = plan.allocate(5000);
  TestSession session(plan);
  CHECK(session->deviceOf().arenaBytes() == 5120);
  CHECK(session->deviceOf().memory()[0].bytes == 5120);
  CHECK(session.read<char>(offset, 5000) == std::vector<char>(5000, 0));
  std::vector<char> odd = {1, 2, 3, 4, 5, 6, 7};
  session.write(offset + 13, odd);
  CHECK(session.read<char>(offset + 13, 7) == odd);
  CHECK(session.read<char>(offset + 12, 1)[0] == 0);
  CHECK(session.read<char>(offset + 20, 1)[0] == 0);
}

TEST_CASE("a poisoned arena is NaN in every type") {
  PlanBuilder plan;
  plan.allocate(4096);
  SessionOptions options;
  options.poison = true;
  TestSession session(plan, options);
  for (float value : session.read<float>(0, 1024))
    REQUIRE(std::isnan(value));
  CHECK(std::isnan(session.read<double>(4088, 1)[0]));
}

TEST_CASE("parameters get their first values") {
  PlanBuilder plan;
  for (auto kind : {artifact::InitKind::Ones, artifact::InitKind::Normal}) {
    auto tensor = std::make_unique<artifact::TensorT>();
    tensor->name = artifact::EnumNameInitKind(kind);
    tensor->shape = {elementCount};
    tensor->bytes = elementCount * 4;
    tensor->offset = plan.allocate(tensor->bytes);
    tensor->init = std::make_unique<artifact::InitRuleT>();
    tensor->init->kind = kind;
    tensor->init->b = 1;
    plan.plan.tensors.push_back(std::move(tensor));
  }
  SessionOptions options;
  options.poison = true;
  TestSession session(plan, options);
  CHECK(session.read<float>(0, elementCount) ==
        std::vector<float>(elementCount, 1));
  double sum = 0, squares = 0;
  for (float value : session.read<float>(4096, elementCount)) {
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / elementCount) < 0.1);
  CHECK(squares / elementCount == Approx(1).margin(0.15));
}

TEST_CASE("large parameters arrive whole, and what has no rule is zero") {
  PlanBuilder plan;
  // Drawn, state, drawn: more than is sent at once, and odd sizes.
  constexpr int64_t sizes[] = {(5 << 20) + 13, (3 << 20) + 1, 12345};
  std::vector<int64_t> offsets;
  for (int64_t size : sizes) {
    auto tensor = std::make_unique<artifact::TensorT>();
    tensor->name = "t" + std::to_string(size);
    tensor->shape = {size};
    tensor->bytes = size * 4;
    tensor->offset = plan.allocate(tensor->bytes);
    offsets.push_back(tensor->offset);
    if (size == sizes[1]) {
      tensor->role = artifact::TensorRole::OptimizerState;
    } else {
      tensor->init = std::make_unique<artifact::InitRuleT>();
      tensor->init->kind = artifact::InitKind::Normal;
      tensor->init->a = 3;
      tensor->init->b = 0.5;
    }
    plan.plan.tensors.push_back(std::move(tensor));
  }
  SessionOptions options;
  options.poison = true;
  options.seed = 7;
  TestSession session(plan, options);
  auto wrong = [&](size_t i) {
    uint64_t stream = streamOf("t" + std::to_string(sizes[i]));
    int64_t count = 0, at = 0;
    for (float value : session.read<float>(offsets[i], sizes[i])) {
      double expected =
          i == 1 ? 0 : 3 + 0.5 * normalAt(7, stream, uint64_t(at));
      count += !(std::abs(value - expected) <= (i == 1 ? 0 : 2e-6));
      ++at;
    }
    return count;
  };
  for (size_t i : {0, 1, 2})
    CHECK(wrong(i) == 0);
}

TEST_CASE("inputs and scalars reach a program, metrics return, step by step") {
  PlanBuilder plan;
  int64_t x = plan.allocate(elementCount * 4), lr = plan.allocate(4),
          out = plan.allocate(elementCount * 4);
  plan.input("x", x);
  plan.scalar("lr", ScalarKind::Hyperparameter, lr);
  plan.scalar("loss", ScalarKind::Metric, out + 4 * 999);
  uint32_t scale = plan.generated("scale");
  plan.add(plan.launch(scale, {plan.at(x), plan.at(lr, 4), plan.at(out)}));
  for (bool graph : {true, false}) {
    SessionOptions options;
    options.graph = graph;
    TestSession session(plan, options);
    Executor &executor = session->executorOf();
    const artifact::ProgramT &program = *session->program("step");
    auto fill = [&](float value) {
      std::vector<float> values = ramp(value);
      std::memcpy(session->place(program, *program.inputs[0]), values.data(),
                  values.size() * 4);
      REQUIRE(executor.stage(program).ok());
    };
    fill(1);
    for (int step = 0; step < 4; ++step) {
      session->hyperparametersOf().values["lr"] = step + 0.5;
      INFO("step " << step << ", graph " << graph);
      REQUIRE(session->startSteps(step).ok());
      if (executor.copiesAhead())
        fill(float(step + 2)); // while the step may still run
      auto metrics = session->finishSteps();
      REQUIRE(metrics.ok());
      if (!executor.copiesAhead())
        fill(float(step + 2));
      CHECK(metrics->front().loss == 999 * (step + 1) * (step + 0.5));
      CHECK(session.read<float>(out, elementCount) ==
            ramp(float((step + 1) * (step + 0.5))));
    }
  }
}

TEST_CASE("several runs of a launch have inputs, scalars and metrics each") {
  PlanBuilder plan;
  int64_t x = plan.allocate(elementCount * 4), one = plan.allocate(4),
          rng = plan.allocate(16), sum = plan.allocate(elementCount * 4);
  plan.input("x", x);
  plan.scalar("one", ScalarKind::Hyperparameter, one);
  plan.scalar("rng", ScalarKind::Rng, rng);
  plan.program().scalars.back()->dtype = artifact::DType::I64;
  plan.program().scalars.back()->count = 2;
  plan.scalar("loss", ScalarKind::Metric, sum + 4);
  uint32_t accumulate = plan.generated("accumulate");
  plan.add(plan.launch(accumulate, {plan.at(x), plan.at(sum)}));
  int64_t runs = deviceKind == "cuda" ? 3 : 1;
  for (bool graph : {true, false}) {
    SessionOptions options;
    options.stepsPerLaunch = runs;
    options.graph = graph;
    TestSession session(plan, options);
    const artifact::ProgramT &program = *session->program("step");
    float expected = 0;
    // Twice as many as asked for, then fewer: another graph.
    for (int64_t first : {int64_t(0), runs, 2 * runs}) {
      int64_t count = first < 2 * runs ? runs : 1;
      for (int64_t run = 0; run < count; ++run) {
        std::vector<float> values = ramp(float(first + run + 1));
        std::memcpy(session->place(program, *program.inputs[0], run),
                    values.data(), values.size() * 4);
      }
      REQUIRE(session->executorOf().stage(program, count).ok());
      REQUIRE(session->startSteps(first, count).ok());
      auto metrics = session->finishSteps(count);
      REQUIRE(metrics.ok());
      for (int64_t run = 0; run < count; ++run) {
        expected += float(first + run + 1);
        CHECK((*metrics)[size_t(run)].loss == expected);
      }
      CHECK(session.read<int64_t>(rng, 2)[1] == first + count - 1);
    }
    CHECK(session.read<float>(sum, elementCount) == ramp(expected));
  }
}

TEST_CASE("a segmented launch does every item of every segment once") {
  PlanBuilder plan;
  uint32_t update = plan.generated("update", true);
  auto launch = plan.launch(update, {}, 0);
  auto &segments = launch->operation.AsLaunch()->segments;
  segments.clear();
  const int64_t sizes[] = {1, 0, 1000, 256, 4097};
  for (int64_t size : sizes) {
    int64_t bytes = std::max<int64_t>(4 * size, 4);
    segments.push_back(std::make_unique<artifact::SegmentT>());
    segments.back()->arguments = {plan.at(plan.allocate(bytes), bytes),
                                  plan.at(plan.allocate(bytes), bytes)};
    segments.back()->work_items = size;
  }
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const auto &segment : segments)
    places.emplace_back(segment->arguments[0].offset(),
                        segment->arguments[1].offset());
  plan.add(std::move(launch));
  TestSession session(plan);
  for (size_t i = 0; i < places.size(); ++i) {
    session.write(places[i].first, ramp(3, sizes[i]));
    session.write(places[i].second, ramp(1, sizes[i]));
  }
  session.step();
  for (size_t i = 0; i < places.size(); ++i)
    CHECK(session.read<float>(places[i].first, sizes[i]) == ramp(2, sizes[i]));
}

TEST_CASE("a loop moves operands by their strides, and repeats exactly") {
  PlanBuilder plan;
  constexpr int64_t bytes = elementCount * 4, count = 5;
  int64_t in = plan.allocate(count * bytes), sum = plan.allocate(bytes);
  uint32_t fill = plan.library(LibraryKernel::Fill);
  plan.attribute("bytes", std::vector<int64_t>{bytes});
  uint32_t accumulate = plan.generated("accumulate");
  plan.add(plan.launch(fill, {plan.at(sum)}));
  artifact::LoopT loop;
  loop.count = count;
  loop.body.push_back(
      plan.launch(accumulate, {plan.at(in, bytes, bytes), plan.at(sum)}));
  auto instruction = std::make_unique<artifact::InstructionT>();
  instruction->operation.Set(std::move(loop));
  plan.add(std::move(instruction));
  SessionOptions options;
  options.poison = true;
  TestSession session(plan, options);
  for (int64_t i = 0; i < count; ++i)
    session.write(in + i * bytes, ramp(float(1 << i)));
  for (int step = 0; step < 3; ++step) {
    session.step(step);
    CHECK(session.read<float>(sum, elementCount) == ramp((1 << count) - 1));
  }
}

TEST_CASE("copy and fill change their bytes and no others") {
  PlanBuilder plan;
  int64_t from = plan.allocate(1024), to = plan.allocate(1024);
  uint32_t copy = plan.library(LibraryKernel::Copy);
  plan.attribute("bytes", std::vector<int64_t>{37});
  uint32_t fill = plan.library(LibraryKernel::Fill);
  plan.attribute("bytes", std::vector<int64_t>{11});
  plan.attribute("byte", std::vector<int64_t>{0xab});
  plan.add(plan.launch(copy, {plan.at(from + 3, 37), plan.at(to + 5, 37)}));
  plan.add(plan.launch(fill, {plan.at(to + 100, 11)}));
  TestSession session(plan);
  std::vector<uint8_t> source, expected(1024, 7);
  for (int i = 0; i < 1024; ++i)
    source.push_back(uint8_t(i));
  session.write(from, source);
  session.write(to, expected);
  session.step();
  std::copy_n(source.begin() + 3, 37, expected.begin() + 5);
  std::fill_n(expected.begin() + 100, 11, 0xab);
  CHECK(session.read<uint8_t>(to, 1024) == expected);
  CHECK(session.read<uint8_t>(from, 1024) == source);
}

TEST_CASE("a collective of one rank copies from input to output") {
  PlanBuilder plan;
  int64_t in = plan.allocate(elementCount * 4),
          out = plan.allocate(elementCount * 4), lr = plan.allocate(4);
  uint32_t scale = plan.generated("scale");
  plan.scalar("lr", ScalarKind::Hyperparameter, lr);
  auto communicator = std::make_unique<artifact::CommunicatorT>();
  communicator->groups.push_back(std::make_unique<artifact::RankGroupT>());
  communicator->groups[0]->ranks = {0};
  plan.plan.communicators.push_back(std::move(communicator));
  artifact::CollectiveStartT start;
  start.id = 3;
  start.name = "sums";
  start.inputs = {plan.at(in)};
  start.outputs = {plan.at(out)};
  artifact::CollectiveWaitT wait;
  wait.id = 3;
  auto first = std::make_unique<artifact::InstructionT>(),
       second = std::make_unique<artifact::InstructionT>();
  first->operation.Set(std::move(start));
  second->operation.Set(std::move(wait));
  // Before it and after it, so that both orders between streams matter.
  plan.add(plan.launch(scale, {plan.at(in), plan.at(lr, 4), plan.at(in)}));
  plan.add(std::move(first));
  plan.add(std::move(second));
  plan.add(plan.launch(scale, {plan.at(out), plan.at(lr, 4), plan.at(out)}));
  TestSession session(plan);
  session->hyperparametersOf().values["lr"] = 2;
  session.write(in, ramp(1));
  session.step();
  CHECK(session.read<float>(in, elementCount) == ramp(2));
  CHECK(session.read<float>(out, elementCount) == ramp(4));
}

TEST_CASE("a profile counts every kernel and gives the same results") {
  PlanBuilder plan;
  int64_t in = plan.allocate(elementCount * 4),
          out = plan.allocate(elementCount * 4);
  uint32_t accumulate = plan.generated("accumulate");
  for (int i = 0; i < 3; ++i)
    plan.add(plan.launch(accumulate, {plan.at(in), plan.at(out)}));
  TestSession session(plan);
  session.write(in, ramp(1));
  Profile profile;
  session->executorOf().setProfile(&profile);
  session.step(0);
  session->executorOf().setProfile(nullptr);
  session.step(1);
  CHECK(session.read<float>(out, elementCount) == ramp(6));
  INFO(profile.table());
  CHECK(profile.table().find("       3 ") != std::string::npos);
  CHECK(profile.table().find("k_accumulate") != std::string::npos);
}
