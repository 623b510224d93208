// Sums, means, extremes, norms, and running sums.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// Operand, dimensions and whether they stay: what every reduction reads.
struct Reduction {
  Value x;
  Shape dims;
  bool keep;
  explicit Reduction(OpCall &op, Type type = {}) {
    x = op.tensor("self");
    keep = op.flag("keepdim");
    op.ignore({"dtype"});
    if (op.bad())
      return;
    dims = op.dims("dim", rankOf(x));
    x = type ? op.t.convert(x, type) : x;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t dim : dims)
      n *= shapeOf(x)[dim];
    return n;
  }
};

static void lowerSum(OpCall &op) {
  Reduction r(op, op.resultElement());
  if (op.base == "nansum" && r.x)
    r.x = op.t.select(op.t.compare(CompareDirection::NE, r.x, r.x), 0, r.x);
  op.result(op.t.sum(r.x, r.dims, r.keep));
}

static void lowerMean(OpCall &op) {
  Type out = op.resultElement();
  Reduction r(op, computeType(out));
  op.result(op.t.mean(r.x, r.dims, r.keep));
}

static void lowerProd(OpCall &op) {
  Reduction r(op, op.resultElement());
  op.result(op.t.reduce(ReduceKind::Product, r.x, r.dims, r.keep));
}

template <ReduceKind kind> static void lowerLogical(OpCall &op) {
  Reduction r(op, op.t.i1());
  op.result(op.t.reduce(kind, r.x, r.dims, r.keep));
}

static void lowerCountNonzero(OpCall &op) {
  Reduction r(op, op.t.i1());
  op.result(op.t.sum(op.t.convert(r.x, op.t.i64()), r.dims, r.keep));
}

template <ReduceKind kind> static void lowerExtreme(OpCall &op) {
  Reduction r(op);
  op.result(op.t.reduce(kind, r.x, r.dims, r.keep));
}

static void lowerAminmax(OpCall &op) {
  Reduction r(op);
  op.results({op.t.reduce(ReduceKind::Min, r.x, r.dims, r.keep),
              op.t.reduce(ReduceKind::Max, r.x, r.dims, r.keep)});
}

//===----------------------------------------------------------------------===//
// Variance
//===----------------------------------------------------------------------===//

/// var, std, var_mean, std_mean: the divisor is count - correction.
static void lowerVariance(OpCall &op) {
  Type out = op.resultElement();
  Reduction r(op, computeType(out));
  double correction = op.has("correction")        ? op.real("correction")
                      : op.flag("unbiased", true) ? 1
                                                  : 0;
  op.ignore({"correction", "unbiased"});
  if (op.bad())
    return;
  Value mean = op.t.mean(r.x, r.dims, true);
  Value squares = op.t.sum(op.t.square(op.t.sub(r.x, mean)), r.dims, r.keep);
  Value variance = op.t.div(
      squares, std::max(0.0, static_cast<double>(r.count()) - correction));
  op.result(0, op.base.starts_with("std") ? op.t.sqrt(variance) : variance);
  if (op.base.ends_with("_mean"))
    op.result(1, op.t.reshape(mean, op.resultShape(1)));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The square root, whose derivative at 0 is taken as 0.
static Value safeSqrt(Emitter &t, Value squares) {
  Value zero = t.compare(CompareDirection::EQ, squares, 0);
  return t.select(zero, 0, t.sqrt(t.select(zero, 1, squares)));
}

Value vectorNorm(Emitter &t, Value x, double p, Dims dims, bool keep) {
  Value size = x && p == 2 ? x : t.abs(x);
  if (!size)
    return {};
  if (p == INFINITY || p == -INFINITY)
    return t.reduce(p > 0 ? ReduceKind::Max : ReduceKind::Min, size, dims,
                    keep);
  if (p == 0)
    return t.sum(t.convert(t.compare(CompareDirection::NE, x, 0), elementOf(x)),
                 dims, keep);
  if (p == 1)
    return t.sum(size, dims, keep);
  if (p == 2)
    return safeSqrt(t, t.sum(t.square(x), dims, keep));
  return t.binary<PowerOp>(t.sum(t.binary<PowerOp>(size, p), dims, keep),
                           1 / p);
}

static void lowerNorm(OpCall &op) {
  Type out = op.resultElement();
  double p = 2;
  for (StringRef name : {"p", "ord"})
    if (op.has(name)) {
      if (op.argument(name)->is<std::string>() && op.string(name, "") == "fro")
        continue;
      p = op.real(name);
    }
  Reduction r(op, computeType(out));
  op.result(op.bad() ? Value() : vectorNorm(op.t, r.x, p, r.dims, r.keep));
}

static void lowerLogSumExp(OpCall &op) {
  Type out = op.resultElement();
  Reduction r(op, computeType(out));
  if (op.bad())
    return;
  // The maximum is a constant of the derivative; where it is infinite it is not
  // subtracted.
  Value top =
      op.t.stopGradient(op.t.reduce(ReduceKind::Max, r.x, r.dims, true));
  top = op.t.select(op.t.compare(CompareDirection::EQ, op.t.abs(top), INFINITY),
                    0, top);
  Value sum = op.t.log(op.t.sum(op.t.exp(op.t.sub(r.x, top)), r.dims, true));
  Value result = op.t.add(sum, top);
  op.result(op.t.reshape(result, op.resultShape()));
}

//===----------------------------------------------------------------------===//
// Running reductions, softmax
//===----------------------------------------------------------------------===//

template <ReduceKind kind> static void lowerCumulative(OpCall &op) {
  op.ignore({"dtype"});
  Value x = op.t.convert(op.tensor("self"), op.resultElement());
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  op.result(rankOf(x) == 0 ? x : op.t.cumulative(kind, x, dim));
}

static void lowerLogCumSumExp(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad() || rankOf(x) == 0)
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  Value top = op.t.stopGradient(op.t.reduce(ReduceKind::Max, x, {dim}, true));
  op.result(op.t.add(op.t.log(op.t.cumulative(ReduceKind::Sum,
                                              op.t.exp(op.t.sub(x, top)), dim)),
                     top));
}

static void lowerSoftmax(OpCall &op) {
  op.ignore({"dtype", "half_to_float"});
  Type out = op.resultElement();
  Value x = op.tensor("self");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  bool logarithm = op.base.contains("log_softmax");
  if (!isa<FloatType>(out) || rankOf(x) == 0)
    return op.result(op.t.constant(shapeOf(x), out, logarithm ? 0 : 1));
  // An explicit dtype converts before, as PyTorch does.
  x = op.t.convert(x, out);
  Value y = op.t.softmax(x, dim, logarithm);
  if (op.base == "_safe_softmax") {
    Value top = op.t.reduce(ReduceKind::Max, x, {dim}, true);
    y = op.t.select(op.t.compare(CompareDirection::EQ, top, -INFINITY), 0, y);
  }
  op.result(y);
}

static void lowerTrace(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad() || rankOf(x) != 2)
    return;
  int64_t n = std::min(shapeOf(x)[0], shapeOf(x)[1]);
  Value square = op.t.slice(x, {0, 0}, {n, n}, {1, 1});
  Value same =
      op.t.compare(CompareDirection::EQ, op.t.iota({n, n}, op.t.i64(), 0),
                   op.t.iota({n, n}, op.t.i64(), 1));
  op.result(op.t.sumAll(op.t.select(same, square, 0)));
}

void addReductions(OperatorTable &table) {
  table.add({"sum", "nansum"}, lowerSum);
  table.add("mean", lowerMean);
  table.add("prod", lowerProd);
  table.add({"any", "_is_any_true"}, lowerLogical<ReduceKind::Or>);
  table.add({"all", "_is_all_true"}, lowerLogical<ReduceKind::And>);
  table.add("count_nonzero", lowerCountNonzero);
  table.add("amax", lowerExtreme<ReduceKind::Max>);
  table.add("amin", lowerExtreme<ReduceKind::Min>);
  table.add("aminmax", lowerAminmax);
  table.add({"var", "std", "var_mean", "std_mean"}, lowerVariance);
  table.add({"norm", "linalg_vector_norm", "linalg_norm", "frobenius_norm"},
            lowerNorm);
  table.add({"logsumexp", "special_logsumexp"}, lowerLogSumExp);
  table.add("cumsum", lowerCumulative<ReduceKind::Sum>);
  table.add("cumprod", lowerCumulative<ReduceKind::Product>);
  table.add("logcumsumexp", lowerLogCumSumExp);
  table.add({"softmax", "_softmax", "log_softmax", "_log_softmax",
             "special_softmax", "special_log_softmax", "_safe_softmax"},
            lowerSoftmax);
  table.add("trace", lowerTrace);
}

} // namespace lockstep::aten
