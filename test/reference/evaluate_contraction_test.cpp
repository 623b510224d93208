//===- evaluate_contraction_test.cpp - Values of reductions and products
//--------------===//
#include "test/reference/Check.h"
#include <catch2/catch.hpp>

using namespace lockstep::test;

static Tensor counting(const std::vector<int64_t> &shape,
                       const std::string &element = "f32") {
  Tensor tensor{tensorType(shape, element), {}};
  for (int64_t i = 0; i < countElements(shape); ++i)
    tensor.values.push_back(double(i));
  return tensor;
}

TEST_CASE("reduce combines the given dimensions") {
  Tensor x = counting({2, 2, 3});
  checkValues("%r = train.reduce sum %a dims [0, 2] : tensor<2x2x3xf32>", {x},
              {{24, 42}});
  checkValues("%r = train.reduce max %a dims [1] : tensor<2x2x3xf32>", {x},
              {{3, 4, 5, 9, 10, 11}});
  checkValues("%r = train.reduce product %a dims [0] : tensor<2xi64>",
              {{"tensor<2xi64>", {3, -4}}}, {{-12}});
  checkValues("%r = train.reduce and %a dims [1] : tensor<2x2xi1>",
              {{"tensor<2x2xi1>", {1, 1, 1, 0}}}, {{1, 0}});
  checkValues("%r = train.reduce or %a dims [1] : tensor<2x2xi1>",
              {{"tensor<2x2xi1>", {0, 0, 1, 0}}}, {{0, 1}});
}

TEST_CASE("reduce lets NaN win and starts from the neutral element") {
  checkValues("%r = train.reduce max %a dims [0] : tensor<3xf32>",
              {{"tensor<3xf32>", {1, kNaN, 2}}}, {{kNaN}});
  checkValues("%r = train.reduce min %a dims [0] : tensor<2xf32>",
              {{"tensor<2xf32>", {kInf, kInf}}}, {{kInf}});
  checkValues("%r = train.reduce max %a dims [0] : tensor<0xf32>",
              {{"tensor<0xf32>", {}}}, {{-kInf}});
  checkValues("%r = train.reduce min %a dims [0] : tensor<0xi8>",
              {{"tensor<0xi8>", {}}}, {{127}});
}

TEST_CASE("a sum of bf16 does not lose its small terms") {
  checkValues("%r = train.reduce sum %a dims [0] : tensor<512xbf16>",
              {{"tensor<512xbf16>", std::vector<double>(512, 1)}}, {{512}});
}

TEST_CASE("arg_reduce finds the first of equals") {
  Tensor x{"tensor<4xf32>", {1, 3, 3, 1}};
  checkValues("%r = train.arg_reduce max %a dim 0 : tensor<4xf32>", {x}, {{1}});
  checkValues("%r = train.arg_reduce min %a dim 0 : tensor<4xf32>", {x}, {{0}});
  checkValues("%r = train.arg_reduce max %a dim 0 : tensor<3xf32>",
              {{"tensor<3xf32>", {5, kNaN, 9}}}, {{1}});
  checkValues("%r = train.arg_reduce max %a dim 0 : tensor<2x2xi64>",
              {{"tensor<2x2xi64>", {1, 5, 2, 4}}}, {{1, 0}});
}

TEST_CASE("dot_general batches and contracts any dimensions") {
  Tensor a = counting({2, 3}), b = counting({3, 2});
  checkValues("%r = train.dot_general %a, %b batch [] x [] contract [1] x [0] "
              ": tensor<2x3xf32>, tensor<3x2xf32>",
              {a, b}, {{10, 13, 28, 40}});
  // One batch dimension at different places: result [k, i, j] = a[i, k] b[k,
  // j].
  checkValues("%r = train.dot_general %a, %b batch [1] x [0] contract [] x [] "
              ": tensor<2x3xf32>, tensor<3x2xf32>",
              {a, b}, {{0, 0, 0, 3, 2, 3, 8, 12, 8, 10, 20, 25}});
  checkValues("%r = train.dot_general %a, %b batch [] x [] contract [0, 1] x "
              "[1, 0] : tensor<2x3xi64>, tensor<3x2xi64>",
              {counting({2, 3}, "i64"), counting({3, 2}, "i64")},
              {{0 + 2 + 8 + 3 + 12 + 25}});
}

/// Element i is i * 0.7 mod 1, less a half: small numbers without a pattern.
static Tensor scattered(const std::vector<int64_t> &shape, double factor) {
  Tensor tensor{tensorType(shape, "f64"), {}};
  for (int64_t i = 0; i < countElements(shape); ++i)
    tensor.values.push_back(std::fmod(double(i + 1) * factor, 1) - 0.5);
  return tensor;
}

TEST_CASE("convolution does not flip, pads, strides, dilates and groups") {
  Tensor x{"tensor<1x1x5xf32>", {1, 2, 3, 4, 5}},
      w{"tensor<1x1x2xf32>", {10, 1}};
  auto text = [](const std::string &attributes, const std::string &types) {
    return "%r = train.convolution %a, %b " + attributes + " : " + types;
  };
  std::string types = "tensor<1x1x5xf32>, tensor<1x1x2xf32>";
  checkValues(
      text("strides [1] padding [0] to [0] dilation [1] groups 1", types),
      {x, w}, {{12, 23, 34, 45}});
  checkValues(
      text("strides [2] padding [1] to [0] dilation [1] groups 1", types),
      {x, w}, {{1, 23, 45}});
  checkValues(
      text("strides [1] padding [0] to [0] dilation [3] groups 1", types),
      {x, w}, {{14, 25}});
  Tensor two{"tensor<1x2x2xf32>", {1, 2, 3, 4}},
      filters{"tensor<2x1x1xf32>", {10, 100}};
  checkValues(text("strides [1] padding [0] to [0] dilation [1] groups 2",
                   "tensor<1x2x2xf32>, tensor<2x1x1xf32>"),
              {two, filters}, {{10, 20, 300, 400}});
}

/// <dy, conv(x, w)> = <dx, x> = <dw, w>, since a convolution is linear in each
/// of its operands.
TEST_CASE("gradients of convolution are adjoint to it") {
  struct Case {
    std::vector<int64_t> x, w, y;
    std::string attributes;
  };
  for (const Case &c :
       {Case{
            {2, 4, 5, 6},
            {6, 2, 3, 2},
            {2, 6, 3, 3},
            "strides [2, 2] padding [1, 0] to [1, 1] dilation [1, 1] groups 2"},
        Case{{1, 3, 7},
             {2, 3, 3},
             {1, 2, 5},
             "strides [1] padding [1] to [1] dilation [2] groups 1"},
        Case{{1, 2, 3, 3, 3},
             {2, 1, 2, 2, 2},
             {1, 2, 2, 2, 2},
             "strides [1, 1, 1] padding [0, 0, 0] to [0, 0, 0] dilation [1, 1, "
             "1] groups 2"}}) {
    Tensor x = scattered(c.x, 0.7), w = scattered(c.w, 0.31),
           dy = scattered(c.y, 0.43);
    auto run = [&](const std::string &op, const Tensor &a, const Tensor &b,
                   const std::string &result) {
      std::vector<Tensor> r =
          evaluate("%r = train." + op + " %a, %b " + c.attributes + " : " +
                       a.type + ", " + b.type + result,
                   {a, b});
      REQUIRE(r.size() == 1);
      return r[0].values;
    };
    std::vector<double> y = run("convolution", x, w, ""),
                        dx = run("convolution_input_gradient", dy, w,
                                 " -> " + x.type),
                        dw = run("convolution_filter_gradient", x, dy,
                                 " -> " + w.type);
    auto dot = [](const std::vector<double> &a, const std::vector<double> &b) {
      REQUIRE(a.size() == b.size());
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
      return sum;
    };
    double expected = dot(dy.values, y);
    CHECK(std::fabs(expected) > 1e-6);
    CHECK(isClose(dot(dx, x.values), expected, 1e-12));
    CHECK(isClose(dot(dw, w.values), expected, 1e-12));
  }
}

TEST_CASE("pooling pads with the neutral element") {
  Tensor x{"tensor<1x3xf32>", {-1, -2, -3}};
  std::string attributes = "window [2] strides [2] padding [1] to [0] dilation "
                           "[1] : tensor<1x3xf32>";
  checkValues("%r = train.reduce_window max %a " + attributes, {x}, {{-1, -2}});
  checkValues("%r = train.reduce_window sum %a " + attributes, {x}, {{-1, -5}});
}

TEST_CASE("the gradient of a max pooling goes to the first of equals") {
  Tensor x{"tensor<1x1x2x3xf32>", {1, 5, 5, 5, 0, 2}},
      dy{"tensor<1x1x1x2xf32>", {10, 100}};
  checkValues("%r = train.reduce_window_gradient max %a, %b window [2, 2] "
              "strides [1, 1] padding [0, 0] to [0, 0] dilation [1, 1] : " +
                  x.type + ", " + dy.type,
              {x, dy}, {{0, 110, 0, 0, 0, 0}});
  checkValues("%r = train.reduce_window_gradient sum %a, %b window [2, 2] "
              "strides [1, 1] padding [0, 0] to [0, 0] dilation [1, 1] : " +
                  x.type + ", " + dy.type,
              {x, dy}, {{10, 110, 100, 10, 110, 100}});
}
