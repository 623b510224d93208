#include "compiler/import/recognize/Matching.h"

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

std::optional<double> splatOf(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  auto elements = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                           : SplatElementsAttr();
  if (!elements)
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    bool ignored;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &ignored);
    return number.convertToDouble();
  }
  APInt number = elements.getSplatValue<APInt>();
  bool isUnsigned = number.getBitWidth() == 1 ||
                    elements.getElementType().isUnsignedInteger();
  return isUnsigned ? static_cast<double>(number.getZExtValue())
                    : static_cast<double>(number.getSExtValue());
}

bool eitherOrder(Value a, Value b,
                 llvm::function_ref<bool(Value, Value)> match) {
  return match(a, b) || match(b, a);
}

static Shape withoutOnes(Dims shape) {
  Shape result;
  for (int64_t size : shape)
    if (size != 1)
      result.push_back(size);
  return result;
}

/// The operand of a reshape that keeps all sizes but ones.
static Value throughUnits(Value value) {
  while (auto reshape =
             value ? value.getDefiningOp<ReshapeOp>() : ReshapeOp()) {
    if (withoutOnes(shapeOf(reshape.getOperand())) !=
        withoutOnes(shapeOf(value)))
      break;
    value = reshape.getOperand();
  }
  return value;
}

Value repeatedRows(Value value, int64_t reducedDims) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return {};
  int64_t leading = rankOf(value) - reducedDims;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions()))
    if (dim >= leading && shapeOf(broadcast.getOperand())[i] != 1)
      return {};
  // All leading sizes must be present.
  if (countOf(shapeOf(broadcast.getOperand())) !=
      countOf(shapeOf(value).take_front(leading)))
    return {};
  return throughUnits(broadcast.getOperand());
}

Value repeatedWeight(Value value, int64_t axes) {
  if (rankOf(value) == axes)
    return value;
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return {};
  Value operand = broadcast.getOperand();
  int64_t leading = rankOf(value) - axes;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions())) {
    if (dim < leading ? shapeOf(operand)[i] != 1
                      : shapeOf(operand)[i] != shapeOf(value)[dim])
      return {};
  }
  if (countOf(shapeOf(operand)) != countOf(shapeOf(value).take_back(axes)))
    return {};
  return operand;
}

Value meanOperand(Value value, int64_t &axes) {
  value = throughUnits(value);
  auto divide = value ? value.getDefiningOp<DivideOp>() : DivideOp();
  std::optional<double> count =
      divide ? splatOf(divide.getRhs()) : std::nullopt;
  if (!count)
    return {};
  Value sum = throughUnits(divide.getLhs());
  auto reduce = sum ? sum.getDefiningOp<ReduceOp>() : ReduceOp();
  if (!reduce || reduce.getKind() != ReduceKind::Sum)
    return {};
  Value operand = reduce.getOperand();
  axes = reduce.getDimensions().size();
  int64_t first = rankOf(operand) - axes;
  for (auto [i, dim] : llvm::enumerate(reduce.getDimensions()))
    if (dim != first + static_cast<int64_t>(i))
      return {};
  if (axes == 0 ||
      *count != static_cast<double>(countOf(shapeOf(operand).take_back(axes))))
    return {};
  return operand;
}

} // namespace lockstep::recognize
