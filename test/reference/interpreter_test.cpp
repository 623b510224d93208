//===- interpreter_test.cpp - Regions, calls, kernels and collectives
//-----------------===//
#include "test/reference/Check.h"
#include <catch2/catch.hpp>

using namespace lockstep::test;

static void
checkRanks(const std::string &module,
           const std::vector<std::vector<Tensor>> &arguments,
           const std::vector<std::vector<std::vector<double>>> &expected) {
  INFO(module);
  std::vector<std::vector<Tensor>> results =
      runRanks(module, int64_t(expected.front().size()), arguments);
  REQUIRE(results.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t rank = 0; rank < expected[i].size(); ++rank) {
      INFO("result " << i << " on rank " << rank);
      CHECK(results[i][rank].values == expected[i][rank]);
    }
}

static std::vector<Tensor>
onRanks(const std::string &type,
        const std::vector<std::vector<double>> &values) {
  std::vector<Tensor> tensors;
  for (const std::vector<double> &own : values)
    tensors.push_back({type, own});
  return tensors;
}

TEST_CASE("a called function runs with the call's operands") {
  checkRanks(R"(
    func.func @double(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = train.add %x, %x : tensor<2xf32>
      return %y : tensor<2xf32>
    }
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %y = call @double(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %z = call @double(%y) : (tensor<2xf32>) -> tensor<2xf32>
      return %z, %x : tensor<2xf32>, tensor<2xf32>
    })",
             {onRanks("tensor<2xf32>", {{1, 2}})}, {{{4, 8}}, {{1, 2}}});
}

TEST_CASE("accumulate carries, sums, and sees one micro batch at a time") {
  // Rows 1..4, two steps: the carried value counts up from 10, the sum adds the
  // micro batches times w, the iteration number is 0, 1.
  checkRanks(R"(
    func.func @main(%x: tensor<4xf32>, %c: tensor<f32>, %w: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<i64>) {
      %r:3 = train.accumulate 2 batch(%x) carried(%c) : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<2xf32>, tensor<i64>) {
      ^bb0(%part: tensor<2xf32>, %count: tensor<f32>, %k: tensor<i64>):
        %one = train.constant dense<1.0> : tensor<f32>
        %next = train.add %count, %one : tensor<f32>
        %y = train.multiply %part, %w : tensor<2xf32>
        train.yield %next, %y, %k : tensor<f32>, tensor<2xf32>, tensor<i64>
      }
      return %r#0, %r#1, %r#2 : tensor<f32>, tensor<2xf32>, tensor<i64>
    })",
             {onRanks("tensor<4xf32>", {{1, 2, 3, 4}}),
              onRanks("tensor<f32>", {{10}}),
              onRanks("tensor<2xf32>", {{1, 10}})},
             {{{12}}, {{4, 60}}, {{1}}});
}

TEST_CASE("kernels run by their regions, updates for any number of elements") {
  checkRanks(R"(
    plan.kernel loop @relu(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %zero = train.constant dense<0.0> : tensor<2x2xf32>
      %y = train.maximum %x, %zero : tensor<2x2xf32>
      plan.return %y : tensor<2x2xf32>
    }
    plan.kernel update @step(%p: tensor<1xf32>, %g: tensor<1xf32>, %lr: tensor<f32>) -> tensor<1xf32> {
      %two = train.constant dense<2.0> : tensor<1xf32>
      %h = train.multiply %g, %two : tensor<1xf32>
      %rate = train.broadcast_in_dim %lr dims [] : tensor<f32> -> tensor<1xf32>
      %d = train.multiply %h, %rate : tensor<1xf32>
      %new = train.subtract %p, %d : tensor<1xf32>
      plan.return %new : tensor<1xf32>
    }
    func.func @main(%x: tensor<2x2xf32>, %lr: tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<3xf32>) {
      %y = plan.call @relu(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
      %z = plan.call @step(%x, %y, %lr) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
      %row = plan.view %z at 2 : tensor<2x2xf32> -> tensor<2xf32>
      %all = plan.join %lr, %row : tensor<f32>, tensor<2xf32> -> tensor<3xf32>
      return %y, %z, %row, %all : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<3xf32>
    })",
             {onRanks("tensor<2x2xf32>", {{-1, 2, 3, -4}}),
              onRanks("tensor<f32>", {{0.5}})},
             {{{0, 2, 3, 0}}, {{-1, 0, 0, -4}}, {{0, -4}}, {{0.5, 0, -4}}});
}

TEST_CASE("collectives combine the ranks of each group") {
  checkRanks(R"(
    dist.mesh @mesh ["data" = 2, "model" = 2]
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<1xf32>, tensor<2xf32>, tensor<i64>, tensor<1xf32>) {
      %sum = dist.all_reduce sum %x on @mesh ["data"] : tensor<2xf32>
      %whole = dist.all_gather %x dim 0 on @mesh ["model"] : (tensor<2xf32>) -> tensor<4xf32>
      %part = dist.reduce_scatter max %x dim 0 on @mesh ["model"] : (tensor<2xf32>) -> tensor<1xf32>
      %swapped = dist.all_to_all %x split 0 concat 0 on @mesh ["data"] : tensor<2xf32> -> tensor<2xf32>
      %place = dist.coordinate on @mesh ["data", "model"] : tensor<i64>
      %own = dist.local_slice %x dim 0 on @mesh ["model"] : tensor<2xf32> -> tensor<1xf32>
      return %sum, %whole, %part, %swapped, %place, %own : tensor<2xf32>, tensor<4xf32>, tensor<1xf32>, tensor<2xf32>, tensor<i64>, tensor<1xf32>
    })",
             {onRanks("tensor<2xf32>", {{1, 2}, {30, 4}, {5, 6}, {7, 8}})},
             {{{6, 8}, {37, 12}, {6, 8}, {37, 12}},
              {{1, 2, 30, 4}, {1, 2, 30, 4}, {5, 6, 7, 8}, {5, 6, 7, 8}},
              {{30}, {4}, {7}, {8}},
              {{1, 5}, {30, 7}, {2, 6}, {4, 8}},
              {{0}, {1}, {2}, {3}},
              {{1}, {4}, {5}, {8}}});
}

TEST_CASE("broadcast and permute send from place to place") {
  checkRanks(R"(
    dist.mesh @mesh ["data" = 2]
    func.func @main(%x: tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>) {
      %b = dist.broadcast %x root 1 on @mesh ["data"] : tensor<1xi64>
      %p = dist.collective_permute %x pairs [0, 1] on @mesh ["data"] : tensor<1xi64>
      return %b, %p : tensor<1xi64>, tensor<1xi64>
    })",
             {onRanks("tensor<1xi64>", {{3}, {4}})}, {{{4}, {4}}, {{0}, {3}}});
}

TEST_CASE("a started collective gives its results at the wait") {
  checkRanks(R"(
    dist.mesh @mesh ["data" = 2]
    func.func @main(%x: tensor<1xf32>, %y: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
      %t = dist.start {
        %s:2 = dist.all_reduce sum %x, %y on @mesh ["data"] : tensor<1xf32>, tensor<1xf32>
        dist.yield %s#0, %s#1 : tensor<1xf32>, tensor<1xf32>
      } : !dist.token<tensor<1xf32>, tensor<1xf32>>
      %r:2 = dist.wait %t : !dist.token<tensor<1xf32>, tensor<1xf32>> -> tensor<1xf32>, tensor<1xf32>
      return %r#0, %r#1 : tensor<1xf32>, tensor<1xf32>
    })",
             {onRanks("tensor<1xf32>", {{1}, {2}}),
              onRanks("tensor<1xf32>", {{10}, {20}})},
             {{{3}, {3}}, {{30}, {30}}});
}

TEST_CASE("a mesh of another size is refused") {
  CHECK(runRanks(R"(
    dist.mesh @mesh ["data" = 4]
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
      %s = dist.all_reduce sum %x on @mesh ["data"] : tensor<1xf32>
      return %s : tensor<1xf32>
    })",
                 2, {onRanks("tensor<1xf32>", {{1}, {2}})})
            .empty());
}
