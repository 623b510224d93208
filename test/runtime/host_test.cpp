#include "runtime/comm/collectives.h"
#include "runtime/comm/socket.h"
#include "runtime/device/host/arena.h"
#include "runtime/device/host/cpu_features.h"
#include "runtime/device/host/parallel.h"
#include "runtime/executor/schedule.h"
#include "runtime/support/half.h"
#include "runtime/support/philox.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <sys/socket.h>

using namespace lockstep;
using namespace lockstep::runtime;

TEST_CASE("the arena is aligned, and zero or poisoned") {
  auto zero = Arena::create(1000, false);
  REQUIRE(zero.ok());
  CHECK(reinterpret_cast<uintptr_t>(zero->base()) % (2 << 20) == 0);
  CHECK(*zero->at<float>(996) == 0);
  auto poisoned = Arena::create(1000, true);
  REQUIRE(poisoned.ok());
  for (int64_t i = 0; i < 1000; i += 4)
    CHECK(std::isnan(*poisoned->at<float>(i)));
  CHECK(std::isnan(*poisoned->at<double>(992)));
  CHECK(Arena::create(int64_t(1) << 62, false).status().exitCode() == 1);
}

TEST_CASE("a cleared part of the arena is zero, and no more than it") {
  constexpr int64_t size = 9 << 20;
  auto arena = Arena::create(size, true);
  REQUIRE(arena.ok());
  auto wrong = [&](int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t i = 0; i < size; ++i)
      count += arena->base()[i] != std::byte(i >= begin && i < end ? 0 : 0xff);
    return count;
  };
  // Nothing, within a block of 2 MiB, over its border, and whole blocks.
  for (auto [begin, end] : {std::pair<int64_t, int64_t>(77, 77),
                            {1000, 5000},
                            {(2 << 20) - 3, (2 << 20) + 5},
                            {2 << 20, 4 << 20},
                            {100, size - 100},
                            {0, size}}) {
    std::memset(arena->base(), 0xff, size);
    arena->clear(begin, end - begin);
    CHECK(wrong(begin, end) == 0);
  }
}

TEST_CASE("the parallel loop runs every chunk once, also when nested") {
  std::vector<std::atomic<int>> counts(1000);
  parallelFor(100, [&](int64_t outer) {
    parallelFor(10, [&](int64_t inner) { counts[outer * 10 + inner]++; });
  });
  for (const auto &count : counts)
    CHECK(count == 1);
}

TEST_CASE("the best code that this processor runs is chosen") {
  std::vector<CodeSection> code = {{"x86-64-v2", ""}, {"x86-64", ""}};
  auto chosen = chooseCode(code);
  REQUIRE(chosen.ok());
  CHECK((*chosen)->target == "x86-64-v2");
  CHECK(chooseCode({}).ok());
  CHECK(
      chooseCode({{"sm_90a", ""}})
          .status()
          .what()
          .find("the artifact has code for sm_90a, but this processor runs at "
                "most x86-64") == 0);
}

TEST_CASE("the learning rate follows make_models.py's formula") {
  artifact::ScheduleT s;
  s.kind = artifact::ScheduleKind::Cosine;
  s.warmup_steps = 5;
  s.total_steps = 20;
  s.min_lr = 3e-4;
  auto rate = [&](int64_t step) { return learningRate(s, 3e-3, step); };
  CHECK(rate(0) == Approx(0.0006));
  CHECK(rate(4) == Approx(0.003));
  CHECK(rate(5) == Approx(0.003));
  CHECK(rate(12) == Approx(3e-4 + 2.7e-3 * (1 + std::cos(M_PI * 7 / 15)) / 2));
  CHECK(rate(20) == Approx(3e-4));
  CHECK(rate(1000) == Approx(3e-4));
  s.kind = artifact::ScheduleKind::Linear;
  CHECK(rate(8) == Approx(3e-4 + 2.7e-3 * 0.8));
  CHECK(rate(30) == Approx(3e-4));
  s.kind = artifact::ScheduleKind::Constant;
  CHECK(rate(2) == Approx(0.0018));
  CHECK(rate(300) == Approx(0.003));
  CHECK(biasCorrection(0.9, 0) == Approx(0.1));
  CHECK(biasCorrection(0.999, 9) == Approx(1 - std::pow(0.999, 10)));
}

TEST_CASE("16-bit floats convert exactly and round to nearest even") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float half = float16ToFloat(uint16_t(bits));
    float brain = bfloat16ToFloat(uint16_t(bits));
    if (std::isnan(half))
      CHECK(std::isnan(float16ToFloat(floatToFloat16(half))));
    else if (floatToFloat16(half) != bits)
      FAIL("half " << bits);
    if (std::isnan(brain))
      CHECK(std::isnan(bfloat16ToFloat(floatToBfloat16(brain))));
    else if (floatToBfloat16(brain) != bits)
      FAIL("bfloat " << bits);
  }
  CHECK(floatToFloat16(65504) == 0x7bff);
  CHECK(floatToFloat16(65520) == 0x7c00);
  CHECK(floatToFloat16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(floatToFloat16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(floatToBfloat16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(floatToBfloat16(1.0f + 3 * 0x1p-8f) == 0x3f82);
}

TEST_CASE("reductions of every type, with NaN kept") {
  auto reduce = [](auto a, auto b, artifact::DType dtype,
                   artifact::Reduction reduction) {
    decltype(a) out;
    reduceFunction(dtype, reduction)(&out, &a, &b, 1);
    return out;
  };
  using D = artifact::DType;
  using R = artifact::Reduction;
  CHECK(reduce(2.0f, 3.0f, D::F32, R::Sum) == 5);
  CHECK(reduce(2.0, 3.0, D::F64, R::Max) == 3);
  CHECK(reduce(int64_t(-2), int64_t(3), D::I64, R::Min) == -2);
  CHECK(std::isnan(reduce(NAN, 3.0f, D::F32, R::Max)));
  CHECK(std::isnan(reduce(3.0f, NAN, D::F32, R::Max)));
  CHECK(std::isnan(reduce(3.0f, NAN, D::F32, R::Min)));
  CHECK(reduce(floatToBfloat16(1.5f), floatToBfloat16(2.0f), D::BF16, R::Sum) ==
        floatToBfloat16(3.5f));
  CHECK(reduce(floatToFloat16(1.5f), floatToFloat16(2.0f), D::F16, R::Sum) ==
        floatToFloat16(3.5f));
  CHECK(reduceFunction(D::C64, R::Sum) == nullptr);
}

TEST_CASE("Philox gives the published values, and numbers look normal") {
  // Known answer of Random123 for counter and key 0.
  auto words = philox(0, 0, 0);
  CHECK(words[0] == 0x6627e8d5u);
  CHECK(words[1] == 0xe169c58du);
  CHECK(words[2] == 0xbc57ac4cu);
  CHECK(words[3] == 0x9b00dbd8u);
  double sum = 0, squares = 0;
  constexpr int count = 100000;
  for (uint64_t i = 0; i < count; ++i) {
    double value = normalAt(1, 2, i);
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / count) < 0.02);
  CHECK(std::abs(squares / count - 1) < 0.02);
}

TEST_CASE("messages arrive whole, however the bytes come") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Socket left(ends[0]), right(ends[1]);
  Message message{MessageType::Set, {"key", std::string(3000, 'x'), ""}};
  REQUIRE(left.send(message).ok());
  REQUIRE(left.send({MessageType::Bye, {}}).ok());
  MessageParser parser;
  auto first = right.receive(Milliseconds(1000), parser);
  REQUIRE(first.ok());
  CHECK(first->type == MessageType::Set);
  CHECK(first->fields == message.fields);
  Message second;
  CHECK(parser.next(second) == MessageParser::Result::Message);
  CHECK(second.type == MessageType::Bye);
  CHECK(right.receive(Milliseconds(50), parser).status().what() == "no answer");
}

TEST_CASE("bytes that are not messages are refused") {
  for (const char *text : {"GET / HTTP/1.1\r\n\r\n", "LKS2aaaaaaaaa", "x"}) {
    MessageParser parser;
    parser.append(text, strlen(text));
    Message message;
    CHECK(parser.next(message) == MessageParser::Result::Malformed);
  }
  // A field that is longer than its frame.
  std::string frame = std::string("LKS1\x07\x00\x00\x00\x05", 9) +
                      std::string("\xff\x00\x00\x00zz", 6);
  MessageParser parser;
  parser.append(frame.data(), frame.size());
  Message message;
  CHECK(parser.next(message) == MessageParser::Result::Malformed);
}
