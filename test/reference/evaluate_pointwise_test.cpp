//===- evaluate_pointwise_test.cpp - Values of elementwise operations
//---------------===//
//
// Expected values are PyTorch's or the definition's, written out by hand.
//
//===----------------------------------------------------------------------===//
#include "test/reference/Check.h"
#include <catch2/catch.hpp>

using namespace lockstep::test;

static Tensor floats(std::vector<double> values,
                     const std::string &element = "f32") {
  return {tensorType({int64_t(values.size())}, element), std::move(values)};
}
static Tensor ints(std::vector<double> values,
                   const std::string &element = "i64") {
  return floats(std::move(values), element);
}

static void checkUnary(const std::string &op, const Tensor &x,
                       const std::vector<double> &expected,
                       double tolerance = 0) {
  checkValues("%r = train." + op + " %a : " + x.type, {x}, {expected},
              tolerance);
}
static void checkBinary(const std::string &op, const Tensor &x, const Tensor &y,
                        const std::vector<double> &expected,
                        double tolerance = 0) {
  checkValues("%r = train." + op + " %a, %b : " + x.type, {x, y}, {expected},
              tolerance);
}

TEST_CASE("unary functions have the values of their definitions") {
  checkUnary("negate", floats({1, -2, 0}), {-1, 2, 0});
  checkUnary("abs", ints({-5, 5}), {5, 5});
  checkUnary("sign", floats({-2, 0, 3, kNaN}), {-1, 0, 1, kNaN});
  checkUnary("sign", ints({-2, 0, 3}), {-1, 0, 1});
  checkUnary("exponential", floats({0, 1, -kInf}), {1, 2.718281828, 0}, 1e-6);
  checkUnary("exponential_minus_one", floats({1e-7}, "f64"), {1.00000005e-7},
             1e-21);
  checkUnary("log_plus_one", floats({1e-7}, "f64"), {9.9999995e-8}, 1e-21);
  checkUnary("log", floats({0, 1, -1}), {-kInf, 0, kNaN});
  checkUnary("logistic", floats({0, 100, -100}), {0.5, 1, 3.7835059e-44}, 1e-7);
  checkUnary("rsqrt", floats({4, 0}), {0.5, kInf});
  checkUnary("erf", floats({0, 0.5}), {0, 0.5204998778}, 1e-7);
  checkUnary("round_nearest_even", floats({0.5, 1.5, 2.5, -0.5}), {0, 2, 2, 0});
  checkUnary("truncate", floats({1.7, -1.7}), {1, -1});
  checkUnary("floor", floats({1.7, -1.2}), {1, -2});
  checkUnary("ceil", floats({1.2, -1.7}), {2, -1});
  checkUnary("not", ints({0, -1}), {-1, 0});
  checkUnary("not", ints({0, 1}, "i1"), {1, 0});
  checkUnary("not", ints({0, 255}, "ui8"), {255, 0});
}

TEST_CASE("integer division follows the signs") {
  Tensor x = ints({7, -7, 7, -7}), y = ints({2, 2, -2, -2});
  checkBinary("divide", x, y, {3, -3, -3, 3});
  checkBinary("floor_divide", x, y, {3, -4, -4, 3});
  checkBinary("remainder", x, y, {1, -1, 1, -1});
  checkBinary("modulo", x, y, {1, 1, -1, -1});
}

TEST_CASE("integer division by zero does not trap") {
  Tensor x = ints({5}), zero = ints({0});
  checkBinary("divide", x, zero, {-1});
  checkBinary("remainder", x, zero, {5});
}

TEST_CASE("float division follows the signs") {
  Tensor x = floats({7.5, -7.5, 7.5, -7.5}), y = floats({2, 2, -2, -2});
  checkBinary("floor_divide", x, y, {3, -4, -4, 3});
  checkBinary("remainder", x, y, {1.5, -1.5, 1.5, -1.5});
  checkBinary("modulo", x, y, {1.5, 0.5, -0.5, -1.5});
  // 1 / 0.1f is a little below 10, although it rounds to 10 in f32.
  checkBinary("floor_divide", floats({1}), floats({0.1}), {9});
  checkBinary("divide", floats({1, 0}), floats({0, 0}), {kInf, kNaN});
}

TEST_CASE("maximum and minimum let NaN win") {
  Tensor x = floats({1, kNaN, 2}), y = floats({kNaN, 1, 3});
  checkBinary("maximum", x, y, {kNaN, kNaN, 3});
  checkBinary("minimum", x, y, {kNaN, kNaN, 2});
}

TEST_CASE("power of integers and floats") {
  checkBinary("power", ints({2, -2, 3, 1, -1, 2}), ints({10, 3, 0, -5, -3, -1}),
              {1024, -8, 1, 1, -1, 0});
  checkBinary("power", floats({2, -8, 0}), floats({0.5, 1.0 / 3, 0}),
              {1.414213562, kNaN, 1}, 1e-6);
}

TEST_CASE("integers wrap around at their width") {
  checkBinary("add", ints({127}, "i8"), ints({1}, "i8"), {-128});
  checkBinary("subtract", ints({0}, "ui8"), ints({1}, "ui8"), {255});
  checkBinary("multiply", ints({65536}, "i32"), ints({65536}, "i32"), {0});
}

TEST_CASE("sums and products of i1 are or and and") {
  Tensor x = ints({0, 0, 1, 1}, "i1"), y = ints({0, 1, 0, 1}, "i1");
  checkBinary("add", x, y, {0, 1, 1, 1});
  checkBinary("multiply", x, y, {0, 0, 0, 1});
  checkBinary("and", x, y, {0, 0, 0, 1});
  checkBinary("or", x, y, {0, 1, 1, 1});
  checkBinary("xor", x, y, {0, 1, 1, 0});
}

TEST_CASE("shifts are arithmetic") {
  checkBinary("shift_left", ints({1, -1}), ints({4, 1}), {16, -2});
  checkBinary("shift_right", ints({-8, 8}), ints({1, 70}), {-4, 0});
}

TEST_CASE("comparisons with NaN are false but for ne") {
  Tensor x = floats({1, kNaN, 2}), y = floats({1, 1, kNaN});
  auto compare = [&](const std::string &direction) {
    return "%r = train.compare " + direction + " %a, %b : " + x.type;
  };
  checkValues(compare("eq"), {x, y}, {{1, 0, 0}});
  checkValues(compare("ne"), {x, y}, {{0, 1, 1}});
  checkValues(compare("le"), {x, y}, {{1, 0, 0}});
  checkValues(compare("gt"), {x, y}, {{0, 0, 0}});
}

TEST_CASE("select chooses by element") {
  Tensor p = ints({1, 0}, "i1"), x = floats({1, 2}), y = floats({3, 4});
  checkValues("%r = train.select %a, %b, %c : " + p.type + ", " + x.type,
              {p, x, y}, {{1, 4}});
}

TEST_CASE("convert truncates to integers and rounds to floats") {
  auto convert = [](const Tensor &x, const std::string &to,
                    const std::vector<double> &expected) {
    checkValues("%r = train.convert %a : " + x.type + " -> " +
                    tensorType({int64_t(x.values.size())}, to),
                {x}, {expected});
  };
  convert(floats({1.9, -1.9}), "i64", {1, -1});
  convert(floats({0, 0.5, kNaN}), "i1", {0, 1, 1});
  convert(ints({0, 7, -1}), "i1", {0, 1, 1});
  convert(ints({300}), "ui8", {44});
  convert(ints({16777217}), "f32", {16777216});
  // Halfway cases go to even: 1 + 2^-8 lies between two bf16, 2049 between two
  // f16.
  convert(floats({1.00390625, 1.01171875, 3.4e38}), "bf16",
          {1, 1.015625, kInf});
  convert(floats({2049, 2051, 65519, 65520, 5.9604644775390625e-8}), "f16",
          {2048, 2052, 65504, kInf, 5.9604644775390625e-8});
}

TEST_CASE("a splat constant stays one through pointwise operations") {
  checkValues("%0 = train.constant dense<3.0> : tensor<4xf32>\n%1 = "
              "train.constant dense<2.0> : tensor<4xf32>\n"
              "%2 = train.multiply %0, %1 : tensor<4xf32>\n%3 = train.add %2, "
              "%a : tensor<4xf32>",
              {floats({1, 2, 3, 4})}, {{7, 8, 9, 10}});
}

TEST_CASE("dropout keeps about its share, scaled, whatever the layout") {
  std::vector<double> ones(4096, 1);
  Tensor x{"tensor<64x64xf32>", ones}, rng = ints({7, 3});
  std::vector<Tensor> whole =
      evaluate("%r = train.dropout %a, %b {rate = 0.25 : f64, id = 5 : i64} : "
               "tensor<64x64xf32>, tensor<2xi64>",
               {x, rng});
  REQUIRE(whole.size() == 1);
  int64_t kept = 0;
  for (double value : whole[0].values) {
    CHECK((value == 0 || isClose(value, 4.0 / 3, 1e-6)));
    kept += value != 0;
  }
  CHECK(kept > 4096 * 0.7);
  CHECK(kept < 4096 * 0.8);
  // Rows 32 to 63 on their own give the same bits.
  Tensor half{"tensor<32x64xf32>", std::vector<double>(2048, 1)},
      offsets = ints({32, 0});
  std::vector<double> expected(whole[0].values.begin() + 2048,
                               whole[0].values.end());
  checkValues("%r = train.dropout %a, %b offsets %c {rate = 0.25 : f64, id = 5 "
              ": i64, global_shape = array<i64: 64, 64>} : "
              "tensor<32x64xf32>, tensor<2xi64>, tensor<2xi64>",
              {half, rng, offsets}, {expected});
}
