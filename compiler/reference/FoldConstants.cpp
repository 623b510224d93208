//===- FoldConstants.cpp - Evaluates operations on constants
//-----------------------===//
#include "compiler/reference/FoldConstants.h"
#include "dialects/train/Train.h"

using namespace mlir;

namespace lockstep {

/// Dropout depends on its operands alone, but is meant to differ from run to
/// run.
static bool canEvaluate(Operation *op, int64_t maxElements) {
  if (!isa<train::EvaluableOpInterface>(op) || isa<train::DropoutOp>(op))
    return false;
  // A broadcast of one value is a splat whatever its size, so its result is
  // judged when it is there.
  return isa<train::BroadcastInDimOp, train::ConstantOp>(op) ||
         llvm::all_of(op->getResultTypes(), [&](Type type) {
           return cast<RankedTensorType>(type).getNumElements() <= maxElements;
         });
}

static bool isSmall(const HostTensor &tensor, int64_t maxElements) {
  return tensor.isSplat() || tensor.getNumElements() <= maxElements;
}

static FailureOr<SmallVector<HostTensor>>
evaluate(Operation *op, ArrayRef<HostTensor> operands) {
  SmallVector<HostTensor> results;
  if (failed(cast<train::EvaluableOpInterface>(op).evaluate(operands, results)))
    return failure();
  return results;
}

FailureOr<SmallVector<HostTensor>> evaluateOnConstants(Operation *op,
                                                       int64_t maxElements) {
  if (!canEvaluate(op, maxElements))
    return failure();
  SmallVector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<train::ConstantOp>();
    if (!constant)
      return failure();
    FailureOr<HostTensor> value = HostTensor::fromAttr(constant.getValue());
    if (failed(value) || !isSmall(*value, maxElements))
      return failure();
    operands.push_back(*value);
  }
  return evaluate(op, operands);
}

/// Expressions are graphs, so every operation is evaluated once.
static FailureOr<HostTensor>
evaluateMemoized(Value value, int64_t maxElements,
                 DenseMap<Operation *, SmallVector<HostTensor>> &known) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || !canEvaluate(result.getOwner(), maxElements))
    return failure();
  Operation *op = result.getOwner();
  auto it = known.find(op);
  if (it != known.end())
    return it->second[result.getResultNumber()];
  SmallVector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    FailureOr<HostTensor> operandValue =
        evaluateMemoized(operand, maxElements, known);
    if (failed(operandValue) || !isSmall(*operandValue, maxElements))
      return failure();
    operands.push_back(*operandValue);
  }
  FailureOr<SmallVector<HostTensor>> results = evaluate(op, operands);
  if (failed(results))
    return failure();
  known[op] = *results;
  return (*results)[result.getResultNumber()];
}

FailureOr<HostTensor> evaluateConstantExpression(Value value,
                                                 int64_t maxElements) {
  DenseMap<Operation *, SmallVector<HostTensor>> known;
  return evaluateMemoized(value, maxElements, known);
}

} // namespace lockstep
