//===- PointwiseOps.cpp - Elementwise operations --------------------------===//
#include "dialects/train/Inference.h"
#include "dialects/train/Train.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace lockstep::train;

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get(shapeOf(adaptor.getLhs()),
                                        IntegerType::get(context, 1)));
  return success();
}

/// True when the attribute is a splat of the number `value` (as float or
/// integer).
static bool isSplatOf(Attribute attribute, double value) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(attribute);
  if (!elements || !elements.isSplat())
    return false;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().isExactlyValue(value);
  APInt integer = elements.getSplatValue<APInt>();
  return integer.getBitWidth() == 1
             ? integer.getBoolValue() == (value != 0)
             : integer.getSExtValue() == static_cast<int64_t>(value);
}

// x + 0 is not x for x = -0.0, but -0.0 + 0.0 = 0.0 compares equal and has the
// same derivative: accepted, as frameworks do.
OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isSplatOf(adaptor.getRhs(), 0))
    return getLhs();
  return isSplatOf(adaptor.getLhs(), 0) ? OpFoldResult(getRhs())
                                        : OpFoldResult();
}

OpFoldResult SubtractOp::fold(FoldAdaptor adaptor) {
  return isSplatOf(adaptor.getRhs(), 0) ? OpFoldResult(getLhs())
                                        : OpFoldResult();
}

OpFoldResult MultiplyOp::fold(FoldAdaptor adaptor) {
  if (isSplatOf(adaptor.getRhs(), 1))
    return getLhs();
  return isSplatOf(adaptor.getLhs(), 1) ? OpFoldResult(getRhs())
                                        : OpFoldResult();
}

OpFoldResult DivideOp::fold(FoldAdaptor adaptor) {
  return isSplatOf(adaptor.getRhs(), 1) ? OpFoldResult(getLhs())
                                        : OpFoldResult();
}

/// Folds boolean `x op neutral` to x and `x op absorbing` to the constant.
static OpFoldResult foldBoolean(Value lhs, Value rhs, Attribute lhsAttr,
                                Attribute rhsAttr, double neutral) {
  if (!elementOf(lhs).isInteger(1))
    return {};
  if (isSplatOf(rhsAttr, neutral))
    return lhs;
  if (isSplatOf(lhsAttr, neutral))
    return rhs;
  if (isSplatOf(rhsAttr, 1 - neutral))
    return rhs;
  return isSplatOf(lhsAttr, 1 - neutral) ? OpFoldResult(lhs) : OpFoldResult();
}

OpFoldResult AndOp::fold(FoldAdaptor adaptor) {
  return foldBoolean(getLhs(), getRhs(), adaptor.getLhs(), adaptor.getRhs(), 1);
}
OpFoldResult OrOp::fold(FoldAdaptor adaptor) {
  return foldBoolean(getLhs(), getRhs(), adaptor.getLhs(), adaptor.getRhs(), 0);
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getOnTrue() == getOnFalse() || isSplatOf(adaptor.getPred(), 1))
    return getOnTrue();
  return isSplatOf(adaptor.getPred(), 0) ? OpFoldResult(getOnFalse())
                                         : OpFoldResult();
}

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getOperand().getType() == getType() ? OpFoldResult(getOperand())
                                             : OpFoldResult();
}

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("(C1) expected a rate in [0, 1), but got ") << rate;
  int64_t rank = tensorType(getOperand()).getRank();
  if (static_cast<bool>(getOffsets()) != getGlobalShape().has_value())
    return emitOpError("(C2) expected offsets and global_shape together");
  if (getOffsets() && (static_cast<int64_t>(getGlobalShape()->size()) != rank ||
                       shapeOf(getOffsets()) != ArrayRef<int64_t>{rank}))
    return emitOpError("(C2) expected offsets and global_shape of rank ")
           << rank;
  return success();
}
