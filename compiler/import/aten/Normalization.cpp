// Layer, RMS, group, instance and batch normalization.
#include "compiler/import/aten/Lowering.h"

#include <limits>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// layer_norm over the last `axes` dimensions: [result, mean, rstd].
static Operation *layerNorm(Emitter &t, Value x, Value weight, Value bias,
                            int64_t axes, double eps) {
  SmallVector<Value> operands{x};
  for (Value part : {weight, bias})
    if (part)
      operands.push_back(part);
  return t.inferred<LayerNormOp>(operands, [&](auto &p) {
    p.axes = t.integer(axes), p.eps = t.real(eps);
    p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};
  });
}

static void lowerLayerNorm(OpCall &op) {
  Value x = op.tensor("input"), weight = op.optionalTensor("weight"),
        bias = op.optionalTensor("bias");
  int64_t axes = op.integers("normalized_shape").size();
  double eps = op.real("eps", 1e-5);
  Operation *norm =
      op.bad() ? nullptr : layerNorm(op.t, x, weight, bias, axes, eps);
  if (!norm)
    return;
  op.result(0, norm->getResult(0));
  for (size_t i = 1; i < std::min<size_t>(op.resultCount(), 3); ++i)
    if (op.isResultUsed(i))
      op.result(i, op.t.reshape(norm->getResult(i), op.resultShape(i)));
}

static void lowerRmsNorm(OpCall &op) {
  Value x = op.tensor("input"), weight = op.optionalTensor("weight");
  int64_t axes = op.integers("normalized_shape").size();
  if (op.bad())
    return;
  double epsilon = isFloat(x) && elementOf(x).isF64()
                       ? std::numeric_limits<double>::epsilon()
                       : std::numeric_limits<float>::epsilon();
  double eps = op.has("eps") ? op.real("eps") : epsilon;
  SmallVector<Value> operands{x};
  if (weight)
    operands.push_back(weight);
  Operation *norm = op.t.inferred<RmsNormOp>(operands, [&](auto &p) {
    p.axes = op.t.integer(axes), p.eps = op.t.real(eps);
  });
  if (!norm)
    return;
  op.result(0, norm->getResult(0));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.result(1, op.t.reshape(norm->getResult(1), op.resultShape(1)));
}

static Value perChannel(Emitter &t, Value vector, int64_t rank) {
  if (!vector)
    return vector;
  Shape shape(rank, 1);
  shape[1] = countOf(shapeOf(vector));
  return t.reshape(vector, shape);
}

static Value scaleAndShift(Emitter &t, Value y, Value weight, Value bias) {
  if (!y)
    return y;
  y = weight ? t.mul(y, perChannel(t, weight, rankOf(y))) : y;
  return bias ? t.add(y, perChannel(t, bias, rankOf(y))) : y;
}

/// Each sample's groups of channels are rows of a layer norm.
static void lowerGroupNorm(OpCall &op) {
  Value x = op.tensor("input"), weight = op.optionalTensor("weight"),
        bias = op.optionalTensor("bias");
  int64_t groups = op.integer(op.base == "group_norm" ? "num_groups" : "group");
  op.ignore({"N", "C", "HxW"});
  double eps = op.real("eps", 1e-5);
  if (op.bad() || rankOf(x) < 2 || groups < 1 || shapeOf(x)[1] % groups)
    return void(op.t.fail("groups do not divide the channels"));
  int64_t count = countOf(shapeOf(x)), rows = shapeOf(x)[0] * groups;
  Value flat =
      op.t.reshape(x, {shapeOf(x)[0], groups, rows ? count / rows : 0});
  Operation *norm = layerNorm(op.t, flat, {}, {}, 1, eps);
  if (!norm)
    return;
  op.result(0, scaleAndShift(op.t, op.t.reshape(norm->getResult(0), shapeOf(x)),
                             weight, bias));
  for (size_t i = 1; i < op.resultCount(); ++i)
    if (op.isResultUsed(i))
      op.result(i, norm->getResult(i));
}

/// Moves the running statistics of instance norm towards the averages, over the
/// batch, of each instance's mean and variance.
static void trackStatistics(OpCall &op, Value x, Value mean, Value variance,
                            double momentum) {
  Shape spatial = llvm::to_vector(llvm::seq<int64_t>(2, rankOf(x)));
  int64_t count = countOf(shapeOf(x).drop_front(2));
  if (count < 2)
    return op.unsupported("running statistics of instances of one element");
  x = op.t.stopGradient(x);
  Value center = op.t.mean(x, spatial, true);
  Value spread = op.t.div(op.t.sum(op.t.square(op.t.sub(x, center)), spatial),
                          static_cast<double>(count - 1));
  Shape others{0};
  llvm::append_range(others, spatial);
  auto moved = [&](Value old, Value now) {
    return op.t.add(op.t.mul(old, 1 - momentum), op.t.mul(now, momentum));
  };
  op.write("running_mean", moved(mean, op.t.mean(center, others)));
  op.write("running_var", moved(variance, op.t.mean(spread, {0})));
}

static void lowerInstanceNorm(OpCall &op) {
  Value x = op.tensor("input"), weight = op.optionalTensor("weight"),
        bias = op.optionalTensor("bias");
  Value mean = op.optionalTensor("running_mean"),
        variance = op.optionalTensor("running_var");
  bool own = op.flag("use_input_stats", true);
  double eps = op.real("eps", 1e-5), momentum = op.real("momentum", 0.1);
  if (op.bad() || rankOf(x) < 2)
    return;
  if (!own)
    return op.unsupported("instance norm that reads running statistics; "
                          "export the model in training mode");
  if (mean && variance)
    trackStatistics(op, x, mean, variance, momentum);
  int64_t rows = shapeOf(x)[0] * shapeOf(x)[1];
  Operation *norm =
      layerNorm(op.t,
                op.t.reshape(x, {shapeOf(x)[0], shapeOf(x)[1],
                                 rows ? countOf(shapeOf(x)) / rows : 0}),
                {}, {}, 1, eps);
  if (norm)
    op.result(scaleAndShift(op.t, op.t.reshape(norm->getResult(0), shapeOf(x)),
                            weight, bias));
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

/// All variants. Results of the native ones: output, batch mean, batch rstd,
/// and of the functional ones the new statistics.
static void lowerBatchNorm(OpCall &op) {
  Value x = op.tensor("input"), weight = op.optionalTensor("weight"),
        bias = op.optionalTensor("bias");
  Value mean = op.optionalTensor("running_mean"),
        variance = op.optionalTensor("running_var");
  bool frozen = op.base == "_native_batch_norm_legit_no_training" ||
                op.base == "_batch_norm_no_update";
  bool training = !frozen && (op.base == "_batch_norm_with_update" ||
                              op.base == "_batch_norm_with_update_functional" ||
                              op.flag("training", true));
  op.ignore({"training"});
  double momentum = op.real("momentum", 0.1), eps = op.real("eps", 1e-5);
  if (op.bad())
    return;
  SmallVector<Value> operands{x};
  for (Value part : {weight, bias, mean, variance})
    if (part)
      operands.push_back(part);
  Operation *norm = op.t.inferred<BatchNormOp>(operands, [&](auto &p) {
    p.momentum = op.t.real(momentum), p.eps = op.t.real(eps);
    p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0, mean ? 1 : 0,
                             variance ? 1 : 0};
    if (!training)
      p.inference = op.t.b.getUnitAttr();
  });
  if (!norm)
    return;
  op.result(0, norm->getResult(0));
  bool functional = op.base.ends_with("_functional");
  for (size_t i = 1; i < op.resultCount(); ++i) {
    if (!op.isResultUsed(i))
      continue;
    bool isReserve = op.base.starts_with("_batch_norm_with") && i == 3;
    size_t source =
        functional && op.base.starts_with("_batch_norm_with") && i > 3 ? i - 1
                                                                       : i;
    if (isReserve || source > 4)
      return op.unsupported("the reserve of batch norm");
    op.result(i, norm->getResult(source));
  }
  if (training && mean && !functional) {
    op.write("running_mean", norm->getResult(3));
    op.write("running_var", norm->getResult(4));
  }
}

//===----------------------------------------------------------------------===//
// Weight norm
//===----------------------------------------------------------------------===//

/// g * v / |v|, the norm over all dimensions but `dim`.
static void lowerWeightNorm(OpCall &op) {
  Value v = op.tensor("v"), g = op.tensor("g");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(v), 0);
  Shape others = range(rankOf(v));
  others.erase(others.begin() + dim);
  Value norm = op.t.sqrt(op.t.sum(op.t.square(v), others, true));
  op.result(0, op.t.mul(v, op.t.div(g, norm)));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.result(1, norm);
}

void addNormalization(OperatorTable &table) {
  table.add({"layer_norm", "native_layer_norm"}, lowerLayerNorm);
  table.add({"rms_norm", "_fused_rms_norm"}, lowerRmsNorm);
  table.add({"group_norm", "native_group_norm"}, lowerGroupNorm);
  table.add("instance_norm", lowerInstanceNorm);
  table.add({"batch_norm", "native_batch_norm", "cudnn_batch_norm",
             "miopen_batch_norm", "_native_batch_norm_legit",
             "_native_batch_norm_legit_functional",
             "_native_batch_norm_legit_no_training", "_batch_norm_with_update",
             "_batch_norm_with_update_functional", "_batch_norm_no_update"},
            lowerBatchNorm);
  table.add({"_weight_norm", "_weight_norm_interface"}, lowerWeightNorm);
}

} // namespace lockstep::aten
