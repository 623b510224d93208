//===- ReverseMode.cpp - Gradients by one walk backward
//--------------------===//
#include "compiler/autodiff/ReverseMode.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;

namespace {

/// Values whose change changes a wanted value's function: floating point, and
/// computed from a wanted value.
class Activity {
public:
  Activity(ArrayRef<Operation *> operations, ValueRange wanted) {
    for (Value value : wanted)
      insert(value);
    for (Operation *op : operations)
      if (llvm::any_of(op->getOperands(),
                       [&](Value operand) { return contains(operand); }))
        llvm::for_each(op->getResults(), [&](Value result) { insert(result); });
  }
  bool contains(Value value) const { return active.contains(value); }

private:
  void insert(Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && isa<FloatType>(type.getElementType()))
      active.insert(value);
  }
  DenseSet<Value> active;
};

/// The sums of what the users of each value contribute.
class Cotangents {
public:
  Cotangents(OpBuilder &builder) : builder(builder) {}
  Value lookup(Value value) const { return sums.lookup(value); }
  void add(Value value, Value cotangent, Location loc) {
    Value &sum = sums[value];
    sum = sum ? train::TensorBuilder(builder, loc).add(sum, cotangent)
              : cotangent;
  }

private:
  OpBuilder &builder;
  DenseMap<Value, Value> sums;
};

/// Notes the operations that a builder inserts, in order.
struct InsertionRecorder : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    operations.push_back(op);
  }
  SmallVector<Operation *> operations;
};

} // namespace

FailureOr<SmallVector<Value>>
autodiff::buildReverseMode(OpBuilder &builder, ArrayRef<Operation *> operations,
                           ValueRange results, ValueRange cotangents,
                           ValueRange wanted) {
  Activity activity(operations, wanted);
  Cotangents sums(builder);
  for (auto [result, cotangent] : llvm::zip_equal(results, cotangents))
    if (result && cotangent && activity.contains(result))
      sums.add(result, cotangent, result.getLoc());

  for (Operation *op : llvm::reverse(operations)) {
    SmallVector<Value> incoming = llvm::map_to_vector(
        op->getResults(), [&](Value result) { return sums.lookup(result); });
    SmallVector<bool> needed =
        llvm::map_to_vector(op->getOperands(), [&](Value operand) {
          return activity.contains(operand);
        });
    if (!llvm::any_of(incoming, [](Value v) { return bool(v); }) ||
        !llvm::is_contained(needed, true))
      continue;
    auto differentiable = dyn_cast<train::DifferentiableOpInterface>(op);
    if (!differentiable || op->getNumRegions() != 0)
      return op->emitError("'") << op->getName()
                                << "' has no derivative, but the loss depends "
                                   "on parameters through it";
    SmallVector<Value> gradients =
        differentiable.buildGradients(builder, incoming, needed);
    for (auto [operand, gradient] :
         llvm::zip_equal(op->getOperands(), gradients))
      if (gradient)
        sums.add(operand, gradient, op->getLoc());
  }
  return llvm::map_to_vector(wanted,
                             [&](Value value) { return sums.lookup(value); });
}

SmallVector<Value>
autodiff::buildGradientsOfDecomposition(Operation *op, OpBuilder &builder,
                                        ValueRange cotangents,
                                        ArrayRef<bool> needed) {
  InsertionRecorder recorder;
  OpBuilder recording(builder.getContext(), &recorder);
  Operation *copy = builder.clone(*op);
  // A decomposition leaves out results without uses.
  SmallVector<Value> used;
  for (auto [result, cotangent] :
       llvm::zip_equal(copy->getResults(), cotangents))
    if (cotangent)
      used.push_back(result);
  Operation *user = UnrealizedConversionCastOp::create(builder, op->getLoc(),
                                                       TypeRange(), used);
  SmallVector<Value> results =
      cast<train::DecomposableOpInterface>(copy).decompose(recording);
  user->erase();
  copy->erase();

  SmallVector<Value> wanted;
  for (auto [operand, isNeeded] : llvm::zip_equal(op->getOperands(), needed))
    if (isNeeded && !llvm::is_contained(wanted, operand))
      wanted.push_back(operand);
  FailureOr<SmallVector<Value>> gradients = buildReverseMode(
      builder, recorder.operations, results, cotangents, wanted);
  SmallVector<Value> perOperand(op->getNumOperands());
  if (failed(gradients))
    return perOperand;
  // An operand used twice gets its whole gradient at its first use.
  for (auto [value, gradient] : llvm::zip_equal(wanted, *gradients))
    perOperand[llvm::find(op->getOperands(), value).getIndex()] = gradient;
  return perOperand;
}
