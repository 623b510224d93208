//===- evaluate_data_test.cpp - Values of data movement
//------------------------------===//
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

TEST_CASE("iota counts along its dimension") {
  checkValues("%r = train.iota dim 0 : tensor<2x3xi64>", {},
              {{0, 0, 0, 1, 1, 1}});
  checkValues("%r = train.iota dim 1 : tensor<2x3xf32>", {},
              {{0, 1, 2, 0, 1, 2}});
}

TEST_CASE("constants of every kind are read") {
  checkValues("%r = train.constant dense<[true, false, true]> : tensor<3xi1>",
              {}, {{1, 0, 1}});
  checkValues("%r = train.constant dense<[1.5, -2.0]> : tensor<2xbf16>", {},
              {{1.5, -2}});
  checkValues("%r = train.constant dense<200> : tensor<2xui8>", {},
              {{200, 200}});
  checkValues("%r = train.constant dense<true> : tensor<2xi1>", {}, {{1, 1}});
  checkValues("%r = train.constant dense<-3> : tensor<2xi32>", {}, {{-3, -3}});
}

TEST_CASE("broadcast_in_dim repeats new and unit dimensions") {
  checkValues("%r = train.broadcast_in_dim %a dims [1] : tensor<2xf32> -> "
              "tensor<2x2xf32>",
              {counting({2})}, {{0, 1, 0, 1}});
  checkValues("%r = train.broadcast_in_dim %a dims [0, 1] : tensor<2x1xf32> -> "
              "tensor<2x2xf32>",
              {counting({2, 1})}, {{0, 0, 1, 1}});
}

TEST_CASE("transpose, slice and reverse renumber") {
  checkValues("%r = train.transpose %a perm [1, 0] : tensor<2x3xf32>",
              {counting({2, 3})}, {{0, 3, 1, 4, 2, 5}});
  checkValues("%r = train.transpose %a perm [2, 0, 1] : tensor<2x1x2xi8>",
              {counting({2, 1, 2}, "i8")}, {{0, 2, 1, 3}});
  checkValues(
      "%r = train.slice %a [0, 1] to [2, 4] step [1, 2] : tensor<2x4xf32>",
      {counting({2, 4})}, {{1, 3, 5, 7}});
  checkValues("%r = train.reverse %a dims [1] : tensor<2x3xf32>",
              {counting({2, 3})}, {{2, 1, 0, 5, 4, 3}});
}

TEST_CASE("pad adds, spreads and removes") {
  Tensor x = counting({3}), value{"tensor<f32>", {9}};
  checkValues("%r = train.pad %a, %b low [1] high [2] interior [1] : "
              "tensor<3xf32>, tensor<f32>",
              {x, value}, {{9, 0, 9, 1, 9, 2, 9, 9}});
  checkValues("%r = train.pad %a, %b low [-1] high [1] interior [0] : "
              "tensor<3xf32>, tensor<f32>",
              {x, value}, {{1, 2, 9}});
  checkValues("%r = train.pad %a, %b low [-1] high [-1] interior [1] : "
              "tensor<3xf32>, tensor<f32>",
              {x, value}, {{9, 1, 9}});
}

TEST_CASE("concatenate joins along any dimension") {
  checkValues(
      "%r = train.concatenate %a, %b dim 1 : tensor<2x1xf32>, tensor<2x2xf32>",
      {counting({2, 1}), counting({2, 2})}, {{0, 0, 1, 1, 2, 3}});
}

TEST_CASE("gather clamps, scatter drops what is out of range") {
  Tensor table = counting({3, 2}), ids{"tensor<4xi64>", {2, 0, 7, -1}};
  checkValues("%r = train.gather %a[%b] dims [0] batch 0 : tensor<3x2xf32>, "
              "tensor<4xi64>",
              {table, ids}, {{4, 5, 0, 1, 4, 5, 0, 1}});
  Tensor updates{"tensor<4x2xf32>", {10, 10, 20, 20, 30, 30, 40, 40}};
  checkValues("%r = train.scatter add %a[%b], %c dims [0] batch 0 : "
              "tensor<3x2xf32>, tensor<4x2xf32>, tensor<4xi64>",
              {table, ids, updates}, {{20, 21, 2, 3, 14, 15}});
}

TEST_CASE("gather with batch dimensions is torch.gather") {
  Tensor x = counting({2, 3}), ids{"tensor<2x2xi64>", {2, 0, 1, 1}};
  checkValues("%r = train.gather %a[%b] dims [1] batch 1 : tensor<2x3xf32>, "
              "tensor<2x2xi64>",
              {x, ids}, {{2, 0, 4, 4}});
}

TEST_CASE("gather with two index tensors picks points") {
  Tensor x = counting({2, 3, 2}), rows{"tensor<2xi64>", {1, 0}},
         columns{"tensor<2xi32>", {2, 1}};
  checkValues("%r = train.gather %a[%b, %c] dims [0, 1] batch 0 : "
              "tensor<2x3x2xf32>, tensor<2xi64>, tensor<2xi32>",
              {x, rows, columns}, {{10, 11, 2, 3}});
}

TEST_CASE("scatter applies several updates of one place in order") {
  Tensor base{"tensor<1xf32>", {5}}, ids{"tensor<3xi64>", {0, 0, 0}},
      updates{"tensor<3xf32>", {1, 9, 2}};
  auto scatter = [&](const std::string &kind, double expected) {
    checkValues("%r = train.scatter " + kind +
                    " %a[%b], %c dims [0] batch 0 : tensor<1xf32>, "
                    "tensor<3xf32>, tensor<3xi64>",
                {base, ids, updates}, {{expected}});
  };
  scatter("add", 17);
  scatter("replace", 2);
  scatter("max", 9);
  scatter("min", 1);
  scatter("multiply", 90);
}

TEST_CASE("sort is stable both ways, and NaN is the largest") {
  Tensor x{"tensor<5xf32>", {2, kNaN, 1, 2, 1}};
  checkValues("%r:2 = train.sort %a dim 0 : tensor<5xf32>", {x},
              {{1, 1, 2, 2, kNaN}, {2, 4, 0, 3, 1}});
  checkValues("%r:2 = train.sort %a dim 0 {descending} : tensor<5xf32>", {x},
              {{kNaN, 2, 2, 1, 1}, {1, 0, 3, 2, 4}});
  checkValues("%r:2 = train.sort %a dim 0 : tensor<2x2xi64>",
              {{"tensor<2x2xi64>", {3, 1, 2, 5}}},
              {{2, 1, 3, 5}, {1, 0, 0, 1}});
}

TEST_CASE("cumulative runs either way") {
  checkValues("%r = train.cumulative sum %a dim 1 : tensor<2x3xf32>",
              {counting({2, 3})}, {{0, 1, 3, 3, 7, 12}});
  checkValues("%r = train.cumulative sum %a dim 1 {reverse} : tensor<2x3xf32>",
              {counting({2, 3})}, {{3, 3, 2, 12, 9, 5}});
  checkValues("%r = train.cumulative max %a dim 0 : tensor<4xf32>",
              {{"tensor<4xf32>", {1, 3, 2, kNaN}}}, {{1, 3, 3, kNaN}});
  checkValues("%r = train.cumulative product %a dim 0 : tensor<3xi64>",
              {{"tensor<3xi64>", {2, 3, 4}}}, {{2, 6, 24}});
}
