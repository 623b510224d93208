//===- decomposition_test.cpp - Every composite equals its decomposition
//-----------===//
//
// The evaluation of a composite operation follows its definition; its
// decomposition is evaluated operation by operation. Both must agree, for
// random shapes and every floating-point type.
//
//===----------------------------------------------------------------------===//
#include "test/reference/Evaluate.h"
#include <catch2/catch.hpp>

using namespace lockstep::test;

static double toleranceOf(const std::string &element) {
  if (element == "f64")
    return 1e-12;
  return element == "f32" ? 2e-5 : element == "f16" ? 4e-3 : 3e-2;
}

static std::string accumulationOf(const std::string &element) {
  return element == "f64" ? "f64" : "f32";
}

static std::string join(const std::vector<Tensor> &tensors) {
  std::string text;
  for (const Tensor &tensor : tensors)
    text += (text.empty() ? "" : ", ") + tensor.type;
  return text;
}

static void checkEqual(const std::string &body,
                       const std::vector<Tensor> &operands, double tolerance) {
  INFO(body);
  std::vector<Tensor> direct = evaluate(body, operands),
                      composed = evaluateDecomposed(body, operands);
  REQUIRE(!direct.empty());
  REQUIRE(direct.size() == composed.size());
  for (size_t i = 0; i < direct.size(); ++i) {
    REQUIRE(direct[i].type == composed[i].type);
    for (size_t j = 0; j < direct[i].values.size(); ++j) {
      INFO("result " << i << " element " << j << ": " << direct[i].values[j]
                     << " and " << composed[i].values[j]);
      REQUIRE(isClose(composed[i].values[j], direct[i].values[j], tolerance));
    }
  }
}

static std::vector<int64_t> randomShape(Random &random, int64_t minRank,
                                        int64_t maxRank) {
  std::vector<int64_t> shape(random.integer(minRank, maxRank));
  for (int64_t &size : shape)
    size = random.integer(1, 7);
  return shape;
}

/// Calls f(random, element type) for several seeds of every type.
template <typename F> static void forEachCase(F f) {
  for (const char *element : {"f32", "f64", "bf16", "f16"})
    for (unsigned seed = 0; seed < 6; ++seed) {
      Random random(seed);
      f(random, std::string(element));
    }
}

TEST_CASE("softmax and log_softmax equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 1, 4);
    std::string dim =
        std::to_string(random.integer(0, int64_t(shape.size()) - 1));
    Tensor x = random.normals(shape, element, 10);
    for (const char *op : {"softmax", "log_softmax"})
      checkEqual("%r = train." + std::string(op) + " %a dim " + dim + " : " +
                     x.type,
                 {x}, toleranceOf(element));
  });
}

TEST_CASE("layer_norm and its gradient equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 1, 4);
    int64_t axes = random.integer(1, int64_t(shape.size()));
    std::vector<int64_t> rows(shape.begin(), shape.end() - axes),
        weights(shape.end() - axes, shape.end());
    std::string text = " axes " + std::to_string(axes),
                statistics = tensorType(rows, accumulationOf(element));
    Tensor x = random.normals(shape, element, 1, 3),
           w = random.normals(weights, element),
           b = random.normals(weights, element);
    std::string results =
        " -> (" + x.type + ", " + statistics + ", " + statistics + ")";
    double tolerance = 10 * toleranceOf(element);
    checkEqual("%y:3 = train.layer_norm %a weight %b bias %c" + text +
                   " eps 1.0e-02 : (" + join({x, w, b}) + ")" + results,
               {x, w, b}, tolerance);
    checkEqual("%y:3 = train.layer_norm %a" + text + " eps 1.0e-02 : (" +
                   x.type + ")" + results,
               {x}, tolerance);
    Tensor dy = random.normals(shape, element),
           mean = random.normals(rows, accumulationOf(element), 0.1, 3),
           rstd = random.normals(rows, accumulationOf(element), 0.1, 1);
    std::string gradients =
        " -> (" + x.type + ", " + w.type + ", " + w.type + ")";
    checkEqual("%grad:3 = train.layer_norm_gradient %a, %b, %c, %d weight %e" +
                   text + " : (" + join({dy, x, mean, rstd, w}) + ")" +
                   gradients,
               {dy, x, mean, rstd, w}, tolerance);
    checkEqual("%grad:3 = train.layer_norm_gradient %a, %b, %c, %d" + text +
                   " : (" + join({dy, x, mean, rstd}) + ")" + gradients,
               {dy, x, mean, rstd}, tolerance);
  });
}

TEST_CASE("rms_norm and its gradient equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 1, 4);
    int64_t axes = random.integer(1, int64_t(shape.size()));
    std::vector<int64_t> rows(shape.begin(), shape.end() - axes),
        weights(shape.end() - axes, shape.end());
    std::string text = " axes " + std::to_string(axes);
    Tensor x = random.normals(shape, element),
           w = random.normals(weights, element),
           dy = random.normals(shape, element);
    Tensor rstd = random.normals(rows, accumulationOf(element), 0.1, 1);
    double tolerance = 10 * toleranceOf(element);
    checkEqual("%y:2 = train.rms_norm %a weight %b" + text +
                   " eps 1.0e-02 : (" + join({x, w}) + ") -> (" +
                   join({x, rstd}) + ")",
               {x, w}, tolerance);
    checkEqual("%y:2 = train.rms_norm %a" + text + " eps 1.0e-02 : (" + x.type +
                   ") -> (" + join({x, rstd}) + ")",
               {x}, tolerance);
    checkEqual("%grad:2 = train.rms_norm_gradient %a, %b, %c weight %d" + text +
                   " : (" + join({dy, x, rstd, w}) + ") -> (" + join({x, w}) +
                   ")",
               {dy, x, rstd, w}, tolerance);
    checkEqual("%grad:2 = train.rms_norm_gradient %a, %b, %c" + text + " : (" +
                   join({dy, x, rstd}) + ") -> (" + join({x, w}) + ")",
               {dy, x, rstd}, tolerance);
  });
}

TEST_CASE("batch_norm and its gradient equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 2, 5), channels{shape[1]};
    std::string wide = accumulationOf(element);
    Tensor x = random.normals(shape, element, 1, 2),
           dy = random.normals(shape, element),
           w = random.normals(channels, element),
           b = random.normals(channels, element);
    Tensor mean = random.normals(channels, wide),
           var = random.normals(channels, wide, 0.1, 1);
    double tolerance = 20 * toleranceOf(element);
    std::string results = " -> (" + join({x, mean, mean, mean, mean}) + ")";
    for (const char *mode : {"", " {inference}", " {local_statistics}"}) {
      checkEqual("%y:5 = train.batch_norm %a weight %b bias %c running %d, %e "
                 "momentum 1.0e-01 eps 1.0e-02" +
                     std::string(mode) + " : (" + join({x, w, b, mean, var}) +
                     ")" + results,
                 {x, w, b, mean, var}, tolerance);
      checkEqual(
          "%grad:3 = train.batch_norm_gradient %a, %b, %c, %d weight %e" +
              std::string(mode) + " : (" + join({dy, x, mean, var, w}) +
              ") -> (" + join({x, w, w}) + ")",
          {dy, x, mean, var, w}, tolerance);
    }
    checkEqual("%y:5 = train.batch_norm %a momentum 1.0e-01 eps 1.0e-02 : (" +
                   x.type + ")" + results,
               {x}, tolerance);
  });
}

TEST_CASE("attention and its gradient equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    int64_t batch = random.integer(1, 3), groups = random.integer(1, 3),
            heads = groups * random.integer(1, 3);
    int64_t queries = random.integer(1, 6), keys = random.integer(1, 6),
            width = random.integer(1, 5), valueWidth = random.integer(1, 5);
    Tensor q = random.normals({batch, heads, queries, width}, element),
           k = random.normals({batch, groups, keys, width}, element),
           v = random.normals({batch, groups, keys, valueWidth}, element);
    Tensor output =
               random.normals({batch, heads, queries, valueWidth}, element),
           lse =
               random.normals({batch, heads, queries}, accumulationOf(element));
    Tensor cotangent =
        random.normals({batch, heads, queries, valueWidth}, element);
    Tensor seen = random.integers({batch, 1, queries, keys}, 0, 1, "i1"),
           bias = random.normals({1, heads, 1, keys}, element);
    double tolerance = 10 * toleranceOf(element);
    std::string results = " -> (" + join({output, lse}) + ")";
    for (const char *mode : {"", " {causal}", " {causal, window = 2 : i64}",
                             " {window = 1 : i64}"}) {
      std::string text = " scale 7.0e-01" + std::string(mode);
      checkEqual("%out:2 = train.attention %a, %b, %c" + text + " : (" +
                     join({q, k, v}) + ")" + results,
                 {q, k, v}, tolerance);
      for (const Tensor &mask : {seen, bias}) {
        std::vector<Tensor> operands{q, k, v, mask};
        checkEqual("%out:2 = train.attention %a, %b, %c mask %d" + text +
                       " : (" + join(operands) + ")" + results,
                   operands, tolerance);
        // The gradient's decomposition uses the saved output and log-sum-exp:
        // they must be the forward operation's.
        std::vector<Tensor> saved =
            evaluate("%out:2 = train.attention %a, %b, %c mask %d" + text +
                         " : (" + join(operands) + ")" + results,
                     operands);
        REQUIRE(saved.size() == 2);
        std::vector<Tensor> all{cotangent, q, k, v, saved[0], saved[1], mask};
        checkEqual("%grad:3 = train.attention_gradient %a, %b, %c, %d, %e, %f "
                   "mask %g" +
                       text + " : (" + join(all) + ") -> (" + join({q, k, v}) +
                       ")",
                   all, tolerance);
      }
    }
  });
}

TEST_CASE("embedding and its gradient equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    int64_t rows = random.integer(2, 6), width = random.integer(1, 5);
    std::vector<int64_t> idShape = randomShape(random, 0, 3),
                         outShape = idShape;
    outShape.push_back(width);
    Tensor table = random.normals({rows, width}, element),
           dy = random.normals(outShape, element);
    for (const char *idType : {"i64", "i32", "ui8"}) {
      Tensor ids = random.integers(idShape, 0, rows - 1, idType);
      checkEqual("%r = train.embedding %a, %b : " + join({table, ids}),
                 {table, ids}, 0);
      for (const char *padding : {"", " {padding_idx = 1 : i64}"})
        checkEqual("%r = train.embedding_gradient %a, %b" +
                       std::string(padding) + " : " + join({dy, ids}) + " -> " +
                       table.type,
                   {dy, ids}, toleranceOf(element));
    }
  });
}

TEST_CASE(
    "cross_entropy, its gradient and label_count equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 1, 3);
    int64_t dimension = random.integer(0, int64_t(shape.size()) - 1),
            classes = shape[dimension];
    std::vector<int64_t> positions = shape;
    positions.erase(positions.begin() + dimension);
    std::string wide = accumulationOf(element),
                dim = " dim " + std::to_string(dimension);
    Tensor logits = random.normals(shape, element, 5),
           labels = random.integers(positions, 0, classes - 1);
    if (!labels.values.empty() && labels.values.size() > 1)
      labels.values[0] = -100;
    Tensor sum{tensorType({}, wide), {0.3}},
        lse = random.normals(positions, wide, 1, 8);
    for (const char *smoothing : {"0.0", "1.0e-01"}) {
      std::string text = dim + " ignore -100 smoothing " + smoothing;
      checkEqual("%loss:2 = train.cross_entropy %a, %b" + text + " : (" +
                     join({logits, labels}) + ") -> (" + join({sum, lse}) + ")",
                 {logits, labels}, toleranceOf(wide) * 10);
      std::vector<Tensor> operands{logits, labels, lse, sum};
      checkEqual("%grad = train.cross_entropy_gradient %a, %b, %c, %d" + text +
                     " : (" + join(operands) + ") -> " + logits.type,
                 operands, toleranceOf(element));
    }
    checkEqual("%new = train.label_count %a ignore -100 : " + labels.type +
                   " -> " + sum.type,
               {labels}, 0);
  });
}

TEST_CASE("global_norm, sgd and adam equal their decompositions") {
  forEachCase([](Random &random, const std::string &element) {
    std::vector<int64_t> shape = randomShape(random, 0, 3);
    Tensor p = random.normals(shape, element),
           g = random.normals(shape, element),
           m = random.normals(shape, element, 0.1);
    Tensor v = m;
    for (double &value : v.values)
      value *= value;
    auto scalar = [&](double value) {
      return Tensor{tensorType({}, accumulationOf(element)), {value}};
    };
    Tensor lr = scalar(0.1), decay = scalar(0.01), scale = scalar(0.5),
           momentum = scalar(0.9);
    double tolerance = toleranceOf(element);
    checkEqual("%new = train.global_norm %a, %b : " + join({p, g}) + " -> " +
                   lr.type,
               {p, g}, tolerance);
    std::vector<Tensor> plain{p, g, lr, decay, scale},
        buffered{p, g, m, momentum, lr, decay, scale};
    checkEqual("%new = train.sgd %a, %b scalars %c, %d, %e : " + join(plain) +
                   " -> " + p.type,
               plain, tolerance);
    for (const char *mode : {"", " {nesterov}"})
      checkEqual("%new:2 = train.sgd %a, %b buffer %c, %d scalars %e, %f, %g" +
                     std::string(mode) + " : " + join(buffered) + " -> " +
                     join({p, m}),
                 buffered, tolerance);
    std::vector<Tensor> all{p,
                            g,
                            m,
                            v,
                            lr,
                            decay,
                            momentum,
                            scalar(0.999),
                            scalar(1e-8),
                            scalar(0.1),
                            scalar(0.001),
                            scale};
    for (const char *mode : {"", " {decoupled}"})
      checkEqual("%new:3 = train.adam %a, %b, %c, %d scalars %e, %f, %g, %h, "
                 "%i, %j, %k, %l" +
                     std::string(mode) + " : " + join(all) + " -> " +
                     join({p, m, v}),
                 all, tolerance * 10);
  });
}
