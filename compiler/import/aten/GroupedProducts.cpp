// Mixtures of experts as exports spell them: rows sorted by expert, counted by
// histc, multiplied group by group.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// Numbers of elements in `bins` equal intervals from min to max, the last one
/// closed; without bounds those of the elements.
static void lowerHistc(OpCall &op) {
  Value x = op.tensor("self");
  int64_t bins = op.integer("bins", 100);
  double low = op.real("min", 0), high = op.real("max", 0);
  if (op.bad())
    return;
  if (bins < 1 || op.resultShape() != Shape{bins} || !(low <= high))
    return void(op.t.fail("expected bins between two bounds"));
  Emitter &t = op.t;
  x = t.reshape(t.stopGradient(x), {countOf(shapeOf(x)), 1});
  Value from, to;
  if (low == high) {
    from = t.reduce(ReduceKind::Min, x, {0, 1});
    to = t.reduce(ReduceKind::Max, x, {0, 1});
    // torch widens an interval of one point.
    Value point = t.compare(CompareDirection::EQ, from, to);
    from = t.select(point, t.sub(from, 1), from);
    to = t.select(point, t.add(to, 1), to);
  } else {
    from = t.scalar(elementOf(x), low);
    to = t.scalar(elementOf(x), high);
  }
  Value place = t.unary<FloorOp>(
      t.div(t.mul(t.sub(x, from), double(bins)), t.sub(to, from)));
  place = t.min(place, double(bins - 1));
  Value counted = t.logicalAnd(t.compare(CompareDirection::GE, x, from),
                               t.compare(CompareDirection::LE, x, to));
  Value here = t.compare(CompareDirection::EQ, place,
                         t.iota({1, bins}, elementOf(x), 1));
  op.result(t.sum(t.convert(t.logicalAnd(here, counted), elementOf(x)), {0}));
}

/// Rows [S, K] times weights [E, K, N], rows offs[e - 1] to offs[e] with those
/// of e; rows behind the last group give zeros. One product: each row stands in
/// its expert's columns of [S, E K], with zeros elsewhere. That costs E times
/// the arithmetic of separate products, but no size depends on data.
static void lowerGroupedProduct(OpCall &op) {
  bool isAten = op.base == "_grouped_mm";
  Value rows = op.tensor(isAten ? "self" : "input"),
        weights = op.tensor(isAten ? "mat2" : "weight"),
        ends = op.optionalTensor("offs");
  if (isAten)
    op.ignore({"out_dtype"});
  if (op.bad())
    return;
  if (rankOf(rows) != 2 || rankOf(weights) != 3 || !ends || op.has("bias"))
    return op.unsupported("grouped products other than of rows, with offsets");
  Emitter &t = op.t;
  int64_t count = shapeOf(rows)[0], inner = shapeOf(rows)[1],
          experts = shapeOf(weights)[0], columns = shapeOf(weights)[2];
  ends = t.convert(ends, t.i64());
  Value begins = t.sliceDim(t.padDim(ends, 0, 1, 0, 0), 0, 0, experts);
  Value row = t.iota({count, experts}, t.i64(), 0);
  Value isTheirs = t.logicalAnd(t.compare(CompareDirection::GE, row, begins),
                                t.compare(CompareDirection::LT, row, ends));
  Value spread = t.select(t.unsqueeze(isTheirs, 2), t.unsqueeze(rows, 1), 0.0);
  op.result(t.dot(t.reshape(spread, {count, experts * inner}),
                  t.reshape(weights, {experts * inner, columns}), {}, {}, {1},
                  {0}));
}

void addGroupedProducts(OperatorTable &table) {
  table.add("histc", lowerHistc);
  table.add({"_grouped_mm", "transformers.grouped_mm_fallback"},
            lowerGroupedProduct);
}

} // namespace lockstep::aten
