//===- kinks_test.cpp - Derivatives at kinks are PyTorch's
//-----------------===//
#include "test/autodiff/GradientCheck.h"
#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::testing;

using Values = std::vector<double>;

/// Gradients of the sum of the results, with respect to each argument (float64
/// tensors).
static std::vector<Values> gradients(const std::string &arguments,
                                     const std::string &type,
                                     const std::string &body,
                                     const std::vector<Values> &values) {
  GradientCheck check("func.func @f(" + arguments + ") -> " + type + " {\n" +
                      body + "\nreturn %0 : " + type + "\n}");
  std::vector<HostTensor> tensors;
  mlir::Builder builder(&getContext());
  std::vector<HostTensor> templates = check.randomArguments({});
  for (size_t i = 0; i < values.size(); ++i)
    tensors.push_back(
        HostTensor::fromDoubles(templates[i].getType(), values[i]));
  return check.builtGradients(tensors, check.unitCotangents());
}

static std::vector<Values> unary(const std::string &body, const Values &x) {
  std::string type = "tensor<" + std::to_string(x.size()) + "xf64>";
  std::string text = body;
  for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
    text.replace(at, 4, type);
  return gradients("%x: " + type, type, text, {x});
}

static std::vector<Values> binary(const std::string &op, const Values &x,
                                  const Values &y) {
  std::string type = "tensor<" + std::to_string(x.size()) + "xf64>";
  return gradients("%x: " + type + ", %y: " + type, type,
                   "%0 = train." + op + " %x, %y : " + type, {x, y});
}

TEST_CASE("abs and relu have derivative 0 at 0") {
  CHECK(unary("%0 = train.abs %x : TYPE", {-2, 0, 3})[0] == Values{-1, 0, 1});
  CHECK(
      unary("%z = train.constant dense<0.0> : TYPE\n%p = train.compare le %x, "
            "%z : TYPE\n%0 = train.select %p, %z, %x : tensor<3xi1>, TYPE",
            {-2, 0, 3})[0] == Values{0, 0, 1});
}

TEST_CASE("clamp passes at its bounds") {
  CHECK(
      unary("%c = train.constant dense<1.0> : TYPE\n%p = train.compare lt %x, "
            "%c : TYPE\n%0 = train.select %p, %c, %x : tensor<3xi1>, TYPE",
            {0, 1, 2})[0] == Values{0, 1, 1});
}

TEST_CASE("maximum and minimum give each of two equals half") {
  CHECK(binary("maximum", {1, 2, 3}, {3, 2, 1}) ==
        std::vector<Values>{{0, 0.5, 1}, {1, 0.5, 0}});
  CHECK(binary("minimum", {1, 2, 3}, {3, 2, 1}) ==
        std::vector<Values>{{1, 0.5, 0}, {0, 0.5, 1}});
}

TEST_CASE("a power with exponent 0 and a base of 0 have finite derivatives") {
  auto g = binary("power", {0, 0, 2, 0}, {0, 2, 0, 1});
  CHECK(g[0] == Values{0, 0, 0, 1});
  CHECK(g[1][0] == 0);
  CHECK(g[1][1] == 0);
  CHECK(g[1][2] == Approx(std::log(2.0)));
  CHECK(g[1][3] == 0);
}

TEST_CASE("equals share the gradient of a maximum evenly") {
  CHECK(gradients("%x: tensor<2x3xf64>", "tensor<2xf64>",
                  "%0 = train.reduce max %x dims [1] : tensor<2x3xf64>",
                  {{5, 1, 5, 2, 2, 2}})[0] ==
        Values{0.5, 0, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  CHECK(gradients("%x: tensor<2xf64>, %u: tensor<3xf64>", "tensor<2xf64>",
                  "%i = train.constant dense<[0, 0, 1]> : tensor<3xi64>\n%0 = "
                  "train.scatter max %x[%i], %u dims [0] batch 0 : "
                  "tensor<2xf64>, tensor<3xf64>, tensor<3xi64>",
                  {{4, 1}, {4, 4, 0}}) ==
        std::vector<Values>{{1.0 / 3, 1}, {1.0 / 3, 1.0 / 3, 0}});
}

TEST_CASE("a max pooling gives all to the first of equals") {
  CHECK(gradients("%x: tensor<1x4xf64>", "tensor<1x2xf64>",
                  "%0 = train.reduce_window max %x window [2] strides [2] "
                  "padding [0] to [0] dilation [1] : tensor<1x4xf64>",
                  {{3, 3, 1, 2}})[0] == Values{1, 0, 0, 1});
}

TEST_CASE("products with zeros") {
  auto reduced = [](const Values &x) {
    return gradients("%x: tensor<3xf64>", "tensor<f64>",
                     "%0 = train.reduce product %x dims [0] : tensor<3xf64>",
                     {x})[0];
  };
  CHECK(reduced({2, 0, 3}) == Values{0, 6, 0});
  CHECK(reduced({0, 0, 3}) == Values{0, 0, 0});
  auto running = [](const Values &x) {
    return unary("%0 = train.cumulative product %x dim 0 : TYPE", x)[0];
  };
  // y = (a, ab, abc, abcd) at (2, 0, 3, 5): dy/da = 1 + b + bc + bcd, dy/db = a
  // + ac + acd, the others have a factor b = 0.
  CHECK(running({2, 0, 3, 5}) == Values{1, 38, 0, 0});
  CHECK(running({2, 0, 0, 5}) == Values{1, 2, 0, 0});
  CHECK(gradients("%x: tensor<1xf64>, %u: tensor<2xf64>", "tensor<1xf64>",
                  "%i = train.constant dense<0> : tensor<2xi64>\n%0 = "
                  "train.scatter multiply %x[%i], %u dims [0] batch 0 : "
                  "tensor<1xf64>, tensor<2xf64>, tensor<2xi64>",
                  {{2}, {0, 5}}) == std::vector<Values>{{0}, {10, 0}});
}

TEST_CASE("a running maximum gives all to the last of equals") {
  CHECK(unary("%0 = train.cumulative max %x dim 0 : TYPE", {1, 3, 3, 2})[0] ==
        Values{1, 1, 2, 0});
}

TEST_CASE("no gradient flows through stop_gradient") {
  CHECK(unary("%s = train.stop_gradient %x : TYPE\n%0 = train.multiply %x, %s "
              ": TYPE",
              {2, 3})[0] == Values{2, 3});
}

TEST_CASE("the padding row of an embedding gets no gradient") {
  GradientCheck check(
      "func.func @f(%t: tensor<3x1xf64>, %i: tensor<4xi64>) -> tensor<4x1xf64> "
      "{\n%0 = train.embedding %t, %i {padding_idx = 1 : i64} : "
      "tensor<3x1xf64>, tensor<4xi64>\nreturn %0 : tensor<4x1xf64>\n}");
  std::vector<HostTensor> arguments = check.randomArguments({});
  arguments[1] = HostTensor::fromInts(arguments[1].getType(), {0, 1, 1, 2});
  CHECK(check.builtGradients(arguments, check.unitCotangents())[0] ==
        Values{1, 0, 1});
}

TEST_CASE("a value used several times gets the sum") {
  CHECK(unary("%a = train.multiply %x, %x : TYPE\n%b = train.add %a, %x : "
              "TYPE\n%0 = train.add %b, %a : TYPE",
              {3})[0] == Values{13});
}
