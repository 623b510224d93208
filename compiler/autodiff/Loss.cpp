//===- Loss.cpp - Labels, and the loss as a sum over a count
//---------------===//
#include "compiler/autodiff/Loss.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

static constexpr StringLiteral kNextToken = "next-token";
static constexpr StringLiteral kNextTokenName = "labels";

//===--- Planning ---===//

static LogicalResult parseLoss(const ForwardProgram &forward, StringRef text,
                               LossPlan &plan) {
  plan.output = 0;
  if (text == "cross_entropy")
    plan.kind = LossKind::CrossEntropy;
  else if (text == "mse")
    plan.kind = LossKind::MeanSquaredError;
  else if (text.consume_front("output:") && !text.getAsInteger(10, plan.output))
    plan.kind = LossKind::Output;
  else
    return forward.getFunction().emitError(
               "expected loss cross_entropy, mse or output:I, but got '")
           << text << "'";
  size_t outputs = forward.getOutputs().size();
  if (plan.output >= outputs)
    return forward.getFunction().emitError("the loss is output ")
           << plan.output << ", but the graph has " << outputs
           << " outputs (the first is 0)";
  return success();
}

/// Labels for `positions` predictions: where the graph merged the batch with
/// other dimensions, labels come unmerged.
static SmallVector<int64_t> splitBatch(const ForwardProgram &forward,
                                       ArrayRef<int64_t> positions) {
  int64_t batch = forward.getBatchSize();
  if (positions.empty() || batch == 0 || positions[0] == batch ||
      positions[0] % batch != 0)
    return SmallVector<int64_t>(positions);
  SmallVector<int64_t> shape{batch, positions[0] / batch};
  llvm::append_range(shape, positions.drop_front());
  return shape;
}

/// The integer input that has one token per position.
static const ForwardProgram::Slot *findTokens(const ForwardProgram &forward,
                                              int64_t positions) {
  for (const ForwardProgram::Slot &slot : forward.getArguments())
    if (slot.role == Role::Input &&
        isa<IntegerType>(slot.getType().getElementType()) &&
        !slot.getType().getElementType().isInteger(1) &&
        slot.getType().getNumElements() == positions)
      return &slot;
  return nullptr;
}

static LogicalResult planLabels(const ForwardProgram &forward,
                                const StepOptions &options,
                                RankedTensorType positions, LossPlan &plan) {
  MLIRContext *context = forward.getFunction().getContext();
  bool nextToken = options.labels == kNextToken;
  plan.labelName = nextToken ? kNextTokenName.str() : options.labels;
  if (nextToken)
    plan.labelRule = StringAttr::get(context, kLabelRuleNextToken);
  if (const ForwardProgram::Slot *input = forward.findInput(plan.labelName)) {
    if (input->getType().getNumElements() != positions.getNumElements())
      return forward.getFunction().emitError("expected labels with ")
             << positions.getNumElements()
             << " elements, but the graph's input '" << plan.labelName
             << "' is " << input->getType();
    return success();
  }
  plan.labelType = positions.clone(splitBatch(forward, positions.getShape()));
  if (!nextToken)
    return success();
  const ForwardProgram::Slot *tokens =
      findTokens(forward, positions.getNumElements());
  if (!tokens)
    return forward.getFunction().emitError(
               "labels next-token need an integer input with one token for "
               "each of the ")
           << positions.getNumElements()
           << " predictions; give the name of the labels instead";
  plan.labelType = positions.clone(tokens->getType().getShape());
  return success();
}

static LogicalResult planCrossEntropy(const ForwardProgram &forward,
                                      const StepOptions &options,
                                      LossPlan &plan) {
  RankedTensorType logits = forward.getOutputs()[plan.output].getType();
  int64_t rank = logits.getRank();
  plan.classDim =
      options.classDim < 0 ? options.classDim + rank : options.classDim;
  if (plan.classDim < 0 || plan.classDim >= rank ||
      !isa<FloatType>(logits.getElementType()))
    return forward.getFunction().emitError("cross_entropy needs floating-point "
                                           "logits with the class dimension ")
           << options.classDim << ", but the graph's first output is "
           << logits;
  SmallVector<int64_t> shape(logits.getShape());
  shape.erase(shape.begin() + plan.classDim);
  return planLabels(
      forward, options,
      RankedTensorType::get(shape, IntegerType::get(logits.getContext(), 64)),
      plan);
}

static LogicalResult planOutput(const ForwardProgram &forward,
                                const StepOptions &options, LossPlan &plan) {
  RankedTensorType type = forward.getOutputs()[plan.output].getType();
  if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType()))
    return forward.getFunction().emitError("expected output ")
           << plan.output
           << " to be a loss of one floating-point element, but got " << type;
  bool nextToken = options.labels == kNextToken;
  StringRef name =
      nextToken ? StringRef(kNextTokenName) : StringRef(options.labels);
  if (forward.findInput(name)) {
    plan.labelName = name.str();
    if (nextToken)
      plan.labelRule = StringAttr::get(type.getContext(), kLabelRuleTokens);
  } else if (nextToken) {
    return forward.getFunction().emitError(
               "labels next-token with the loss inside the graph need an input "
               "named '")
           << name << "'";
  }
  return success();
}

FailureOr<LossPlan> autodiff::planLoss(const ForwardProgram &forward,
                                       const StepOptions &options) {
  LossPlan plan;
  if (failed(parseLoss(forward, options.loss, plan)))
    return failure();
  RankedTensorType output = forward.getOutputs()[plan.output].getType();
  LogicalResult planned = success();
  switch (plan.kind) {
  case LossKind::CrossEntropy:
    planned = planCrossEntropy(forward, options, plan);
    break;
  case LossKind::MeanSquaredError:
    planned = isa<FloatType>(output.getElementType())
                  ? planLabels(forward, options, output, plan)
                  : forward.getFunction().emitError(
                        "mse needs a floating-point output, but got ")
                        << output;
    break;
  case LossKind::Output:
    planned = planOutput(forward, options, plan);
    break;
  }
  if (failed(planned))
    return failure();
  return plan;
}

//===--- Building ---===//

static SmallVector<int64_t> positionsOf(const LossPlan &plan,
                                        ArrayRef<int64_t> output) {
  SmallVector<int64_t> shape(output);
  shape.erase(shape.begin() + plan.classDim);
  return shape;
}

LossTerms autodiff::buildLoss(TensorBuilder &b, const LossPlan &plan,
                              ValueRange outputs, Value labels,
                              const StepOptions &options) {
  Value output = outputs[plan.output];
  switch (plan.kind) {
  case LossKind::Output:
    return {b.convertToCompute(b.reshape(output, {})), Value()};
  case LossKind::MeanSquaredError: {
    Value x = b.convertToCompute(output);
    Value difference = b.subtract(
        x, b.convert(b.reshape(labels, getShape(x)), getElementType(x)));
    return {b.sumAll(b.square(difference)),
            buildLossCount(b, plan, getTensorType(output), labels, options)};
  }
  case LossKind::CrossEntropy: {
    Value perPosition = b.reshape(labels, positionsOf(plan, getShape(output)));
    auto loss = CrossEntropyOp::create(
        b.getBuilder(), b.getLoc(), output, perPosition, plan.classDim,
        options.ignoreIndex, APFloat(options.labelSmoothing));
    return {loss.getLossSum(),
            buildLossCount(b, plan, getTensorType(output), labels, options)};
  }
  }
  return {};
}

Value autodiff::buildLossCount(TensorBuilder &b, const LossPlan &plan,
                               RankedTensorType outputType, Value labels,
                               const StepOptions &options) {
  auto scalar =
      RankedTensorType::get({}, getComputeType(outputType.getElementType()));
  if (plan.kind == LossKind::CrossEntropy)
    return LabelCountOp::create(b.getBuilder(), b.getLoc(), scalar, labels,
                                options.ignoreIndex);
  if (plan.kind == LossKind::MeanSquaredError)
    return b.constant(scalar, double(outputType.getNumElements()));
  return Value();
}
