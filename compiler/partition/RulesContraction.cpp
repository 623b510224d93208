//===- RulesContraction.cpp - Factor rules of reductions and products -----===//
#include "compiler/partition/RuleBuilder.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;
using namespace lockstep::train;

static ShardingRule reduceRule(ReduceOp op) {
  RuleBuilder r(op);
  int64_t to = 0;
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0))) {
    bool reduced =
        llvm::is_contained(op.getDimensions(), static_cast<int64_t>(dim));
    int f =
        r.factor(size, reduced ? FactorKind::Reduction : FactorKind::Parallel,
                 op.getKind());
    r.addToOperand(0, dim, f);
    if (!reduced)
      r.addToResult(0, to++, f);
  }
  return r.take();
}

static ShardingRule argReduceRule(ArgReduceOp op) {
  RuleBuilder r(op);
  int64_t to = 0;
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0))) {
    bool reduced =
        static_cast<int64_t>(dim) == static_cast<int64_t>(op.getDimension());
    int f =
        r.factor(size, reduced ? FactorKind::Replicate : FactorKind::Parallel);
    r.addToOperand(0, dim, f);
    if (!reduced)
      r.addToResult(0, to++, f);
  }
  return r.take();
}

static ShardingRule dotRule(DotGeneralOp op) {
  RuleBuilder r(op);
  int64_t to = 0;
  for (auto [left, right] : llvm::zip(op.getLhsBatch(), op.getRhsBatch())) {
    int f = r.factor(r.operandShape(0)[left]);
    r.addToOperand(0, left, f)
        .addToOperand(1, right, f)
        .addToResult(0, to++, f);
  }
  for (auto [left, right] :
       llvm::zip(op.getLhsContract(), op.getRhsContract())) {
    int f = r.factor(r.operandShape(0)[left], FactorKind::Reduction);
    r.addToOperand(0, left, f).addToOperand(1, right, f);
  }
  for (auto [number, free] : llvm::enumerate(
           SmallVector<SmallVector<int64_t>>{op.getLhsFree(), op.getRhsFree()}))
    for (int64_t dim : free) {
      int f = r.factor(r.operandShape(number)[dim]);
      r.addToOperand(number, dim, f).addToResult(0, to++, f);
    }
  return r.take();
}

namespace {
/// The three tensors of a convolution: operand or result, and its number.
struct Place {
  bool isResult;
  int number;
  ArrayRef<int64_t> shape;
};
/// Which of batch, output channels and input channels the operation sums over.
enum class Summed { InputChannel, OutputChannel, Batch };
} // namespace

template <typename OpT>
static ShardingRule convolutionRule(OpT op, Place input, Place filter,
                                    Place output, Summed summed) {
  RuleBuilder r(op);
  auto add = [&](const Place &place, int64_t dim, int f) {
    place.isResult ? r.addToResult(place.number, dim, f)
                   : r.addToOperand(place.number, dim, f);
  };
  auto factor = [&](int64_t size, Summed role) {
    return r.factor(size, role == summed ? FactorKind::Reduction
                                         : FactorKind::Parallel);
  };
  int64_t groups = op.getGroups();
  int batch = factor(input.shape[0], Summed::Batch);
  // Channels are [group, channel of the group]: dividing whole groups leaves
  // all three tensors divided.
  int group = r.factor(groups);
  int outChannel = factor(filter.shape[0] / groups, Summed::OutputChannel);
  int inChannel = factor(filter.shape[1], Summed::InputChannel);
  add(input, 0, batch), add(input, 1, group), add(input, 1, inChannel);
  add(filter, 0, group), add(filter, 0, outChannel), add(filter, 1, inChannel);
  add(output, 0, batch), add(output, 1, group), add(output, 1, outChannel);
  // A filter of one pixel moves nothing; otherwise neighbours are needed, and
  // space stays whole.
  for (size_t i = 0; i + 2 < input.shape.size(); ++i) {
    int64_t dim = i + 2;
    bool pointwise = filter.shape[dim] == 1 && op.getStrides()[i] == 1 &&
                     op.getPaddingLow()[i] == 0 && op.getPaddingHigh()[i] == 0;
    if (pointwise) {
      int f = r.factor(input.shape[dim], summed == Summed::Batch
                                             ? FactorKind::Reduction
                                             : FactorKind::Parallel);
      add(input, dim, f), add(output, dim, f);
    } else {
      add(input, dim, r.factor(input.shape[dim], FactorKind::Replicate));
      add(output, dim, r.factor(output.shape[dim], FactorKind::Replicate));
    }
    add(filter, dim, r.factor(filter.shape[dim], FactorKind::Replicate));
  }
  return r.take();
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static ShardingRule forwardConvolutionRule(ConvolutionOp op) {
  return convolutionRule(op, {false, 0, shapeOf(op.getInput())},
                         {false, 1, shapeOf(op.getFilter())},
                         {true, 0, shapeOf(op.getResult())},
                         Summed::InputChannel);
}
static ShardingRule
convolutionInputGradientRule(ConvolutionInputGradientOp op) {
  return convolutionRule(op, {true, 0, shapeOf(op.getResult())},
                         {false, 1, shapeOf(op.getFilter())},
                         {false, 0, shapeOf(op.getCotangent())},
                         Summed::OutputChannel);
}
static ShardingRule
convolutionFilterGradientRule(ConvolutionFilterGradientOp op) {
  return convolutionRule(op, {false, 0, shapeOf(op.getInput())},
                         {true, 0, shapeOf(op.getResult())},
                         {false, 1, shapeOf(op.getCotangent())}, Summed::Batch);
}

/// Dimensions before the window's, and those in which the window does nothing,
/// divide.
template <typename OpT>
static ShardingRule windowRule(OpT op, bool isGradient) {
  RuleBuilder r(op);
  ArrayRef<int64_t> shape = r.operandShape(0),
                    pooled = isGradient ? r.operandShape(1) : r.resultShape(0);
  int64_t leading = shape.size() - op.getWindow().size();
  auto addPooled = [&](int64_t dim, int f) {
    isGradient ? r.addToOperand(1, dim, f) : r.addToResult(0, dim, f);
  };
  for (int64_t dim = 0, rank = shape.size(); dim < rank; ++dim) {
    int64_t k = dim - leading;
    bool passes =
        k < 0 || (op.getWindow()[k] == 1 && op.getStrides()[k] == 1 &&
                  op.getPaddingLow()[k] == 0 && op.getPaddingHigh()[k] == 0);
    int whole = r.factor(shape[dim],
                         passes ? FactorKind::Parallel : FactorKind::Replicate);
    r.addToOperand(0, dim, whole);
    if (isGradient)
      r.addToResult(0, dim, whole);
    addPooled(dim,
              passes ? whole : r.factor(pooled[dim], FactorKind::Replicate));
  }
  return r.take();
}

static ShardingRule reduceWindowRule(ReduceWindowOp op) {
  return windowRule(op, /*isGradient=*/false);
}
static ShardingRule reduceWindowGradientRule(ReduceWindowGradientOp op) {
  return windowRule(op, /*isGradient=*/true);
}

void partition::attachContractionRules(MLIRContext *context) {
  attachRule<ReduceOp, reduceRule>(context);
  attachRule<ArgReduceOp, argReduceRule>(context);
  attachRule<DotGeneralOp, dotRule>(context);
  attachRule<ConvolutionOp, forwardConvolutionRule>(context);
  attachRule<ConvolutionInputGradientOp, convolutionInputGradientRule>(context);
  attachRule<ConvolutionFilterGradientOp, convolutionFilterGradientRule>(
      context);
  attachRule<ReduceWindowOp, reduceWindowRule>(context);
  attachRule<ReduceWindowGradientOp, reduceWindowGradientRule>(context);
}
