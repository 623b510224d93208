// Gemm on every device against a reference in float64, over random shapes,
// strides, transposes and batches.
#include "runtime/device/host/library/gemm_shape.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/support/half.h"
#include "test/runtime/device/device_under_test.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;

namespace {

/// One product with the places of its operands and their values.
struct Product {
  GemmShape shape;
  std::array<int64_t, 3> offsets{};
  std::array<std::vector<double>, 3> values;
  std::string text;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  double value() { return std::uniform_real_distribution<>(-1, 1)(random); }

  GemmShape shape(const std::string &dtype) {
    GemmShape s;
    s.m = size();
    s.n = size();
    s.k = size();
    for (int64_t i = number(0, 3); i > 0; --i)
      s.batch.push_back(number(1, 4));
    s.a = strides(s.m, s.k, s.batch, true);
    s.b = strides(s.k, s.n, s.batch, true);
    s.c = strides(s.m, s.n, s.batch, false);
    s.alpha = number(0, 2) ? 1 : 0.5;
    s.beta = double(number(0, 2)) / 2;
    s.dtype = s.cDtype = dtype;
    return s;
  }

private:
  int64_t size() { return number(0, 3) ? number(1, 70) : 1 << number(0, 7); }

  /// Dimensions in any order, with gaps; sometimes neither stride is 1, and
  /// what is read sometimes does not vary along a batch dimension.
  MatrixStrides strides(int64_t rows, int64_t columns, const Ints &batch,
                        bool mayRepeat) {
    Ints sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::shuffle(order.begin(), order.end(), random);
    if (number(0, 3)) { // mostly a matrix with its rows or columns together
      std::partition(order.begin(), order.end(),
                     [&](size_t d) { return d >= batch.size(); });
    }
    Ints all(sizes.size());
    int64_t next = number(0, 7) ? 1 : 3;
    for (size_t d : order) {
      all[d] = next;
      next = next * sizes[d] + (number(0, 2) ? 0 : number(1, 5));
    }
    MatrixStrides result{all[batch.size()], all[batch.size() + 1], {}};
    for (size_t d = 0; d < batch.size(); ++d)
      result.batch.push_back(mayRepeat && !number(0, 4) ? 0 : all[d]);
    return result;
  }

  std::mt19937 random;
};

std::string describe(const GemmShape &s) {
  auto list = [](const Ints &values) {
    std::string text = "[";
    for (int64_t value : values)
      text += std::to_string(value) + " ";
    return text + "]";
  };
  auto matrix = [&](const MatrixStrides &m) {
    return " " + std::to_string(m.row) + "," + std::to_string(m.column) +
           list(m.batch);
  };
  return s.dtype + " " + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" +
         std::to_string(s.k) + " batch " + list(s.batch) + " a" + matrix(s.a) +
         " b" + matrix(s.b) + " c" + matrix(s.c) + " alpha " +
         std::to_string(s.alpha) + " beta " + std::to_string(s.beta);
}

void addAttributes(PlanBuilder &plan, const GemmShape &s) {
  using L = std::vector<int64_t>;
  plan.attribute("m", L{s.m});
  plan.attribute("n", L{s.n});
  plan.attribute("k", L{s.k});
  plan.attribute("batch", s.batch);
  plan.attribute("a_strides", L{s.a.row, s.a.column});
  plan.attribute("b_strides", L{s.b.row, s.b.column});
  plan.attribute("c_strides", L{s.c.row, s.c.column});
  plan.attribute("a_batch_strides", s.a.batch);
  plan.attribute("b_batch_strides", s.b.batch);
  plan.attribute("c_batch_strides", s.c.batch);
  plan.attribute("alpha", s.alpha);
  plan.attribute("beta", s.beta);
  plan.attribute("dtype", s.dtype);
}

int64_t sizeOfElement(const std::string &dtype) {
  return dtype == "f64" ? 8 : dtype == "bf16" ? 2 : 4;
}

/// The values as the device stores them.
double rounded(double value, const std::string &dtype) {
  return dtype == "f64"    ? value
         : dtype == "bf16" ? bfloat16ToFloat(floatToBfloat16(float(value)))
                           : float(value);
}

void upload(TestSession &session, const std::string &dtype, int64_t offset,
            const std::vector<double> &values) {
  if (dtype == "f64")
    return session.write(offset, values);
  if (dtype == "f32")
    return session.write(offset,
                         std::vector<float>(values.begin(), values.end()));
  std::vector<uint16_t> halves;
  for (double value : values)
    halves.push_back(floatToBfloat16(float(value)));
  session.write(offset, halves);
}

std::vector<double> download(TestSession &session, const std::string &dtype,
                             int64_t offset, size_t count) {
  if (dtype == "f64")
    return session.read<double>(offset, int64_t(count));
  std::vector<double> values;
  if (dtype == "f32") {
    for (float value : session.read<float>(offset, int64_t(count)))
      values.push_back(value);
  } else {
    for (uint16_t value : session.read<uint16_t>(offset, int64_t(count)))
      values.push_back(bfloat16ToFloat(value));
  }
  return values;
}

/// c after the product, in float64.
std::vector<double> reference(const Product &p) {
  const GemmShape &s = p.shape;
  std::vector<double> c = p.values[2];
  int64_t products = 1;
  for (int64_t size : s.batch)
    products *= size;
  for (int64_t index = 0; index < products; ++index) {
    int64_t rest = index, atA = 0, atB = 0, atC = 0;
    for (size_t d = s.batch.size(); d-- > 0; rest /= s.batch[d]) {
      atA += rest % s.batch[d] * s.a.batch[d];
      atB += rest % s.batch[d] * s.b.batch[d];
      atC += rest % s.batch[d] * s.c.batch[d];
    }
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t q = 0; q < s.k; ++q)
          sum += p.values[0][size_t(atA + i * s.a.row + q * s.a.column)] *
                 p.values[1][size_t(atB + q * s.b.row + j * s.b.column)];
        double &out = c[size_t(atC + i * s.c.row + j * s.c.column)];
        out = s.alpha * sum + (s.beta == 0 ? 0 : s.beta * out);
      }
  }
  return c;
}

void check(const std::string &dtype, double tolerance, int count,
           unsigned seed) {
  Generator generator(seed);
  PlanBuilder plan;
  plan.generated("scale"); // code for the device under test
  std::vector<Product> products;
  for (int index = 0; index < count; ++index) {
    Product &p = products.emplace_back();
    p.shape = generator.shape(dtype);
    p.text = describe(p.shape);
    uint32_t kernel = plan.library(artifact::LibraryKernel::Gemm);
    addAttributes(plan, p.shape);
    std::array<int64_t, 3> elements = operandElements(p.shape);
    std::vector<artifact::Operand> operands;
    for (size_t i = 0; i < 3; ++i) {
      int64_t bytes = elements[i] * sizeOfElement(dtype);
      // Some operands start at odd elements.
      int64_t shift = generator.number(0, 2) ? 0 : sizeOfElement(dtype);
      p.offsets[i] = plan.allocate(bytes + shift) + shift;
      operands.push_back(plan.at(p.offsets[i], bytes));
      for (int64_t e = 0; e < elements[i]; ++e)
        p.values[i].push_back(rounded(generator.value(), dtype));
    }
    plan.add(plan.launch(kernel, operands, 1));
  }
  SessionOptions options;
  options.poison = true;
  TestSession session(plan, options);
  for (const Product &p : products)
    for (size_t i = 0; i < 3; ++i)
      upload(session, dtype, p.offsets[i], p.values[i]);
  session.step();
  for (const Product &p : products) {
    INFO(p.text);
    std::vector<double> expected = reference(p);
    std::vector<double> actual =
        download(session, dtype, p.offsets[2], expected.size());
    double worst = 0, scale = 1;
    for (size_t i = 0; i < expected.size(); ++i) {
      scale = std::max(scale, std::abs(expected[i]));
      double error = std::abs(actual[i] - expected[i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    CHECK(worst <= tolerance * scale);
  }
}

} // namespace

TEST_CASE("products of f32 agree with float64") { check("f32", 4e-6, 80, 1); }

TEST_CASE("products of f64 agree with float64") { check("f64", 1e-13, 40, 2); }

TEST_CASE("products of bf16 agree with float64, sums being f32") {
  if (deviceKind == "cuda") // the host has no such kernel
    check("bf16", 5e-3, 40, 3);
}
