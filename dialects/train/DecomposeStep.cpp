//===- DecomposeStep.cpp - Loss and update as primitive operations
//-------------------===//
//
// The label's class is found by comparing an iota with the label, not by a
// gather: the comparison divides over ranks along classes as well as along
// positions, and a -inf logit of another class never meets a 0 * inf.
//
//===----------------------------------------------------------------------===//
#include "dialects/train/DecompositionUtils.h"

using namespace mlir;

namespace lockstep::train {

/// i1, true where the class number along `dimension` is the position's label.
static Value buildIsLabel(TensorBuilder &b, Value labels,
                          ArrayRef<int64_t> shape, int64_t dimension) {
  Type i64 = b.getBuilder().getI64Type();
  Value wanted = b.broadcastRows(b.convert(labels, i64), shape, {dimension});
  return b.compare(CompareDirection::EQ, b.iota(shape, i64, dimension), wanted);
}

/// i1 per position, true where the label is ignored.
static Value buildIsIgnored(TensorBuilder &b, Value labels,
                            int64_t ignoreIndex) {
  return b.compare(CompareDirection::EQ,
                   b.convert(labels, b.getBuilder().getI64Type()),
                   double(ignoreIndex));
}

SmallVector<Value> CrossEntropyOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getLogits());
  int64_t dimension = getDimension();
  SmallVector<int64_t> dims{dimension};
  double smoothing = getSmoothing().convertToDouble();

  Value x = b.convertToCompute(getLogits());
  Value maximum = b.max(x, dims);
  Value shifted = b.subtract(x, b.broadcastRows(maximum, shape, dims));
  Value logSum = b.log(b.sum(b.exponential(shifted), dims));
  Value lossSum, lse;
  if (!getLossSum().use_empty()) {
    Value picked = b.sum(
        b.select(buildIsLabel(b, getLabels(), shape, dimension), shifted, 0.0),
        dims);
    Value loss = b.subtract(logSum, picked);
    if (smoothing != 0) {
      Value all = b.sum(
          b.subtract(b.broadcastRows(logSum, shape, dims), shifted), dims);
      loss = b.add(b.multiply(loss, 1 - smoothing),
                   b.multiply(all, smoothing / shape[dimension]));
    }
    Value ignored = buildIsIgnored(b, getLabels(), int64_t(getIgnoreIndex()));
    lossSum = b.convert(b.sumAll(b.select(ignored, 0.0, loss)),
                        getElementType(getLossSum()));
  }
  if (!getLse().use_empty())
    lse = b.convert(b.add(maximum, logSum), getElementType(getLse()));
  return {lossSum, lse};
}

SmallVector<Value> CrossEntropyGradientOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getLogits());
  int64_t dimension = getDimension();
  SmallVector<int64_t> dims{dimension};
  double smoothing = getSmoothing().convertToDouble(),
         spread = smoothing / shape[dimension];

  Value x = b.convertToCompute(getLogits());
  Type type = getElementType(x);
  Value p = b.exponential(
      b.subtract(x, b.broadcastRows(b.convert(getLse(), type), shape, dims)));
  Value isLabel = buildIsLabel(b, getLabels(), shape, dimension);
  Value target = b.select(isLabel, b.constantLike(x, 1 - smoothing + spread),
                          b.constantLike(x, spread));
  // A select and not a product with 0, since p may be NaN where the label is
  // ignored.
  Value gradient =
      b.multiply(b.subtract(p, target),
                 b.broadcastScalar(b.convert(getScale(), type), shape));
  Value ignored = buildIsIgnored(b, getLabels(), int64_t(getIgnoreIndex()));
  gradient = b.select(b.broadcastRows(ignored, shape, dims), 0.0, gradient);
  return {b.convert(gradient, getElementType(getResult()))};
}

SmallVector<Value> LabelCountOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  Type type = getElementType(getResult());
  Value labels = b.convert(getLabels(), builder.getI64Type());
  Value counted = b.compare(CompareDirection::NE, labels,
                            double(int64_t(getIgnoreIndex())));
  return {b.convert(b.sumAll(b.convert(counted, getComputeType(type))), type)};
}

SmallVector<Value> GlobalNormOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  Type type = getElementType(getResult()), computeType = getComputeType(type);
  Value total;
  for (Value operand : getOperands_()) {
    Value squares =
        b.convert(b.sumAll(b.square(b.convertToCompute(operand))), computeType);
    total = total ? b.add(total, squares) : squares;
  }
  if (!total)
    total = b.scalar(computeType, 0);
  return {b.convert(b.sqrt(total), type)};
}

SmallVector<Value> SgdOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getParameter());
  Value p = b.convertToCompute(getParameter());
  Type type = getElementType(p);
  auto scalar = [&](Value v) {
    return b.broadcastScalar(b.convert(v, type), shape);
  };

  Value g =
      b.multiply(b.convert(getGradient(), type), scalar(getGradientScale()));
  g = b.add(g, b.multiply(scalar(getWeightDecay()), p));
  SmallVector<Value> results;
  Value direction = g, newBuffer;
  if (getMomentumBuffer()) {
    Value momentum = scalar(getMomentum());
    newBuffer =
        b.add(b.multiply(momentum, b.convert(getMomentumBuffer(), type)), g);
    direction =
        getNesterov() ? b.add(g, b.multiply(momentum, newBuffer)) : newBuffer;
  }
  Value newParameter = b.subtract(p, b.multiply(scalar(getLr()), direction));
  results.push_back(b.convert(newParameter, getElementType(getNewParameter())));
  if (newBuffer)
    results.push_back(
        b.convert(newBuffer, getElementType(getNewMomentumBuffer())));
  return results;
}

SmallVector<Value> AdamOp::decompose(OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getParameter());
  Value p = b.convertToCompute(getParameter());
  Type type = getElementType(p);
  // What depends on scalars alone is computed once, on rank 0.
  auto narrow = [&](Value v) { return b.convert(v, type); };
  auto wide = [&](Value v) { return b.broadcastScalar(v, shape); };

  Value lr = narrow(getLr()), decay = narrow(getWeightDecay());
  Value beta1 = narrow(getBeta1()), beta2 = narrow(getBeta2());
  Value g = b.multiply(b.convert(getGradient(), type),
                       wide(narrow(getGradientScale())));
  if (getDecoupled())
    p = b.multiply(p, wide(b.subtract(1.0, b.multiply(lr, decay))));
  else
    g = b.add(g, b.multiply(wide(decay), p));
  Value m = b.add(b.multiply(wide(beta1), b.convert(getFirstMoment(), type)),
                  b.multiply(wide(b.subtract(1.0, beta1)), g));
  Value v = b.add(b.multiply(wide(beta2), b.convert(getSecondMoment(), type)),
                  b.multiply(wide(b.subtract(1.0, beta2)), b.square(g)));
  Value denominator =
      b.add(b.divide(b.sqrt(v), wide(b.sqrt(narrow(getBiasCorrection2())))),
            wide(narrow(getEps())));
  Value step = wide(b.divide(lr, narrow(getBiasCorrection1())));
  Value newParameter =
      b.subtract(p, b.multiply(step, b.divide(m, denominator)));
  return {b.convert(newParameter, getElementType(getNewParameter())),
          b.convert(m, getElementType(getNewFirstMoment())),
          b.convert(v, getElementType(getNewSecondMoment()))};
}

} // namespace lockstep::train
