//===- ModelOps.cpp - Layers with kernels of their own --------------------===//
#include "dialects/train/Inference.h"
#include "dialects/train/Train.h"

using namespace mlir;
using namespace lockstep::train;

using Types = SmallVectorImpl<Type>;
using Loc = std::optional<Location>;

template <typename Op> static LogicalResult verifyDimension(Op op) {
  int64_t rank = tensorType(op.getOperand()).getRank();
  if (op.getDimension() >= static_cast<uint64_t>(rank))
    return op.emitOpError("(C1) expected a dimension below ")
           << rank << ", but got " << op.getDimension();
  return success();
}

LogicalResult SoftmaxOp::verify() { return verifyDimension(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifyDimension(*this); }

//===----------------------------------------------------------------------===//
// Norms over the last dimensions
//===----------------------------------------------------------------------===//

/// Checks (C1) of layer and RMS norm: `axes` fits, and the optional weights
/// have the shape of the last dimensions.
static LogicalResult checkAxes(Loc loc, RankedTensorType operand, int64_t axes,
                               std::initializer_list<Value> weights) {
  if (axes < 1 || axes > operand.getRank())
    return emitOptionalError(loc, "(C1) expected 1 to ", operand.getRank(),
                             " axes, but got ", axes);
  for (Value weight : weights)
    if (weight && shapeOf(weight) != operand.getShape().take_back(axes))
      return emitOptionalError(
          loc, "(C1) expected a weight or bias with the shape of the last ",
          axes, " dimensions of ", operand, ", but got ", weight.getType());
  return success();
}

static RankedTensorType leadingType(RankedTensorType operand, int64_t axes) {
  return RankedTensorType::get(operand.getShape().drop_back(axes),
                               accumulationType(operand.getElementType()));
}
static RankedTensorType trailingType(RankedTensorType operand, int64_t axes) {
  return RankedTensorType::get(operand.getShape().take_back(axes),
                               operand.getElementType());
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, Loc loc,
                                            Adaptor adaptor, Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  if (failed(checkAxes(loc, operand, adaptor.getAxes(),
                       {adaptor.getWeight(), adaptor.getBias()})))
    return failure();
  auto rows = leadingType(operand, adaptor.getAxes());
  types.append({operand, rows, rows});
  return success();
}

/// Checks that the saved values of a norm's gradient are those of its forward
/// operation.
static LogicalResult checkSaved(Loc loc, RankedTensorType operand,
                                RankedTensorType rows, Value cotangent,
                                std::initializer_list<Value> saved) {
  if (cotangent.getType() != operand)
    return emitOptionalError(loc, "(C1) expected a cotangent of type ", operand,
                             ", but got ", cotangent.getType());
  for (Value value : saved)
    if (value.getType() != rows)
      return emitOptionalError(loc, "(C1) expected statistics of type ", rows,
                               ", but got ", value.getType());
  return success();
}

LogicalResult LayerNormGradientOp::inferReturnTypes(MLIRContext *, Loc loc,
                                                    Adaptor adaptor,
                                                    Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  int64_t axes = adaptor.getAxes();
  if (failed(checkAxes(loc, operand, axes, {adaptor.getWeight()})) ||
      failed(checkSaved(loc, operand, leadingType(operand, axes),
                        adaptor.getCotangent(),
                        {adaptor.getMean(), adaptor.getRstd()})))
    return failure();
  types.append(
      {operand, trailingType(operand, axes), trailingType(operand, axes)});
  return success();
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, Loc loc,
                                          Adaptor adaptor, Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  if (failed(checkAxes(loc, operand, adaptor.getAxes(), {adaptor.getWeight()})))
    return failure();
  types.append({operand, leadingType(operand, adaptor.getAxes())});
  return success();
}

LogicalResult RmsNormGradientOp::inferReturnTypes(MLIRContext *, Loc loc,
                                                  Adaptor adaptor,
                                                  Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  int64_t axes = adaptor.getAxes();
  if (failed(checkAxes(loc, operand, axes, {adaptor.getWeight()})) ||
      failed(checkSaved(loc, operand, leadingType(operand, axes),
                        adaptor.getCotangent(), {adaptor.getRstd()})))
    return failure();
  types.append({operand, trailingType(operand, axes)});
  return success();
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

static LogicalResult checkChannels(Loc loc, RankedTensorType operand,
                                   std::initializer_list<Value> values) {
  if (operand.getRank() < 2)
    return emitOptionalError(loc, "(C1) expected rank 2 or more, but got ",
                             operand);
  for (Value value : values)
    if (value && shapeOf(value) != ArrayRef<int64_t>{operand.getDimSize(1)})
      return emitOptionalError(loc, "(C1) expected one value per channel of ",
                               operand, ", but got ", value.getType());
  return success();
}

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, Loc loc,
                                            Adaptor adaptor, Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  Value runningMean = adaptor.getRunningMean(),
        runningVar = adaptor.getRunningVar();
  if (failed(checkChannels(
          loc, operand,
          {adaptor.getWeight(), adaptor.getBias(), runningMean, runningVar})))
    return failure();
  if (static_cast<bool>(runningMean) != static_cast<bool>(runningVar) ||
      (adaptor.getInference() && !runningMean))
    return emitOptionalError(
        loc,
        "(C2) expected running mean and variance together, and with inference");
  auto statistics = RankedTensorType::get(
      {operand.getDimSize(1)}, accumulationType(operand.getElementType()));
  Type running = runningMean ? runningMean.getType() : statistics;
  types.append({operand, statistics, statistics, running, running});
  return success();
}

LogicalResult BatchNormGradientOp::inferReturnTypes(MLIRContext *, Loc loc,
                                                    Adaptor adaptor,
                                                    Types &types) {
  auto operand = tensorType(adaptor.getOperand());
  if (failed(checkChannels(
          loc, operand,
          {adaptor.getMean(), adaptor.getRstd(), adaptor.getWeight()})))
    return failure();
  if (adaptor.getCotangent().getType() != operand)
    return emitOptionalError(loc, "(C1) expected a cotangent of type ", operand,
                             ", but got ", adaptor.getCotangent().getType());
  auto channels =
      RankedTensorType::get({operand.getDimSize(1)}, operand.getElementType());
  types.append({operand, channels, channels});
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, Loc loc,
                                            Adaptor adaptor, Types &types) {
  auto table = tensorType(adaptor.getTable());
  if (table.getRank() != 2)
    return emitOptionalError(
        loc, "(C1) expected a table [rows, width], but got ", table);
  SmallVector<int64_t> shape(shapeOf(adaptor.getIds()));
  shape.push_back(table.getDimSize(1));
  types.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}

LogicalResult EmbeddingGradientOp::verify() {
  auto table = cast<RankedTensorType>(getType());
  SmallVector<int64_t> shape(shapeOf(getIds()));
  if (table.getRank() == 2)
    shape.push_back(table.getDimSize(1));
  if (table.getRank() != 2 ||
      shapeOf(getCotangent()) != ArrayRef<int64_t>(shape))
    return emitOpError(
        "(C1) expected a table [rows, width] and a cotangent [ids..., width]");
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static LogicalResult checkAttention(Loc loc, RankedTensorType q,
                                    RankedTensorType k, RankedTensorType v,
                                    Value mask) {
  bool ranks = q.getRank() == 4 && k.getRank() == 4 && v.getRank() == 4;
  if (!ranks || q.getDimSize(0) != k.getDimSize(0) ||
      k.getDimSize(0) != v.getDimSize(0) ||
      k.getDimSize(1) != v.getDimSize(1) ||
      k.getDimSize(2) != v.getDimSize(2) ||
      q.getDimSize(3) != k.getDimSize(3) || k.getDimSize(1) == 0 ||
      q.getDimSize(1) % k.getDimSize(1) != 0)
    return emitOptionalError(loc, "(C1) query ", q, ", key ", k, " and value ",
                             v, " do not match");
  if (!mask)
    return success();
  auto type = tensorType(mask);
  int64_t full[] = {q.getDimSize(0), q.getDimSize(1), q.getDimSize(2),
                    k.getDimSize(2)};
  bool fits = type.getRank() == 4 && (type.getElementType().isInteger(1) ||
                                      isa<FloatType>(type.getElementType()));
  for (int64_t i = 0; fits && i < 4; ++i)
    fits = type.getDimSize(i) == 1 || type.getDimSize(i) == full[i];
  if (!fits)
    return emitOptionalError(loc, "(C2) the mask ", type,
                             " does not broadcast to [", full[0], ", ", full[1],
                             ", ", full[2], ", ", full[3], "]");
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, Loc loc,
                                            Adaptor adaptor, Types &types) {
  auto q = tensorType(adaptor.getQuery()), v = tensorType(adaptor.getValue());
  if (failed(checkAttention(loc, q, tensorType(adaptor.getKey()), v,
                            adaptor.getMask())))
    return failure();
  types.push_back(RankedTensorType::get(
      {q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), v.getDimSize(3)},
      q.getElementType()));
  types.push_back(RankedTensorType::get(q.getShape().take_front(3),
                                        accumulationType(q.getElementType())));
  return success();
}

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *, Loc loc,
                                                    Adaptor adaptor,
                                                    Types &types) {
  auto q = tensorType(adaptor.getQuery()), k = tensorType(adaptor.getKey()),
       v = tensorType(adaptor.getValue());
  if (failed(checkAttention(loc, q, k, v, adaptor.getMask())))
    return failure();
  auto output = RankedTensorType::get(
      {q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), v.getDimSize(3)},
      q.getElementType());
  if (adaptor.getOutput().getType() != output ||
      adaptor.getCotangent().getType() != output ||
      shapeOf(adaptor.getLse()) != q.getShape().take_front(3))
    return emitOptionalError(loc, "(C1) expected output and cotangent of type ",
                             output);
  types.append({q, k, v});
  return success();
}
