//===- StepOps.cpp - Loss, update, accumulation ---------------------------===//
#include "dialects/train/Inference.h"
#include "dialects/train/Train.h"

using namespace mlir;
using namespace lockstep::train;

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// (C1): the dimension exists, and labels have the logits' shape without it.
static LogicalResult checkLabels(std::optional<Location> loc,
                                 RankedTensorType logits, int64_t dimension,
                                 Value labels) {
  if (dimension < 0 || dimension >= logits.getRank())
    return emitOptionalError(loc, "(C1) expected a dimension below ",
                             logits.getRank(), ", but got ", dimension);
  SmallVector<int64_t> shape = dropDims(logits.getShape(), {dimension});
  if (shapeOf(labels) != ArrayRef<int64_t>(shape))
    return emitOptionalError(loc, "(C1) expected labels with the shape of ",
                             logits, " without dimension ", dimension,
                             ", but got ", labels.getType());
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> loc,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  auto logits = tensorType(adaptor.getLogits());
  if (failed(checkLabels(loc, logits, adaptor.getDimension(),
                         adaptor.getLabels())))
    return failure();
  Type element = accumulationType(logits.getElementType());
  types.push_back(RankedTensorType::get({}, element));
  types.push_back(RankedTensorType::get(shapeOf(adaptor.getLabels()), element));
  return success();
}

LogicalResult CrossEntropyGradientOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto logits = tensorType(adaptor.getLogits());
  if (failed(checkLabels(loc, logits, adaptor.getDimension(),
                         adaptor.getLabels())))
    return failure();
  if (shapeOf(adaptor.getLse()) != shapeOf(adaptor.getLabels()) ||
      !shapeOf(adaptor.getScale()).empty())
    return emitOptionalError(
        loc, "(C1) expected lse with the labels' shape and a rank-0 scale");
  types.push_back(logits);
  return success();
}

//===----------------------------------------------------------------------===//
// Update
//===----------------------------------------------------------------------===//

LogicalResult SgdOp::verify() {
  bool has = static_cast<bool>(getMomentumBuffer());
  if (has != static_cast<bool>(getMomentum()) ||
      has != static_cast<bool>(getNewMomentumBuffer()))
    return emitOpError("(C1) expected momentum buffer, momentum and the second "
                       "result together");
  if (has &&
      (shapeOf(getMomentumBuffer()) != shapeOf(getParameter()) ||
       getMomentumBuffer().getType() != getNewMomentumBuffer().getType()))
    return emitOpError("(C1) expected a momentum buffer like the parameter");
  return success();
}

//===----------------------------------------------------------------------===//
// Accumulate
//===----------------------------------------------------------------------===//

LogicalResult AccumulateOp::verify() {
  int64_t steps = getSteps();
  if (steps < 1)
    return emitOpError("(C1) expected at least 1 step, but got ") << steps;
  Block &block = getBody().front();
  size_t batch = getBatch().size(), carried = getCarried().size();
  if (block.getNumArguments() != batch + carried + 1)
    return emitOpError("(C2) expected ")
           << batch + carried + 1 << " body arguments, but got "
           << block.getNumArguments();
  for (auto [i, value] : llvm::enumerate(getBatch())) {
    auto whole = tensorType(value), part = tensorType(block.getArgument(i));
    if (whole.getRank() < 1 || whole.getDimSize(0) % steps != 0)
      return emitOpError("(C1) ")
             << steps << " steps do not divide dimension 0 of " << whole;
    SmallVector<int64_t> shape(whole.getShape());
    shape[0] /= steps;
    if (part.getShape() != ArrayRef<int64_t>(shape) ||
        part.getElementType() != whole.getElementType())
      return emitOpError("(C2) expected body argument ")
             << i << " to be one of " << steps << " parts of " << whole
             << ", but got " << part;
  }
  auto yield = cast<YieldOp>(block.getTerminator());
  if (yield.getNumOperands() != getNumResults() || carried > getNumResults())
    return emitOpError("(C2) expected as many yielded values as results");
  for (auto [i, value] : llvm::enumerate(yield.getValues()))
    if (value.getType() != getResult(i).getType() ||
        (i < carried &&
         (getCarried()[i].getType() != value.getType() ||
          block.getArgument(batch + i).getType() != value.getType())))
      return emitOpError("(C2) type of yielded value ") << i << " differs";
  return success();
}
