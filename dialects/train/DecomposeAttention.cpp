//===- DecomposeAttention.cpp - Softmax, attention, embedding as primitive
// operations -===//
//
// Every exponential is of a difference to the row's maximum, so none overflows.
// Masks that follow from positions (causal, window) compare two iotas of shape
// [T, S]; they are never data. A row of attention that sees no key has maximum
// -inf; it is replaced by 0 before the subtraction, which leaves a row of zeros
// instead of NaN.
//
//===----------------------------------------------------------------------===//
#include "dialects/train/DecompositionUtils.h"
#include <limits>

using namespace mlir;

namespace lockstep::train {

static constexpr double kMinusInfinity =
    -std::numeric_limits<double>::infinity();

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  SmallVector<int64_t> dims{int64_t(getDimension())};
  Value x = b.convertToCompute(getOperand());
  Value e = b.exponential(
      b.subtract(x, b.broadcastRows(b.max(x, dims), shape, dims)));
  Value result = b.divide(e, b.broadcastRows(b.sum(e, dims), shape, dims));
  return {b.convert(result, getElementType(getResult()))};
}

SmallVector<Value> LogSoftmaxOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  SmallVector<int64_t> dims{int64_t(getDimension())};
  Value x = b.convertToCompute(getOperand());
  Value shifted = b.subtract(x, b.broadcastRows(b.max(x, dims), shape, dims));
  Value logSum = b.log(b.sum(b.exponential(shifted), dims));
  Value result = b.subtract(shifted, b.broadcastRows(logSum, shape, dims));
  return {b.convert(result, getElementType(getResult()))};
}

namespace {

/// What attention and its gradient share: sizes, grouped products, masked
/// scores.
struct AttentionBuilder {
  TensorBuilder &b;
  /// [B, H, T, S] are the scores; G groups of R = H / G heads.
  int64_t batch, heads, groups, queries, keys;
  Type type;

  AttentionBuilder(TensorBuilder &b, Value query, Value key)
      : b(b), batch(getShape(query)[0]), heads(getShape(query)[1]),
        groups(getShape(key)[1]), queries(getShape(query)[2]),
        keys(getShape(key)[2]), type(getComputeType(getElementType(query))) {}

  /// [B, H, T, X] with the heads of a group side by side: [B, G, R, T, X].
  Value group(Value v) {
    if (groups == heads)
      return v;
    return b.reshape(
        v, {batch, groups, heads / groups, getShape(v)[2], getShape(v)[3]});
  }
  Value ungroup(Value v) {
    ArrayRef<int64_t> shape = getShape(v);
    return shape.size() == 4 ? v
                             : b.reshape(v, {batch, heads, shape[3], shape[4]});
  }
  /// Per head, a [T, X] times b [X, Y], where b is per group; `transposed`: b
  /// is [Y, X].
  Value multiply(Value lhs, Value rhs, bool transposed) {
    lhs = group(lhs);
    int64_t last = getTensorType(lhs).getRank() - 1;
    return ungroup(
        b.dotGeneral(lhs, rhs, {0, 1}, {0, 1}, {last}, {transposed ? 3 : 2}));
  }
  /// Per group, the sum over its heads of a^T b: [B, G, X, Y] from [B, H, T, X]
  /// and [B, H, T, Y].
  Value multiplyTransposed(Value lhs, Value rhs) {
    lhs = group(lhs);
    rhs = group(rhs);
    SmallVector<int64_t> contract =
        getDimRange(2, getTensorType(lhs).getRank() - 1);
    return b.dotGeneral(lhs, rhs, {0, 1}, {0, 1}, contract, contract);
  }

  /// scale q k^T + mask, -inf where a key is not seen.
  Value scores(Value query, Value key, Value mask, double scale, bool causal,
               std::optional<uint64_t> window) {
    Value s = b.multiply(multiply(query, key, /*transposed=*/true), scale);
    SmallVector<int64_t> full{batch, heads, queries, keys};
    if (mask) {
      Value whole = b.broadcast(mask, full, {0, 1, 2, 3});
      s = getElementType(mask).isInteger(1) ? b.select(whole, s, kMinusInfinity)
                                            : b.add(s, b.convert(whole, type));
    }
    if (Value seen = positionMask(causal, window))
      s = b.select(b.broadcastTrailing(seen, full), s, kMinusInfinity);
    return s;
  }

private:
  /// i1 [T, S], or null where every key is seen.
  Value positionMask(bool causal, std::optional<uint64_t> window) {
    if (!causal && !window)
      return {};
    Type i64 = b.getBuilder().getI64Type();
    Value t = b.iota({queries, keys}, i64, 0),
          s = b.iota({queries, keys}, i64, 1);
    Value seen;
    if (causal)
      seen = b.compare(CompareDirection::LE, s, t);
    if (window) {
      Value recent =
          b.compare(CompareDirection::GT, s, b.subtract(t, double(*window)));
      seen = seen ? b.logicalAnd(seen, recent) : recent;
    }
    return seen;
  }
};

} // namespace

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  AttentionBuilder attention(b, getQuery(), getKey());
  Value q = b.convertToCompute(getQuery()), k = b.convertToCompute(getKey()),
        v = b.convertToCompute(getValue());
  Value s = attention.scores(q, k, getMask(), getScale().convertToDouble(),
                             getCausal(), getWindow());
  ArrayRef<int64_t> shape = getShape(s);

  Value maximum = b.max(s, {3});
  Value finite = b.select(
      b.compare(CompareDirection::EQ, maximum, kMinusInfinity), 0.0, maximum);
  Value e = b.exponential(b.subtract(s, b.broadcastRows(finite, shape, {3})));
  Value total = b.sum(e, {3});
  // A row that sees nothing has total 0: dividing by 1 gives the zeros that are
  // wanted.
  Value divisor =
      b.select(b.compare(CompareDirection::EQ, total, 0.0), 1.0, total);
  Value probabilities = b.divide(e, b.broadcastRows(divisor, shape, {3}));
  Value result = attention.multiply(probabilities, v, /*transposed=*/false);
  Value lse = getLse().use_empty() ? Value()
                                   : b.convert(b.add(finite, b.log(total)),
                                               getElementType(getLse()));
  return {b.convert(result, getElementType(getResult())), lse};
}

SmallVector<Value> AttentionGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  AttentionBuilder attention(b, getQuery(), getKey());
  double scale = getScale().convertToDouble();
  Value q = b.convertToCompute(getQuery()), k = b.convertToCompute(getKey()),
        v = b.convertToCompute(getValue());
  Value cotangent = b.convertToCompute(getCotangent()),
        output = b.convertToCompute(getOutput());
  Value s = attention.scores(q, k, getMask(), scale, getCausal(), getWindow());
  ArrayRef<int64_t> shape = getShape(s);

  Value lse = b.convert(getLse(), attention.type);
  lse =
      b.select(b.compare(CompareDirection::EQ, lse, kMinusInfinity), 0.0, lse);
  Value p = b.exponential(b.subtract(s, b.broadcastRows(lse, shape, {3})));
  Value dq, dk, dv;
  if (!getDvalue().use_empty())
    dv = b.convert(attention.multiplyTransposed(p, cotangent),
                   getElementType(getDvalue()));
  if (!getDquery().use_empty() || !getDkey().use_empty()) {
    Value dp = attention.multiply(cotangent, v, /*transposed=*/true);
    Value delta = b.sum(b.multiply(cotangent, output), {3});
    Value ds = b.multiply(
        b.multiply(p, b.subtract(dp, b.broadcastRows(delta, shape, {3}))),
        scale);
    if (!getDquery().use_empty())
      dq = b.convert(attention.multiply(ds, k, /*transposed=*/false),
                     getElementType(getDquery()));
    if (!getDkey().use_empty())
      dk = b.convert(attention.multiplyTransposed(ds, q),
                     getElementType(getDkey()));
  }
  return {dq, dk, dv};
}

SmallVector<Value> EmbeddingOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  return {GatherOp::create(builder, getLoc(), getResult().getType(), getTable(),
                           ValueRange{getIds()}, ArrayRef<int64_t>{0},
                           /*batch_dims=*/0)};
}

SmallVector<Value> EmbeddingGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  Value rows = b.convertToCompute(getCotangent());
  Value ids = getIds();
  if (std::optional<uint64_t> padding = getPaddingIdx()) {
    // A scatter drops updates that are out of range.
    ids = b.convert(ids, builder.getI64Type());
    ids = b.select(
        b.compare(CompareDirection::EQ, ids, double(int64_t(*padding))), -1.0,
        ids);
  }
  Value base =
      b.constant(getTensorType(getResult()).clone(getElementType(rows)), 0);
  Value sum = ScatterOp::create(builder, getLoc(), base.getType(),
                                ScatterKind::Add, base, ValueRange{ids}, rows,
                                ArrayRef<int64_t>{0}, /*batch_dims=*/0);
  return {b.convert(sum, getElementType(getResult()))};
}

} // namespace lockstep::train
