// Writes at computed positions: index_put, index_add, scatter and their kin.
// All are one `train.scatter`, whose updates are applied in row-major order.
#include "compiler/import/aten/Indexing.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

//===----------------------------------------------------------------------===//
// index_put
//===----------------------------------------------------------------------===//

/// x[mask] = number: a choice, for any mask.
static bool lowerMaskedPut(OpCall &op, Value x, ArrayRef<Value> list,
                           Value values, bool accumulate) {
  if (list.size() != 1 || !list[0] || !elementOf(list[0]).isInteger(1) ||
      countOf(shapeOf(values)) != 1)
    return false;
  Shape shape(shapeOf(list[0]));
  shape.append(rankOf(x) - std::min<int64_t>(rankOf(x), shape.size()), 1);
  Value mask = op.t.reshape(list[0], shape), value = op.t.reshape(values, {});
  op.result(op.t.select(mask,
                        accumulate ? op.t.add(x, value)
                                   : op.t.broadcastTo(value, shapeOf(x)),
                        x));
  return true;
}

static void lowerIndexPut(OpCall &op) {
  Value x = op.tensor("self"), values = op.tensor("values");
  SmallVector<Value> list = op.tensors("indices");
  bool accumulate = op.flag("accumulate");
  if (op.bad())
    return;
  values = op.t.convert(values, elementOf(x));
  if (lowerMaskedPut(op, x, list, values, accumulate))
    return;
  AdvancedIndex index;
  if (!index.build(op.t, list, shapeOf(x)))
    return;
  // The values have the shape that reading would give, [before, index, after];
  // scatter wants [index, others].
  Shape updates(index.shape);
  for (int64_t i = 0; i < rankOf(x); ++i)
    if (!llvm::is_contained(index.dims, i))
      updates.push_back(shapeOf(x)[i]);
  Shape order = index.toResult(updates.size()), given;
  for (int64_t dim : order)
    given.push_back(updates[dim]);
  Shape inverse(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    inverse[dim] = i;
  values = op.t.transpose(op.t.broadcastTo(values, given), inverse);
  op.result(op.t.scatter(accumulate ? ScatterKind::Add : ScatterKind::Replace,
                         x, index.indices, values, index.dims, 0));
}

//===----------------------------------------------------------------------===//
// index_add, index_copy, index_fill
//===----------------------------------------------------------------------===//

static void lowerIndexAdd(OpCall &op) {
  Value x = op.tensor("self"), index = op.tensor("index");
  if (op.bad() || rankOf(x) == 0)
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  ScatterKind kind = ScatterKind::Replace;
  Value source;
  if (op.base == "index_fill") {
    Shape shape(shapeOf(x));
    shape[dim] = countOf(shapeOf(index));
    source = op.t.broadcastTo(op.operand("value", elementOf(x)), shape);
  } else {
    source = op.t.convert(op.tensor("source"), elementOf(x));
    if (op.base == "index_add") {
      kind = ScatterKind::Add;
      source = op.t.mul(source, op.has("alpha") ? op.real("alpha") : 1.0);
    }
    if (op.base == "index_reduce") {
      std::string reduce = op.string("reduce", "");
      if (!op.flag("include_self", true) ||
          (reduce != "amax" && reduce != "amin" && reduce != "prod"))
        return op.unsupported("index_reduce '" + Twine(reduce) + "'");
      kind = reduce == "amax"   ? ScatterKind::Max
             : reduce == "amin" ? ScatterKind::Min
                                : ScatterKind::Multiply;
    }
  }
  if (op.bad())
    return;
  if (rankOf(index) == 0)
    index = op.t.reshape(index, {1});
  if (rankOf(source) != rankOf(x))
    return op.unsupported("a source of another rank");
  Shape front = range(rankOf(x));
  front.erase(front.begin() + dim);
  front.insert(front.begin(), dim);
  op.result(op.t.scatter(kind, x, {wrapNegative(op.t, index, shapeOf(x)[dim])},
                         op.t.transpose(source, front), {dim}, 0));
}

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

/// x with src combined in at index along dim; index and src may be smaller than
/// x in the other dimensions.
static Value scatterAlong(Emitter &t, ScatterKind kind, Value x, Value index,
                          Value src, int64_t dim) {
  if (!x || !index || !src || rankOf(x) != rankOf(index) ||
      rankOf(src) != rankOf(index))
    return t.fail("expected tensor, index and source of one rank");
  int64_t rank = rankOf(x);
  if (rank == 0)
    return kind == ScatterKind::Replace ? src
           : kind == ScatterKind::Add   ? t.add(x, src)
                                        : t.mul(x, src);
  src = t.slice(src, Shape(rank, 0), shapeOf(index), Shape(rank, 1));
  Shape limits(shapeOf(index));
  limits[dim] = shapeOf(x)[dim];
  for (int64_t i = 0; i < rank; ++i)
    if (limits[i] > shapeOf(x)[i])
      return t.fail("an index larger than the tensor");
  Value part = t.slice(x, Shape(rank, 0), limits, Shape(rank, 1));
  Shape toLast = range(rank), back = range(rank - 1);
  toLast.erase(toLast.begin() + dim);
  toLast.push_back(dim);
  back.insert(back.begin() + dim, rank - 1);
  Value result = t.scatter(kind, t.transpose(part, toLast),
                           {t.transpose(t.convert(index, t.i64()), toLast)},
                           t.transpose(src, toLast), {rank - 1}, rank - 1);
  if (!result)
    return {};
  ViewStep cut{ViewStep::Kind::Slice, Shape(rank, 0), limits, Shape(rank, 1)};
  return cut.invert(t, x, t.transpose(result, back));
}

static Value sourceOf(OpCall &op, Value x, Value index) {
  if (!op.has("src") && op.has("value"))
    return op.t.broadcastTo(op.operand("value", elementOf(x)), shapeOf(index));
  if (op.has("src") && !op.isTensor("src"))
    return op.t.broadcastTo(op.operand("src", elementOf(x)), shapeOf(index));
  return op.t.convert(op.tensor("src"), elementOf(x));
}

static double neutral(Emitter &t, ScatterKind kind, Type type) {
  if (kind == ScatterKind::Add || kind == ScatterKind::Replace)
    return 0;
  if (kind == ScatterKind::Multiply)
    return 1;
  double limit = isa<FloatType>(type)
                     ? INFINITY
                     : std::ldexp(1.0, type.getIntOrFloatBitWidth() - 1) - 1;
  return kind == ScatterKind::Max ? -limit : limit;
}

static void lowerScatter(OpCall &op) {
  Value x = op.tensor("self"), index = op.tensor("index");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  Value src = sourceOf(op, x, index);
  std::string reduce =
      op.base == "scatter_add" ? "sum" : op.string("reduce", "");
  bool includeSelf = op.flag("include_self", true);
  if (op.bad())
    return;
  ScatterKind kind = reduce.empty() ? ScatterKind::Replace
                     : reduce == "sum" || reduce == "add" || reduce == "mean"
                         ? ScatterKind::Add
                     : reduce == "prod" || reduce == "multiply"
                         ? ScatterKind::Multiply
                     : reduce == "amax" ? ScatterKind::Max
                                        : ScatterKind::Min;
  Value base = x;
  if (!includeSelf) // Elements that receive something start from the neutral
                    // element.
    base = scatterAlong(op.t, ScatterKind::Replace, x, index,
                        op.t.like(src, neutral(op.t, kind, elementOf(x))), dim);
  Value result = scatterAlong(op.t, kind, base, index, src, dim);
  if (reduce == "mean") {
    Value count =
        scatterAlong(op.t, ScatterKind::Add, op.t.like(x, includeSelf ? 1 : 0),
                     index, op.t.like(src, 1), dim);
    result = op.t.div(result, op.t.max(count, 1.0));
  }
  op.result(result);
}

//===----------------------------------------------------------------------===//
// A part of a tensor replaced
//===----------------------------------------------------------------------===//

static void lowerSliceScatter(OpCall &op) {
  Value x = op.tensor("self"), src = op.tensor("src");
  if (op.bad() || rankOf(x) == 0)
    return;
  src = op.t.convert(src, elementOf(x));
  int64_t dim = op.dim("dim", rankOf(x), 0), size = shapeOf(x)[dim];
  int64_t start, end, step = 1;
  if (op.base == "select_scatter") {
    start = op.integer("index");
    start = start < 0 ? start + size : start, end = start + 1;
    src = op.t.unsqueeze(src, dim);
  } else {
    auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    start = clamp(op.integer("start", 0)),
    end = clamp(op.integer("end", INT64_MAX)), step = op.integer("step", 1);
    end = std::max(start, end);
  }
  if (op.bad() || start < 0 || end > size || step < 1)
    return void(op.t.fail("index out of range"));
  Shape starts(rankOf(x), 0), limits(shapeOf(x)), strides(rankOf(x), 1),
      part(shapeOf(x));
  starts[dim] = start, limits[dim] = end, strides[dim] = step;
  part[dim] = (end - start + step - 1) / step;
  op.result(ViewStep{ViewStep::Kind::Slice, starts, limits, strides}.invert(
      op.t, x, op.t.broadcastTo(src, part)));
}

void addScatters(OperatorTable &table) {
  table.add({"index_put", "_unsafe_index_put", "_index_put_impl"},
            lowerIndexPut);
  table.add({"index_add", "index_copy", "index_fill", "index_reduce"},
            lowerIndexAdd);
  table.add({"scatter", "scatter_add", "scatter_reduce"}, lowerScatter);
  table.add({"slice_scatter", "select_scatter"}, lowerSliceScatter);
}

} // namespace lockstep::aten
