// Weights drawn at start: each number against its definition, and all of them
// against the normal distribution.
#include "runtime/artifact/types.h"
#include "runtime/device/host/parallel.h"
#include "runtime/executor/draw.h"
#include "runtime/support/half.h"
#include "runtime/support/normal_numbers.h"
#include "runtime/support/philox.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

using namespace lockstep;
using namespace lockstep::runtime;

static std::vector<float> numbers(uint64_t key, uint64_t stream, uint64_t first,
                                  int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  normalNumbers(key, stream, first, count, result.data());
  return result;
}

TEST_CASE("normal numbers in bulk are those drawn one by one") {
  // Also where the counter's upper word begins, and with all words in use.
  for (uint64_t first :
       {uint64_t(0), (uint64_t(1) << 34) - 50000, ~uint64_t(0) / 2})
    for (uint64_t key : {uint64_t(0), uint64_t(0x123456789abcdef0)}) {
      double worst = 0;
      uint64_t at = first, stream = key ^ 0xfedcba9876543210;
      for (float value : numbers(key, stream, first, 100000)) {
        double expected = normalAt(key, stream, at++);
        worst = std::max(worst, std::abs(value / expected - 1));
      }
      CHECK(worst < 4e-7);
    }
}

TEST_CASE("a normal number is the same however its range is cut") {
  constexpr int64_t count = 1000;
  std::vector<float> whole = numbers(3, 4, 0, count);
  std::vector<float> cut(count + 1, -7);
  int64_t at = 0, lengths[] = {1, 2, 3, 4, 5, 0, 7, 64, 31, 129};
  for (int64_t i = 0; at < count; ++i) {
    int64_t length = std::min(lengths[i % 10], count - at);
    normalNumbers(3, 4, uint64_t(at), length, cut.data() + at);
    at += length;
    CHECK(cut[size_t(at)] == -7);
  }
  CHECK(!std::memcmp(whole.data(), cut.data(), count * 4));
}

TEST_CASE("every processor draws the same bits") {
  constexpr int64_t blocks = 100003;
  std::vector<NormalBlocks> variants = normalBlockVariants();
  REQUIRE(!variants.empty());
  std::vector<float> first(4 * blocks), other(4 * blocks);
  variants.front()(9, 8, 7, blocks, first.data());
  for (NormalBlocks variant : variants) {
    variant(9, 8, 7, blocks, other.data());
    CHECK(!std::memcmp(first.data(), other.data(), first.size() * 4));
  }
}

/// Correlation of f(x[i]) and f(x[i + lag]), f of mean 0 and deviation 1.
template <typename F>
static double correlation(const std::vector<float> &x, size_t lag, F f) {
  double sum = 0;
  for (size_t i = 0; i + lag < x.size(); ++i)
    sum += f(x[i]) * f(x[i + lag]);
  return sum / double(x.size() - lag);
}

TEST_CASE("drawn numbers are normal and independent") {
  constexpr int64_t count = 1 << 21;
  std::vector<float> x = numbers(2024, streamOf("weight"), 0, count);
  double moments[5] = {}, n = double(count);
  for (double value : x)
    for (double power = 1, i = 1; i <= 4; ++i)
      moments[int(i)] += (power *= value) / n;
  // Within 4.5 standard errors of 0, 1, 0 and 3.
  CHECK(std::abs(moments[1]) < 4.5 * std::sqrt(1 / n));
  CHECK(std::abs(moments[2] - 1) < 4.5 * std::sqrt(2 / n));
  CHECK(std::abs(moments[3]) < 4.5 * std::sqrt(15 / n));
  CHECK(std::abs(moments[4] - 3) < 4.5 * std::sqrt(96 / n));
  auto plain = [](double v) { return v; };
  auto square = [](double v) { return (v * v - 1) / std::sqrt(2.0); };
  for (size_t lag : {1, 2, 3, 4, 5, 8, 32, 4096}) {
    CHECK(std::abs(correlation(x, lag, plain)) < 4.5 / std::sqrt(n));
    CHECK(std::abs(correlation(x, lag, square)) < 4.5 / std::sqrt(n));
  }
  // Kolmogorov and Smirnov: a larger distance has a probability of 1e-4.
  std::sort(x.begin(), x.end());
  auto cumulative = [](double v) { return std::erfc(-v / std::sqrt(2.0)) / 2; };
  double distance = 0;
  for (int64_t i = 0; i < count; ++i) {
    double p = cumulative(x[size_t(i)]);
    distance = std::max({distance, p - double(i) / n, double(i + 1) / n - p});
  }
  CHECK(distance < 2.23 / std::sqrt(n));
  // Both tails: as many numbers as there should be.
  for (double sigma : {2.0, 3.0, 4.0}) {
    double expected = n * cumulative(-sigma);
    auto below = std::lower_bound(x.begin(), x.end(), float(-sigma));
    auto above = std::upper_bound(x.begin(), x.end(), float(sigma));
    double margin = 4.5 * std::sqrt(expected);
    CHECK(std::abs(double(below - x.begin()) - expected) < margin);
    CHECK(std::abs(double(x.end() - above) - expected) < margin);
  }
  CHECK(-x.front() > 4.5);
  CHECK(x.back() > 4.5);
}

static std::vector<std::byte> draw(const artifact::TensorT &tensor,
                                   const artifact::InitRuleT &rule) {
  std::vector<std::byte> bytes(size_t(tensor.bytes));
  drawElements(tensor, rule, 5, 0, tensor.bytes / sizeOf(tensor.dtype),
               bytes.data());
  return bytes;
}

static artifact::TensorT tensorOf(artifact::DType dtype, int64_t count) {
  artifact::TensorT tensor;
  tensor.name = "w";
  tensor.dtype = dtype;
  tensor.shape = {count};
  tensor.bytes = count * sizeOf(dtype);
  return tensor;
}

TEST_CASE("tensors are drawn alike by any number of threads, in any pieces") {
  constexpr int64_t count = 300001, cut = 123457;
  using artifact::InitKind;
  for (InitKind kind : {InitKind::Normal, InitKind::Uniform}) {
    artifact::TensorT tensor = tensorOf(artifact::DType::F32, count);
    artifact::InitRuleT rule;
    rule.kind = kind;
    rule.a = -0.5;
    rule.b = 2;
    int threads = lockstep_max_threads();
    std::vector<std::byte> expected = draw(tensor, rule);
    for (int other : {1, 2, 3, 5}) {
      lockstep_set_threads(other);
      CHECK(draw(tensor, rule) == expected);
    }
    lockstep_set_threads(threads);
    std::vector<std::byte> pieces(expected.size());
    drawElements(tensor, rule, 5, 0, cut, pieces.data());
    drawElements(tensor, rule, 5, cut, count, pieces.data() + 4 * cut);
    CHECK(pieces == expected);
  }
}

TEST_CASE("drawn elements are the rule's, rounded to the tensor's type") {
  constexpr int64_t count = 50003;
  artifact::InitRuleT rule;
  rule.kind = artifact::InitKind::Normal;
  rule.a = 1;
  rule.b = 0.25;
  std::vector<float> normal = numbers(5, streamOf("w"), 0, count);
  auto bytesOf = [&](artifact::DType dtype) {
    return draw(tensorOf(dtype, count), rule);
  };
  std::vector<std::byte> f32 = bytesOf(artifact::DType::F32),
                         f64 = bytesOf(artifact::DType::F64),
                         bf16 = bytesOf(artifact::DType::BF16),
                         f16 = bytesOf(artifact::DType::F16);
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    double expected = 1 + 0.25 * double(normal[size_t(i)]);
    wrong += reinterpret_cast<float *>(f32.data())[i] != float(expected);
    wrong += reinterpret_cast<double *>(f64.data())[i] != expected;
    wrong += reinterpret_cast<uint16_t *>(bf16.data())[i] !=
             floatToBfloat16(float(expected));
    wrong += reinterpret_cast<uint16_t *>(f16.data())[i] !=
             floatToFloat16(float(expected));
  }
  CHECK(wrong == 0);
  rule.kind = artifact::InitKind::Uniform;
  rule.a = -0.5;
  f64 = bytesOf(artifact::DType::F64);
  for (int64_t i = 0; i < count; ++i)
    wrong += reinterpret_cast<double *>(f64.data())[i] !=
             -0.5 + 0.75 * uniformAt(5, streamOf("w"), uint64_t(i));
  CHECK(wrong == 0);
}
