#include "compiler/import/aten/Emitter.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
Dims shapeOf(Value value) { return typeOf(value).getShape(); }
int64_t rankOf(Value value) { return typeOf(value).getRank(); }
Type elementOf(Value value) { return typeOf(value).getElementType(); }
bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }

int64_t countOf(Dims shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Shape range(int64_t n) { return llvm::to_vector(llvm::seq<int64_t>(0, n)); }

bool broadcastShapes(Dims a, Dims b, Shape &result) {
  result.assign(std::max(a.size(), b.size()), 1);
  for (auto [i, size] : llvm::enumerate(llvm::reverse(a)))
    result[result.size() - 1 - i] = size;
  for (auto [i, size] : llvm::enumerate(llvm::reverse(b))) {
    int64_t &out = result[result.size() - 1 - i];
    if (out != size && out != 1 && size != 1)
      return false;
    out = out == 1 ? size : out;
  }
  return true;
}

Type computeType(Type type) {
  return type.isF16() || type.isBF16() ? Float32Type::get(type.getContext())
                                       : type;
}

static std::string text(Type type) {
  std::string out;
  llvm::raw_string_ostream(out) << type;
  return out;
}

Value Emitter::fail(const Twine &message) {
  if (error.empty())
    error = message.str();
  return {};
}

bool Emitter::infer(StringRef name,
                    llvm::function_ref<LogicalResult()> inference) {
  std::string message;
  LogicalResult result = failure();
  {
    ScopedDiagnosticHandler handler(b.getContext(),
                                    [&](Diagnostic &diagnostic) {
                                      if (message.empty())
                                        message = diagnostic.str();
                                    });
    result = inference();
  }
  if (mlir::failed(result))
    fail("shapes do not fit " + name + (message.empty() ? "" : ": " + message));
  return succeeded(result);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value Emitter::constant(Dims shape, Type element, double value) {
  if (!isa<FloatType>(element))
    return constantInt(shape, element,
                       value != value     ? 0
                       : value >= 9.2e18  ? INT64_MAX
                       : value <= -9.2e18 ? INT64_MIN
                                          : static_cast<int64_t>(value));
  APFloat number(value);
  bool ignored;
  number.convert(cast<FloatType>(element).getFloatSemantics(),
                 APFloat::rmNearestTiesToEven, &ignored);
  return ConstantOp::create(
             b, loc, DenseElementsAttr::get(type(shape, element), number))
      .getResult();
}

Value Emitter::constantInt(Dims shape, Type element, int64_t value) {
  if (isa<FloatType>(element))
    return constant(shape, element, static_cast<double>(value));
  unsigned width = element.getIntOrFloatBitWidth();
  APInt number(64, static_cast<uint64_t>(width == 1 ? value != 0 : value));
  return ConstantOp::create(b, loc,
                            DenseElementsAttr::get(type(shape, element),
                                                   number.zextOrTrunc(width)))
      .getResult();
}

Value Emitter::like(Value value, double splat) {
  return value ? constant(shapeOf(value), elementOf(value), splat) : value;
}

Value Emitter::table(Dims values) {
  return table(values, {static_cast<int64_t>(values.size())});
}

Value Emitter::table(Dims values, Dims shape) {
  return ConstantOp::create(b, loc,
                            DenseElementsAttr::get(type(shape, i64()), values))
      .getResult();
}

Value Emitter::iota(Dims shape, Type element, int64_t dim) {
  if (failed())
    return {};
  Type counted = element.isInteger(1) ? i64() : element;
  return convert(IotaOp::create(b, loc, type(shape, counted), dim).getResult(),
                 element);
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

bool Emitter::align(Value &a, Value &c) {
  if (!a || !c || failed())
    return false;
  Shape shape;
  if (!broadcastShapes(shapeOf(a), shapeOf(c), shape))
    return fail("shapes " + text(a.getType()) + " and " + text(c.getType()) +
                " do not broadcast"),
           false;
  a = broadcastTo(a, shape);
  c = broadcastTo(c, shape);
  if (!a || !c)
    return false;
  if (elementOf(a) != elementOf(c))
    return fail("element types of " + text(a.getType()) + " and " +
                text(c.getType()) + " differ"),
           false;
  return true;
}

Value Emitter::add(Value a, Value c) {
  if (a && elementOf(a).isInteger(1))
    return binary<OrOp>(a, c);
  return binary<AddOp>(a, c);
}

Value Emitter::mul(Value a, Value c) {
  if (a && elementOf(a).isInteger(1))
    return binary<AndOp>(a, c);
  return binary<MultiplyOp>(a, c);
}

Value Emitter::compare(CompareDirection direction, Value a, Value c) {
  return align(a, c) ? CompareOp::create(b, loc, direction, a, c).getResult()
                     : Value();
}

Value Emitter::select(Value pred, Value onTrue, Value onFalse) {
  if (!pred || !align(onTrue, onFalse))
    return {};
  Shape shape;
  if (!broadcastShapes(shapeOf(pred), shapeOf(onTrue), shape))
    return fail("shapes " + text(pred.getType()) + " and " +
                text(onTrue.getType()) + " do not broadcast");
  pred = broadcastTo(convert(pred, i1()), shape);
  return SelectOp::create(b, loc, typeOf(broadcastTo(onTrue, shape)), pred,
                          broadcastTo(onTrue, shape),
                          broadcastTo(onFalse, shape))
      .getResult();
}

Value Emitter::convert(Value a, Type element) {
  if (!a || elementOf(a) == element)
    return a;
  return ConvertOp::create(b, loc, type(shapeOf(a), element), a).getResult();
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

Value Emitter::reshape(Value a, Dims shape) {
  if (!a || failed() || shapeOf(a) == shape)
    return a;
  if (countOf(shapeOf(a)) != countOf(shape))
    return fail("a tensor of " + Twine(countOf(shapeOf(a))) +
                " elements cannot have a shape of " + Twine(countOf(shape)));
  return ReshapeOp::create(b, loc, type(shape, elementOf(a)), a).getResult();
}

Value Emitter::transpose(Value a, Dims permutation) {
  if (!a || llvm::equal(permutation, range(rankOf(a))))
    return a;
  Operation *op = inferred<TransposeOp>(
      a, [&](auto &p) { p.permutation = array(permutation); });
  return op ? op->getResult(0) : Value();
}

Value Emitter::swapDims(Value a, int64_t dim0, int64_t dim1) {
  if (!a)
    return a;
  Shape permutation = range(rankOf(a));
  std::swap(permutation[dim0], permutation[dim1]);
  return transpose(a, permutation);
}

Value Emitter::slice(Value a, Dims starts, Dims limits, Dims strides) {
  if (!a)
    return a;
  auto one = [](int64_t stride) { return stride == 1; };
  if (llvm::all_of(starts, [](int64_t start) { return start == 0; }) &&
      limits == shapeOf(a) && llvm::all_of(strides, one))
    return a;
  Operation *op = inferred<SliceOp>(a, [&](auto &p) {
    p.starts = array(starts), p.limits = array(limits),
    p.strides = array(strides);
  });
  return op ? op->getResult(0) : Value();
}

Value Emitter::sliceDim(Value a, int64_t dim, int64_t start, int64_t limit,
                        int64_t step) {
  if (!a)
    return a;
  Shape starts(rankOf(a), 0), limits(shapeOf(a)), strides(rankOf(a), 1);
  starts[dim] = start, limits[dim] = limit, strides[dim] = step;
  return slice(a, starts, limits, strides);
}

Value Emitter::at(Value a, int64_t dim, int64_t index) {
  return squeeze(sliceDim(a, dim, index, index + 1), dim);
}

Value Emitter::broadcast(Value a, Dims shape, Dims dims) {
  if (!a || failed())
    return {};
  if (shapeOf(a) == shape && llvm::equal(dims, range(rankOf(a))))
    return a;
  return BroadcastInDimOp::create(b, loc, type(shape, elementOf(a)), a, dims)
      .getResult();
}

Value Emitter::broadcastTo(Value a, Dims shape) {
  if (!a || shapeOf(a) == shape)
    return a;
  Shape result;
  if (!broadcastShapes(shapeOf(a), shape, result) || Dims(result) != shape)
    return fail("a tensor of type " + text(a.getType()) +
                " does not broadcast to the shape of " +
                text(type(shape, elementOf(a))));
  Shape dims;
  for (int64_t i = 0; i < rankOf(a); ++i)
    dims.push_back(static_cast<int64_t>(shape.size()) - rankOf(a) + i);
  // A splat broadcasts by itself.
  if (auto constant = a.getDefiningOp<ConstantOp>())
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return ConstantOp::create(b, loc,
                                splat.resizeSplat(type(shape, elementOf(a))))
          .getResult();
  return broadcast(a, shape, dims);
}

Value Emitter::unsqueeze(Value a, int64_t dim) {
  if (!a)
    return a;
  Shape shape(shapeOf(a));
  shape.insert(shape.begin() + dim, 1);
  return reshape(a, shape);
}

Value Emitter::squeeze(Value a, int64_t dim) {
  if (!a)
    return a;
  Shape shape(shapeOf(a));
  shape.erase(shape.begin() + dim);
  return reshape(a, shape);
}

Value Emitter::concat(ArrayRef<Value> inputs, int64_t dim) {
  if (inputs.size() == 1)
    return inputs.front();
  Operation *op = inferred<ConcatenateOp>(
      ValueRange(inputs), [&](auto &p) { p.dimension = integer(dim); });
  return op ? op->getResult(0) : Value();
}

Value Emitter::pad(Value a, Value value, Dims low, Dims high, Dims interior) {
  auto zero = [](int64_t size) { return size == 0; };
  if (llvm::all_of(low, zero) && llvm::all_of(high, zero) &&
      llvm::all_of(interior, zero))
    return a;
  Operation *op = inferred<PadOp>({a, value}, [&](auto &p) {
    p.low = array(low), p.high = array(high), p.interior = array(interior);
  });
  return op ? op->getResult(0) : Value();
}

Value Emitter::padDim(Value a, int64_t dim, int64_t low, int64_t high,
                      double value) {
  if (!a)
    return a;
  Shape lows(rankOf(a), 0), highs(rankOf(a), 0), interior(rankOf(a), 0);
  lows[dim] = low, highs[dim] = high;
  return pad(a, scalar(elementOf(a), value), lows, highs, interior);
}

Value Emitter::reverse(Value a, Dims dims) {
  if (!a || dims.empty())
    return a;
  return ReverseOp::create(b, loc, a.getType(), a, dims).getResult();
}

Value Emitter::gather(Value a, ArrayRef<Value> indices, Dims dims,
                      int64_t batch) {
  SmallVector<Value> operands{a};
  operands.append(indices.begin(), indices.end());
  Operation *op = inferred<GatherOp>(operands, [&](auto &p) {
    p.dims = array(dims), p.batch_dims = integer(batch);
  });
  return op ? op->getResult(0) : Value();
}

Value Emitter::scatter(ScatterKind kind, Value base, ArrayRef<Value> indices,
                       Value updates, Dims dims, int64_t batch) {
  if (!base || !updates || failed() || llvm::is_contained(indices, Value()))
    return {};
  if (elementOf(base) != elementOf(updates))
    return fail("scatter into " + text(base.getType()) + " of " +
                text(updates.getType()));
  return ScatterOp::create(b, loc, base.getType(), kind, base, indices, updates,
                           dims, batch)
      .getResult();
}

std::pair<Value, Value> Emitter::sort(Value a, int64_t dim, bool descending) {
  Operation *op = inferred<SortOp>(a, [&](auto &p) {
    p.dimension = integer(dim);
    if (descending)
      p.descending = b.getUnitAttr();
  });
  if (!op)
    return {};
  return {op->getResult(0), op->getResult(1)};
}

Value Emitter::cumulative(ReduceKind kind, Value a, int64_t dim) {
  return a && !failed() ? CumulativeOp::create(b, loc, kind, a, dim).getResult()
                        : Value();
}

//===----------------------------------------------------------------------===//
// Reductions and products
//===----------------------------------------------------------------------===//

Value Emitter::reduce(ReduceKind kind, Value a, Dims dims, bool keepDims) {
  if (!a)
    return a;
  Shape sorted(dims);
  llvm::sort(sorted);
  Shape kept(shapeOf(a));
  Operation *op = inferred<ReduceOp>(a, [&](auto &p) {
    p.dimensions = array(sorted),
    p.kind = ReduceKindAttr::get(b.getContext(), kind);
  });
  if (!op || !keepDims)
    return op ? op->getResult(0) : Value();
  for (int64_t dim : sorted)
    kept[dim] = 1;
  return reshape(op->getResult(0), kept);
}

Value Emitter::mean(Value a, Dims dims, bool keepDims) {
  if (!a)
    return a;
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= shapeOf(a)[dim];
  return div(sum(a, dims, keepDims), static_cast<double>(count));
}

Value Emitter::argReduce(ReduceKind kind, Value a, int64_t dim) {
  Operation *op = inferred<ArgReduceOp>(a, [&](auto &p) {
    p.dimension = integer(dim),
    p.kind = ReduceKindAttr::get(b.getContext(), kind);
  });
  return op ? op->getResult(0) : Value();
}

/// No target has products of integers: they are rare, and become sums.
static Value integerDot(Emitter &t, Value lhs, Value rhs, Dims lhsBatch,
                        Dims rhsBatch, Dims lhsContract, Dims rhsContract) {
  Shape result;
  auto arrange = [&](Value x, Dims batch, Dims contract, bool first) {
    Shape order(batch), free;
    for (int64_t i = 0; i < rankOf(x); ++i)
      if (!llvm::is_contained(batch, i) && !llvm::is_contained(contract, i))
        free.push_back(i);
    llvm::append_range(order, free);
    llvm::append_range(order, contract);
    auto sizes = [&](Dims dims) {
      return llvm::map_to_vector(dims,
                                 [&](int64_t i) { return shapeOf(x)[i]; });
    };
    if (first)
      llvm::append_range(result, sizes(batch));
    llvm::append_range(result, sizes(free));
    int64_t b = countOf(Shape(sizes(batch))),
            k = countOf(Shape(sizes(contract))),
            n = countOf(Shape(sizes(free)));
    x = t.transpose(x, order);
    return t.reshape(x, first ? Shape{b, n, 1, k} : Shape{b, 1, n, k});
  };
  Value left = arrange(lhs, lhsBatch, lhsContract, true),
        right = arrange(rhs, rhsBatch, rhsContract, false);
  return t.reshape(t.sum(t.mul(left, right), {3}), result);
}

Value Emitter::dot(Value lhs, Value rhs, Dims lhsBatch, Dims rhsBatch,
                   Dims lhsContract, Dims rhsContract) {
  if (lhs && rhs && isa<IntegerType>(elementOf(lhs)))
    return integerDot(*this, lhs, rhs, lhsBatch, rhsBatch, lhsContract,
                      rhsContract);
  Operation *op = inferred<DotGeneralOp>({lhs, rhs}, [&](auto &p) {
    p.lhs_batch = array(lhsBatch), p.rhs_batch = array(rhsBatch),
    p.lhs_contract = array(lhsContract), p.rhs_contract = array(rhsContract);
  });
  return op ? op->getResult(0) : Value();
}

Value Emitter::matmul(Value lhs, Value rhs) {
  if (!lhs || !rhs || failed())
    return {};
  int64_t l = rankOf(lhs), r = rankOf(rhs);
  if (l == 0 || r == 0)
    return fail("matmul of a rank-0 tensor");
  if (r == 1)
    return dot(lhs, rhs, {}, {}, {l - 1}, {0});
  if (l == 1) // [K] x [..., K, N]
    return dot(rhs, lhs, {}, {}, {r - 2}, {0});
  if (r == 2) // The leading dimensions of lhs are all free.
    return dot(lhs, rhs, {}, {}, {l - 1}, {0});
  Shape batch;
  if (!broadcastShapes(shapeOf(lhs).drop_back(2), shapeOf(rhs).drop_back(2),
                       batch))
    return fail("batch dimensions of " + text(lhs.getType()) + " and " +
                text(rhs.getType()) + " do not broadcast");
  auto widen = [&](Value v) {
    Shape shape(batch);
    llvm::append_range(shape, shapeOf(v).take_back(2));
    return broadcastTo(v, shape);
  };
  lhs = widen(lhs), rhs = widen(rhs);
  int64_t n = batch.size();
  return dot(lhs, rhs, range(n), range(n), {n + 1}, {n});
}

Value Emitter::softmax(Value a, int64_t dim, bool logarithm) {
  if (!a || failed())
    return {};
  if (logarithm)
    return LogSoftmaxOp::create(b, loc, a, dim).getResult();
  return SoftmaxOp::create(b, loc, a, dim).getResult();
}

} // namespace lockstep::aten
