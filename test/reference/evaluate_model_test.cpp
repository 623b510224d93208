//===- evaluate_model_test.cpp - Values of layers, loss and update
//--------------------===//
//
// Closed forms and PyTorch's answers in the corner cases: rows of -inf, ignored
// labels, smoothing, unseen keys.
//
//===----------------------------------------------------------------------===//
#include "test/reference/Check.h"
#include <catch2/catch.hpp>

using namespace lockstep::test;

TEST_CASE("softmax survives large numbers, and a row of -inf is NaN") {
  Tensor x{"tensor<3x2xf32>", {1000, 1000, 0, std::log(3.0), -kInf, -kInf}};
  checkValues("%r = train.softmax %a dim 1 : " + x.type, {x},
              {{0.5, 0.5, 0.25, 0.75, kNaN, kNaN}}, 1e-6);
  Tensor y{"tensor<2xf32>", {-kInf, 0}};
  checkValues("%r = train.softmax %a dim 0 : " + y.type, {y}, {{0, 1}});
  checkValues("%r = train.log_softmax %a dim 0 : " + y.type, {y}, {{-kInf, 0}});
}

TEST_CASE("layer_norm normalises each row") {
  Tensor x{"tensor<2x2xf64>", {1, 3, 10, 10}}, w{"tensor<2xf64>", {2, 1}},
      b{"tensor<2xf64>", {0, 5}};
  checkValues("%r:3 = train.layer_norm %a weight %b bias %c axes 1 eps 0.0 : "
              "(tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>) -> "
              "(tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>)",
              {{"tensor<2x2xf64>", {1, 3, 8, 4}}, w, b},
              {{-2, 6, 2, 4}, {2, 6}, {1, 0.5}}, 1e-12);
}

TEST_CASE("layer_norm of a large offset keeps its precision") {
  Tensor x{"tensor<1x2xf32>", {1e6, 1e6 + 1}};
  checkValues("%r:3 = train.layer_norm %a axes 1 eps 0.0 : (tensor<1x2xf32>) "
              "-> (tensor<1x2xf32>, tensor<1xf32>, tensor<1xf32>)",
              {x}, {{-1, 1}, {1e6}, {2}}, 1e-6);
}

TEST_CASE("batch_norm moves the running statistics by the unbiased variance") {
  Tensor x{"tensor<2x1xf64>", {1, 3}}, mean{"tensor<1xf64>", {10}},
      var{"tensor<1xf64>", {4}};
  std::string types =
      " : (tensor<2x1xf64>, tensor<1xf64>, tensor<1xf64>) -> (tensor<2x1xf64>, "
      "tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, "
      "tensor<1xf64>)";
  // Batch mean 2, biased variance 1, unbiased 2.
  checkValues(
      "%r:5 = train.batch_norm %a running %b, %c momentum 1.0e-01 eps 0.0" +
          types,
      {x, mean, var}, {{-1, 1}, {2}, {1}, {9.2}, {3.8}}, 1e-12);
  checkValues("%r:5 = train.batch_norm %a running %b, %c momentum 1.0e-01 eps "
              "0.0 {inference}" +
                  types,
              {x, mean, var}, {{-4.5, -3.5}, {10}, {0.5}, {10}, {4}}, 1e-12);
}

TEST_CASE("embedding's gradient sums by id and leaves the padding row alone") {
  Tensor dy{"tensor<3x1xf32>", {1, 2, 4}}, ids{"tensor<3xi64>", {1, 0, 1}};
  checkValues("%r = train.embedding_gradient %a, %b : tensor<3x1xf32>, "
              "tensor<3xi64> -> tensor<2x1xf32>",
              {dy, ids}, {{2, 5}});
  checkValues("%r = train.embedding_gradient %a, %b {padding_idx = 1 : i64} : "
              "tensor<3x1xf32>, tensor<3xi64> -> tensor<2x1xf32>",
              {dy, ids}, {{2, 0}});
}

TEST_CASE("attention: causal, window, unseen rows, groups") {
  // All scores are equal, so a row is the mean of the values it sees.
  Tensor zero{"tensor<1x1x3x1xf32>", {0, 0, 0}},
      v{"tensor<1x1x3x1xf32>", {3, 6, 12}};
  std::string types =
      " : (tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>) -> "
      "(tensor<1x1x3x1xf32>, tensor<1x1x3xf32>)";
  auto attention = [&](const std::string &mode, const std::vector<double> &out,
                       const std::vector<double> &seen) {
    std::vector<double> lse;
    for (double count : seen)
      lse.push_back(std::log(count));
    checkValues("%r:2 = train.attention %a, %b, %c scale 1.0" + mode + types,
                {zero, zero, v}, {out, lse}, 1e-6);
  };
  attention("", {7, 7, 7}, {3, 3, 3});
  attention(" {causal}", {3, 4.5, 7}, {1, 2, 3});
  attention(" {causal, window = 2 : i64}", {3, 4.5, 9}, {1, 2, 2});
  attention(" {window = 1 : i64}", {7, 9, 12}, {3, 2, 1});
  Tensor mask{"tensor<1x1x3x3xi1>", {0, 0, 0, 1, 0, 0, 0, 1, 1}};
  checkValues("%r:2 = train.attention %a, %b, %c mask %d scale 1.0 : "
              "(tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>, "
              "tensor<1x1x3x3xi1>) -> (tensor<1x1x3x1xf32>, tensor<1x1x3xf32>)",
              {zero, zero, v, mask}, {{0, 3, 9}, {-kInf, 0, std::log(2.0)}},
              1e-6);
  // Four heads, two groups: heads 0 and 1 see the first, 2 and 3 the second.
  Tensor q{"tensor<1x4x1x1xf32>", {0, 0, 0, 0}},
      k{"tensor<1x2x1x1xf32>", {0, 0}}, w{"tensor<1x2x1x1xf32>", {1, 2}};
  checkValues(
      "%r:2 = train.attention %a, %b, %c scale 1.0 : (tensor<1x4x1x1xf32>, "
      "tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> "
      "(tensor<1x4x1x1xf32>, tensor<1x4x1xf32>)",
      {q, k, w}, {{1, 1, 2, 2}, {0, 0, 0, 0}});
}

TEST_CASE("cross_entropy ignores, smooths and sums") {
  // p = (1/4, 3/4) in both rows.
  Tensor logits{"tensor<2x2xf64>", {0, std::log(3.0), 5, 5 + std::log(3.0)}},
      labels{"tensor<2xi64>", {1, -100}};
  std::string types =
      " : (tensor<2x2xf64>, tensor<2xi64>) -> (tensor<f64>, tensor<2xf64>)";
  double hit = -std::log(0.75), miss = -std::log(0.25);
  std::vector<double> lse{std::log(4.0), 5 + std::log(4.0)};
  checkValues(
      "%r:2 = train.cross_entropy %a, %b dim 1 ignore -100 smoothing 0.0" +
          types,
      {logits, labels}, {{hit}, lse}, 1e-12);
  checkValues(
      "%r:2 = train.cross_entropy %a, %b dim 1 ignore -100 smoothing 2.0e-01" +
          types,
      {logits, labels}, {{0.8 * hit + 0.1 * (hit + miss)}, lse}, 1e-12);
  checkValues("%r:2 = train.cross_entropy %a, %b dim 1 ignore 7 smoothing 0.0" +
                  types,
              {logits, {"tensor<2xi64>", {0, 1}}}, {{hit + miss}, lse}, 1e-12);
  Tensor lseTensor{"tensor<2xf64>", lse}, scale{"tensor<f64>", {2}};
  checkValues("%r = train.cross_entropy_gradient %a, %b, %c, %d dim 1 ignore "
              "-100 smoothing 2.0e-01 : (tensor<2x2xf64>, tensor<2xi64>, "
              "tensor<2xf64>, tensor<f64>) -> tensor<2x2xf64>",
              {logits, labels, lseTensor, scale},
              {{2 * (0.25 - 0.1), 2 * (0.75 - 0.9), 0, 0}}, 1e-12);
  checkValues(
      "%r = train.label_count %a ignore -100 : tensor<2xi64> -> tensor<f32>",
      {labels}, {{1}});
}

TEST_CASE("a -inf logit of another class does no harm") {
  Tensor logits{"tensor<1x3xf32>", {0, -kInf, 0}}, labels{"tensor<1xi64>", {0}};
  checkValues("%r:2 = train.cross_entropy %a, %b dim 1 ignore -100 smoothing "
              "0.0 : (tensor<1x3xf32>, tensor<1xi64>) -> (tensor<f32>, "
              "tensor<1xf32>)",
              {logits, labels}, {{std::log(2.0)}, {std::log(2.0)}}, 1e-6);
}

TEST_CASE("global_norm joins all operands") {
  checkValues("%r = train.global_norm %a, %b : tensor<1xf32>, tensor<2xf32> -> "
              "tensor<f32>",
              {{"tensor<1xf32>", {2}}, {"tensor<2xf32>", {-4, 4}}}, {{6}});
}

static Tensor scalar(double value) { return {"tensor<f64>", {value}}; }

TEST_CASE("sgd with momentum, Nesterov and decay is torch.optim.SGD") {
  Tensor p{"tensor<1xf64>", {2}}, g{"tensor<1xf64>", {1}},
      buffer{"tensor<1xf64>", {3}};
  // g = 1 * 0.5 + 0.1 * 2 = 0.7.
  checkValues(
      "%r = train.sgd %a, %b scalars %c, %d, %e : tensor<1xf64>, "
      "tensor<1xf64>, tensor<f64>, tensor<f64>, tensor<f64> -> tensor<1xf64>",
      {p, g, scalar(0.1), scalar(0.1), scalar(0.5)}, {{2 - 0.07}}, 1e-12);
  std::string types =
      " : tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<f64>, "
      "tensor<f64>, tensor<f64>, tensor<f64> -> tensor<1xf64>, "
      "tensor<1xf64>";
  std::vector<Tensor> operands{
      p, g, buffer, scalar(0.9), scalar(0.1), scalar(0.1), scalar(0.5)};
  checkValues("%r:2 = train.sgd %a, %b buffer %c, %d scalars %e, %f, %g" +
                  types,
              operands, {{2 - 0.34}, {3.4}}, 1e-12);
  checkValues(
      "%r:2 = train.sgd %a, %b buffer %c, %d scalars %e, %f, %g {nesterov}" +
          types,
      operands, {{2 - 0.1 * (0.7 + 0.9 * 3.4)}, {3.4}}, 1e-12);
}

TEST_CASE("the first step of Adam moves by the learning rate") {
  Tensor p{"tensor<2xf64>", {1, 1}}, g{"tensor<2xf64>", {5, -0.01}},
      zero{"tensor<2xf64>", {0, 0}};
  std::vector<Tensor> operands{
      p,           g,           zero,         zero,
      scalar(0.1), scalar(0.5), scalar(0.9),  scalar(0.99),
      scalar(0),   scalar(0.1), scalar(0.01), scalar(1)};
  std::string types =
      " : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, "
      "tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, "
      "tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64> -> tensor<2xf64>, "
      "tensor<2xf64>, tensor<2xf64>";
  checkValues("%r:3 = train.adam %a, %b, %c, %d scalars %e, %f, %g, %h, %i, "
              "%j, %k, %l {decoupled}" +
                  types,
              operands, {{0.95 - 0.1, 0.95 + 0.1}, {0.5, -0.001}, {0.25, 1e-6}},
              1e-9);
  // Coupled decay joins the gradient: 5 + 0.5 and -0.01 + 0.5 are both
  // positive.
  checkValues("%r:3 = train.adam %a, %b, %c, %d scalars %e, %f, %g, %h, %i, "
              "%j, %k, %l" +
                  types,
              operands, {{0.9, 0.9}, {0.55, 0.049}, {0.3025, 0.002401}}, 1e-9);
}
