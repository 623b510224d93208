//===- DecomposeNorms.cpp - Layer, RMS and batch norm as primitive operations
//-------===//
//
// Statistics are computed in f32 at least, and the variance in two passes (mean
// first, then the squares of the differences), since E[x^2] - E[x]^2 cancels.
// The three gradients are one formula: with g the cotangent times the weight
// and n the normalised operand, dx = rstd (g - mean(g) - n mean(g n)), where
// RMS norm, which subtracts no mean, lacks the middle term.
//
//===----------------------------------------------------------------------===//
#include "dialects/train/DecompositionUtils.h"

using namespace mlir;

namespace lockstep::train {

namespace {

/// Saved statistics of a norm over `dims`, brought back to the operand's shape.
struct Rows {
  TensorBuilder &b;
  ArrayRef<int64_t> shape, dims;
  Value operator()(Value rows) const {
    return b.broadcastRows(rows, shape, dims);
  }
};

} // namespace

/// 1 / sqrt(variance + eps).
static Value buildRstd(TensorBuilder &b, Value variance, const APFloat &eps) {
  return b.rsqrt(b.add(variance, eps.convertToDouble()));
}

/// rstd (g - mean(g) - n mean(g n)), without the middle term if `centered` is
/// false.
static Value buildOperandGradient(TensorBuilder &b, const Rows &rows,
                                  Value scaledCotangent, Value normalised,
                                  Value rstd, bool centered) {
  Value projection = b.mean(b.multiply(scaledCotangent, normalised), rows.dims);
  Value difference = scaledCotangent;
  if (centered)
    difference =
        b.subtract(difference, rows(b.mean(scaledCotangent, rows.dims)));
  difference = b.subtract(difference, b.multiply(normalised, rows(projection)));
  return b.multiply(difference, rows(rstd));
}

static Value convertToResult(TensorBuilder &b, Value value, Value result) {
  return b.convert(value, getElementType(result));
}

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  int64_t rank = shape.size();
  SmallVector<int64_t> dims = getDimRange(rank - int64_t(getAxes()), rank);
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Type type = getElementType(x);
  Value mean = b.mean(x, dims);
  Value centered = b.subtract(x, rows(mean));
  Value rstd = buildRstd(b, b.mean(b.square(centered), dims), getEps());
  Value y = b.multiply(centered, rows(rstd));
  if (getWeight())
    y = b.multiply(y, b.broadcastTrailing(b.convert(getWeight(), type), shape));
  if (getBias())
    y = b.add(y, b.broadcastTrailing(b.convert(getBias(), type), shape));
  return {convertToResult(b, y, getResult()),
          convertToResult(b, mean, getMean()),
          convertToResult(b, rstd, getRstd())};
}

SmallVector<Value> LayerNormGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  int64_t rank = shape.size();
  SmallVector<int64_t> dims = getDimRange(rank - int64_t(getAxes()), rank);
  SmallVector<int64_t> rowDims = getDimRange(0, rank - int64_t(getAxes()));
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Type type = getElementType(x);
  Value dy = b.convert(getCotangent(), type);
  Value rstd = b.convert(getRstd(), type);
  Value normalised =
      b.multiply(b.subtract(x, rows(b.convert(getMean(), type))), rows(rstd));
  Value dx, dweight, dbias;
  if (!getDoperand().use_empty()) {
    Value scaled = dy;
    if (getWeight())
      scaled = b.multiply(
          dy, b.broadcastTrailing(b.convert(getWeight(), type), shape));
    dx = convertToResult(b,
                         buildOperandGradient(b, rows, scaled, normalised, rstd,
                                              /*centered=*/true),
                         getDoperand());
  }
  if (!getDweight().use_empty())
    dweight = convertToResult(b, b.sum(b.multiply(dy, normalised), rowDims),
                              getDweight());
  if (!getDbias().use_empty())
    dbias = convertToResult(b, b.sum(dy, rowDims), getDbias());
  return {dx, dweight, dbias};
}

SmallVector<Value> RmsNormOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  int64_t rank = shape.size();
  SmallVector<int64_t> dims = getDimRange(rank - int64_t(getAxes()), rank);
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Value rstd = buildRstd(b, b.mean(b.square(x), dims), getEps());
  Value y = b.multiply(x, rows(rstd));
  if (getWeight())
    y = b.multiply(y, b.broadcastTrailing(
                          b.convert(getWeight(), getElementType(x)), shape));
  return {convertToResult(b, y, getResult()),
          convertToResult(b, rstd, getRstd())};
}

SmallVector<Value> RmsNormGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  int64_t rank = shape.size();
  SmallVector<int64_t> dims = getDimRange(rank - int64_t(getAxes()), rank);
  SmallVector<int64_t> rowDims = getDimRange(0, rank - int64_t(getAxes()));
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Type type = getElementType(x);
  Value dy = b.convert(getCotangent(), type);
  Value rstd = b.convert(getRstd(), type);
  Value normalised = b.multiply(x, rows(rstd));
  Value dx, dweight;
  if (!getDoperand().use_empty()) {
    Value scaled = dy;
    if (getWeight())
      scaled = b.multiply(
          dy, b.broadcastTrailing(b.convert(getWeight(), type), shape));
    dx = convertToResult(b,
                         buildOperandGradient(b, rows, scaled, normalised, rstd,
                                              /*centered=*/false),
                         getDoperand());
  }
  if (!getDweight().use_empty())
    dweight = convertToResult(b, b.sum(b.multiply(dy, normalised), rowDims),
                              getDweight());
  return {dx, dweight};
}

SmallVector<Value> BatchNormOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  SmallVector<int64_t> dims = getOtherDims(shape.size(), {1});
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Type type = getElementType(x);
  Value mean, rstd, newMean, newVariance, centered;
  if (getInference()) {
    newMean = getRunningMean();
    newVariance = getRunningVar();
    mean = b.convert(newMean, type);
    centered = b.subtract(x, rows(mean));
    rstd = buildRstd(b, b.convert(newVariance, type), getEps());
  } else {
    mean = b.mean(x, dims);
    centered = b.subtract(x, rows(mean));
    Value variance = b.mean(b.square(centered), dims);
    rstd = buildRstd(b, variance, getEps());
    newMean = mean;
    newVariance = variance;
    if (getRunningMean()) {
      double count = 1, momentum = getMomentum().convertToDouble();
      for (int64_t i : dims)
        count *= shape[i];
      double unbiased = count > 1 ? count / (count - 1) : 1;
      auto move = [&](Value old, Value batch, double factor) {
        return b.add(b.multiply(b.convert(old, type), 1 - momentum),
                     b.multiply(batch, momentum * factor));
      };
      newMean = move(getRunningMean(), mean, 1);
      newVariance = move(getRunningVar(), variance, unbiased);
    }
  }
  Value y = b.multiply(centered, rows(rstd));
  if (getWeight())
    y = b.multiply(y, rows(b.convert(getWeight(), type)));
  if (getBias())
    y = b.add(y, rows(b.convert(getBias(), type)));
  return {convertToResult(b, y, getResult()),
          convertToResult(b, mean, getMean()),
          convertToResult(b, rstd, getRstd()),
          convertToResult(b, newMean, getNewRunningMean()),
          convertToResult(b, newVariance, getNewRunningVar())};
}

SmallVector<Value> BatchNormGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getOperand());
  SmallVector<int64_t> dims = getOtherDims(shape.size(), {1});
  Rows rows{b, shape, dims};

  Value x = b.convertToCompute(getOperand());
  Type type = getElementType(x);
  Value dy = b.convert(getCotangent(), type);
  Value rstd = b.convert(getRstd(), type);
  Value normalised =
      b.multiply(b.subtract(x, rows(b.convert(getMean(), type))), rows(rstd));
  Value dx, dweight, dbias;
  if (!getDoperand().use_empty()) {
    Value scaled =
        getWeight() ? b.multiply(dy, rows(b.convert(getWeight(), type))) : dy;
    Value gradient = getInference()
                         ? b.multiply(scaled, rows(rstd))
                         : buildOperandGradient(b, rows, scaled, normalised,
                                                rstd, /*centered=*/true);
    dx = convertToResult(b, gradient, getDoperand());
  }
  if (!getDweight().use_empty())
    dweight = convertToResult(b, b.sum(b.multiply(dy, normalised), dims),
                              getDweight());
  if (!getDbias().use_empty())
    dbias = convertToResult(b, b.sum(dy, dims), getDbias());
  return {dx, dweight, dbias};
}

} // namespace lockstep::train
