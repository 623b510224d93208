// Activation functions, as compositions that fusion turns into one loop. Where
// a branch that is not taken could overflow, its argument is replaced first, so
// that no infinity meets a zero in the derivative.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// Computes in f32 for half precision.
static void lowerFloat(OpCall &op,
                       llvm::function_ref<Value(Emitter &, Value)> body) {
  Value x = op.tensor("self");
  Type out = op.resultElement();
  if (op.bad())
    return;
  if (!isa<FloatType>(out)) // relu and its like also take integers
    return op.result(body(op.t, x));
  op.result(op.t.convert(body(op.t, op.t.convert(x, computeType(out))), out));
}

static Value relu(Emitter &t, Value x) { return t.select(t.le(x, 0), 0, x); }

/// Between low and high; on the bounds the gradient is 0.
static Value bounded(Emitter &t, Value x, double low, double high) {
  return t.select(t.le(x, low), low, t.select(t.ge(x, high), high, x));
}

static Value softplus(Emitter &t, Value x, double beta, double threshold) {
  Value scaled = t.mul(x, beta), large = t.gt(scaled, threshold);
  return t.select(large, x,
                  t.div(t.log1p(t.exp(t.select(large, 0, scaled))), beta));
}

static void lowerRelu(OpCall &op) { lowerFloat(op, relu); }

static void lowerHardtanh(OpCall &op) {
  double low = op.real("min_val", -1), high = op.real("max_val", 1);
  if (op.base.starts_with("relu6"))
    low = 0, high = 6;
  lowerFloat(op, [&](Emitter &t, Value x) { return bounded(t, x, low, high); });
}

static Value hardsigmoid(Emitter &t, Value x) {
  return t.div(bounded(t, t.add(x, 3.0), 0, 6), 6.0);
}

static void lowerHardsigmoid(OpCall &op) { lowerFloat(op, hardsigmoid); }

static void lowerHardswish(OpCall &op) {
  lowerFloat(op,
             [](Emitter &t, Value x) { return t.mul(x, hardsigmoid(t, x)); });
}

static void lowerSilu(OpCall &op) {
  lowerFloat(op, [](Emitter &t, Value x) { return t.mul(x, t.sigmoid(x)); });
}

static void lowerMish(OpCall &op) {
  lowerFloat(op, [](Emitter &t, Value x) {
    return t.mul(x, t.tanh(softplus(t, x, 1, 20)));
  });
}

static void lowerGelu(OpCall &op) {
  bool tanh = op.string("approximate", "none") == "tanh";
  lowerFloat(op, [&](Emitter &t, Value x) {
    Value half = t.mul(x, 0.5);
    if (!tanh)
      return t.mul(half, t.add(t.erf(t.mul(x, M_SQRT1_2)), 1.0));
    Value inner = t.mul(t.add(x, t.mul(t.mul(t.square(x), x), 0.044715)),
                        std::sqrt(2 / M_PI));
    return t.mul(half, t.add(t.tanh(inner), 1.0));
  });
}

static void lowerSoftplus(OpCall &op) {
  double beta = op.real("beta", 1), threshold = op.real("threshold", 20);
  lowerFloat(
      op, [&](Emitter &t, Value x) { return softplus(t, x, beta, threshold); });
}

/// min(x, 0) - log(1 + e^-|x|); the second result is a buffer of the backward
/// pass.
static void lowerLogSigmoid(OpCall &op) {
  Value x = op.t.toCompute(op.tensor("self"));
  if (op.bad())
    return;
  Value tail = op.t.exp(op.t.neg(op.t.abs(x)));
  op.result(0, op.t.sub(op.t.select(op.t.gt(x, 0), 0, x), op.t.log1p(tail)));
  if (op.isResultUsed(1))
    op.unsupported("the buffer of log_sigmoid_forward");
}

static void lowerElu(OpCall &op) {
  double alpha = op.real("alpha", 1), scale = op.real("scale", 1),
         inputScale = op.real("input_scale", 1);
  if (op.base.starts_with("selu"))
    alpha = 1.6732632423543772, scale = 1.0507009873554805;
  if (op.base.starts_with("celu"))
    inputScale = 1 / alpha;
  lowerFloat(op, [&](Emitter &t, Value x) {
    Value positive = t.gt(x, 0);
    Value curve = t.mul(t.expm1(t.mul(t.select(positive, 0, x), inputScale)),
                        scale * alpha);
    return t.select(positive, t.mul(x, scale), curve);
  });
}

static void lowerLeakyRelu(OpCall &op) {
  double slope = op.real("negative_slope", 0.01);
  lowerFloat(op, [&](Emitter &t, Value x) {
    return t.select(t.gt(x, 0), x, t.mul(x, slope));
  });
}

/// One slope, or one for each channel (dimension 1).
static void lowerPrelu(OpCall &op) {
  Value x = op.tensor("self"), slope = op.tensor("weight");
  if (op.bad())
    return;
  if (op.base == "prelu" && rankOf(x) > 1) {
    Shape shape(rankOf(x), 1);
    shape[1] = countOf(shapeOf(slope));
    slope = op.t.reshape(slope, shape);
  }
  op.result(op.t.select(op.t.gt(x, 0), x, op.t.mul(x, slope)));
}

static void lowerThreshold(OpCall &op) {
  double threshold = op.real("threshold"), value = op.real("value");
  lowerFloat(op, [&](Emitter &t, Value x) {
    return t.select(t.le(x, threshold), value, x);
  });
}

static void lowerShrink(OpCall &op) {
  double lambda = op.real("lambd", 0.5);
  bool hard = op.base == "hardshrink";
  lowerFloat(op, [&](Emitter &t, Value x) {
    Value upper = hard ? x : t.sub(x, lambda),
          lower = hard ? x : t.add(x, lambda);
    return t.select(t.gt(x, lambda), upper,
                    t.select(t.lt(x, -lambda), lower, t.like(x, 0)));
  });
}

static void lowerTanhshrink(OpCall &op) {
  lowerFloat(op, [](Emitter &t, Value x) { return t.sub(x, t.tanh(x)); });
}

static void lowerLogit(OpCall &op) {
  std::optional<double> eps = op.optionalReal("eps");
  lowerFloat(op, [&](Emitter &t, Value x) {
    if (eps)
      x = t.select(t.lt(x, *eps), *eps,
                   t.select(t.gt(x, 1 - *eps), 1 - *eps, x));
    return t.log(t.div(x, t.sub(1, x)));
  });
}

static void lowerGlu(OpCall &op) {
  Value x = op.tensor("self");
  int64_t dim = op.bad() ? 0 : op.dim("dim", rankOf(x), -1);
  if (op.bad())
    return;
  int64_t half = rankOf(x) ? shapeOf(x)[dim] / 2 : 0;
  Value a = op.t.sliceDim(x, dim, 0, half),
        b = op.t.sliceDim(x, dim, half, 2 * half);
  op.result(op.t.mul(a, op.t.sigmoid(b)));
}

void addActivations(OperatorTable &table) {
  constexpr Form pointwise = Form::Pointwise;
  table.add("relu", lowerRelu, pointwise);
  table.add({"hardtanh", "relu6"}, lowerHardtanh, pointwise);
  table.add("hardsigmoid", lowerHardsigmoid, pointwise);
  table.add("hardswish", lowerHardswish, pointwise);
  table.add("silu", lowerSilu, pointwise);
  table.add("mish", lowerMish, pointwise);
  table.add("gelu", lowerGelu, pointwise);
  table.add("softplus", lowerSoftplus, pointwise);
  table.add({"log_sigmoid", "log_sigmoid_forward"}, lowerLogSigmoid);
  table.add({"elu", "selu", "celu"}, lowerElu, pointwise);
  table.add("leaky_relu", lowerLeakyRelu, pointwise);
  table.add({"prelu", "_prelu_kernel"}, lowerPrelu);
  table.add("threshold", lowerThreshold, pointwise);
  table.add({"softshrink", "hardshrink"}, lowerShrink, pointwise);
  table.add("tanhshrink", lowerTanhshrink, pointwise);
  table.add({"logit", "special_logit"}, lowerLogit, pointwise);
  table.add("glu", lowerGlu);
}

} // namespace lockstep::aten
