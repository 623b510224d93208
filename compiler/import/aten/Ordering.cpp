// Extremes with their positions, sorting, and selection by rank.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

Value takeAlong(Emitter &t, Value x, Value index, int64_t dim);

/// max and min: of all elements, along a dimension with positions, or of two
/// tensors.
template <ReduceKind kind> static void lowerMax(OpCall &op) {
  if (op.has("other")) {
    Type type = op.promote({"self", "other"});
    Value a = op.operand("self", type), b = op.operand("other", type);
    return op.result(kind == ReduceKind::Max ? op.t.max(a, b) : op.t.min(a, b));
  }
  Value x = op.tensor("self");
  if (op.bad())
    return;
  if (!op.has("dim"))
    return op.result(op.t.reduce(kind, x, range(rankOf(x))));
  int64_t dim = op.dim("dim", rankOf(x));
  bool keep = op.flag("keepdim");
  if (rankOf(x) == 0)
    return op.results({x, op.t.constant({}, op.t.i64(), 0)});
  Value index = op.t.unsqueeze(op.t.argReduce(kind, x, dim), dim);
  // The gradient goes to the position that was found.
  Value value = isFloat(x) ? takeAlong(op.t, x, index, dim)
                           : op.t.reduce(kind, x, {dim}, true);
  if (!keep)
    value = op.t.squeeze(value, dim), index = op.t.squeeze(index, dim);
  op.results({value, index});
}

template <ReduceKind kind> static void lowerArgMax(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  bool whole = !op.has("dim");
  if (whole || rankOf(x) == 0)
    x = op.t.reshape(x, {countOf(shapeOf(x))});
  int64_t dim = whole ? 0 : op.dim("dim", rankOf(x));
  Value index = op.t.argReduce(kind, x, dim);
  op.ignore({"keepdim"});
  op.result(op.t.reshape(index, op.resultShape()));
}

static void lowerSort(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x), -1);
  bool descending = op.flag("descending");
  if (rankOf(x) == 0)
    return op.result(0, op.base == "argsort" ? op.t.constant({}, op.t.i64(), 0)
                                             : x);
  auto [values, indices] = op.t.sort(x, dim, descending);
  if (op.base == "argsort")
    return op.result(indices);
  op.results({values, indices});
}

static void lowerTopK(OpCall &op) {
  Value x = op.tensor("self");
  int64_t k = op.integer("k");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x), -1);
  bool largest = op.flag("largest", true);
  if (rankOf(x) == 0 || k < 0 || k > shapeOf(x)[dim])
    return void(op.t.fail("top " + Twine(k) + " of fewer elements"));
  auto [values, indices] = op.t.sort(x, dim, largest);
  op.results(
      {op.t.sliceDim(values, dim, 0, k), op.t.sliceDim(indices, dim, 0, k)});
}

/// median and kthvalue: the element of a rank in sorted order.
static void lowerKthValue(OpCall &op) {
  Value x = op.tensor("self");
  bool keep = op.flag("keepdim");
  if (op.bad())
    return;
  bool whole = op.base == "median" && !op.has("dim");
  if (whole || rankOf(x) == 0)
    x = op.t.reshape(x, {countOf(shapeOf(x))});
  int64_t dim = whole ? 0 : op.dim("dim", rankOf(x), -1);
  int64_t at =
      op.base == "median" ? (shapeOf(x)[dim] - 1) / 2 : op.integer("k") - 1;
  if (op.bad() || at < 0 || at >= shapeOf(x)[dim])
    return void(op.t.fail("rank out of range"));
  auto [values, indices] = op.t.sort(x, dim, false);
  Value value = op.t.sliceDim(values, dim, at, at + 1),
        index = op.t.sliceDim(indices, dim, at, at + 1);
  if (!keep)
    value = op.t.squeeze(value, dim), index = op.t.squeeze(index, dim);
  op.result(0, value);
  if (op.resultCount() > 1)
    op.result(1, index);
}

/// cummax and cummin: the extreme so far, and where it was seen last.
template <ReduceKind kind> static void lowerRunningExtreme(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  if (rankOf(x) == 0)
    return op.results({x, op.t.constant({}, op.t.i64(), 0)});
  Value best = op.t.cumulative(kind, op.t.stopGradient(x), dim);
  // A NaN, from which on the extreme is NaN, is equal to nothing.
  Value here = op.t.logicalOr(op.t.compare(CompareDirection::EQ, x, best),
                              op.t.compare(CompareDirection::NE, x, x));
  Value seen =
      op.t.select(here, op.t.iota(Shape(shapeOf(x)), op.t.i64(), dim), -1.0);
  Value index = op.t.cumulative(ReduceKind::Max, seen, dim);
  op.results({isFloat(x) ? takeAlong(op.t, x, index, dim) : best, index});
}

/// bucketize and searchsorted: how many boundaries are below each number, or
/// not above it. NaN is above all.
static void lowerSearchSorted(OpCall &op) {
  bool buckets = op.base == "bucketize";
  StringRef name = buckets ? "boundaries" : "sorted_sequence";
  Type type = op.promote({"self", name});
  Value x = op.operand("self", type), sorted = op.operand(name, type);
  bool right = op.flag("right");
  if (op.has("side"))
    right = op.string("side", "left") == "right";
  op.ignore({"out_int32"});
  if (op.has("sorter"))
    return op.unsupported("a sorter; sort the sequence before");
  if (op.bad())
    return;
  int64_t dims = rankOf(x), last = rankOf(sorted) - 1;
  if (last < 0 || (last > 0 && last + 1 != dims))
    return op.unsupported("this form of " + op.base);
  if (last > 0)
    sorted = op.t.unsqueeze(sorted, last);
  Value above =
      op.t.compare(right ? CompareDirection::GT : CompareDirection::GE, sorted,
                   op.t.unsqueeze(x, dims));
  Value below = op.t.convert(op.t.logicalNot(above), op.t.i64());
  op.result(below ? op.t.sum(below, {rankOf(below) - 1}) : below);
}

void addOrdering(OperatorTable &table) {
  table.add("cummax", lowerRunningExtreme<ReduceKind::Max>);
  table.add("cummin", lowerRunningExtreme<ReduceKind::Min>);
  table.add({"bucketize", "searchsorted"}, lowerSearchSorted);
  table.add("max", lowerMax<ReduceKind::Max>);
  table.add("min", lowerMax<ReduceKind::Min>);
  table.add("argmax", lowerArgMax<ReduceKind::Max>);
  table.add("argmin", lowerArgMax<ReduceKind::Min>);
  table.add({"sort", "argsort", "msort"}, lowerSort);
  table.add("topk", lowerTopK);
  table.add({"median", "kthvalue"}, lowerKthValue);
}

} // namespace lockstep::aten
