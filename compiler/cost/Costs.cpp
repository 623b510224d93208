//===- Costs.cpp - Work and traffic of every train operation
//---------------------===//
//
// Traffic is every operand read and every result written once, which a fused
// kernel undercuts: fuse subtracts what stays in registers. Work counts
// additions and multiplications; a transcendental function counts as the
// polynomial that computes it.
//
//===----------------------------------------------------------------------===//
#include "compiler/cost/DeviceTime.h"
#include "compiler/cost/Registration.h"
#include "dialects/train/Train.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

/// Operations of one exp, log, tanh, sin, ... in vectorised code, roughly.
static constexpr double kTranscendental = 12;

//===--- Sizes ---===//

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static double elementsOf(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}
static double bytesOf(Value value) {
  unsigned bits =
      cast<RankedTensorType>(value.getType()).getElementTypeBitWidth();
  return elementsOf(value) * ((bits + 7) / 8);
}
static double product(ArrayRef<int64_t> sizes) {
  double result = 1;
  for (int64_t size : sizes)
    result *= double(size);
  return result;
}

/// The given work, and traffic of every operand and result once.
static OpCost withTraffic(Operation *op, double flops) {
  OpCost cost;
  cost.flops = flops;
  for (Value operand : op->getOperands())
    cost.bytesRead += bytesOf(operand);
  for (Value result : op->getResults())
    cost.bytesWritten += bytesOf(result);
  return cost;
}

//===--- Work of each kind ---===//

static OpCost costNothing(Operation *) { return {}; }
/// Only moves data.
static OpCost costMove(Operation *op) { return withTraffic(op, 0); }
static OpCost costPerResult(Operation *op, double flops) {
  return withTraffic(op, flops * elementsOf(op->getResult(0)));
}
static OpCost costPerOperand(Operation *op, double flops) {
  return withTraffic(op, flops * elementsOf(op->getOperand(0)));
}
static OpCost costSimple(Operation *op) { return costPerResult(op, 1); }
static OpCost costTranscendental(Operation *op) {
  return costPerResult(op, kTranscendental);
}
/// Ten Philox rounds give four elements.
static OpCost costDropout(Operation *op) { return costPerResult(op, 20); }
static OpCost costReduction(Operation *op) { return costPerOperand(op, 1); }
/// Reads what it gathers, not the table.
static OpCost costGather(Operation *op) {
  OpCost cost = withTraffic(op, 0);
  cost.bytesRead += bytesOf(op->getResult(0)) - bytesOf(op->getOperand(0));
  return cost;
}
static OpCost costSlice(Operation *op) {
  return {0, bytesOf(op->getResult(0)), bytesOf(op->getResult(0))};
}
static OpCost costScatter(Operation *op) {
  return withTraffic(op, elementsOf(op->getOperands().back()));
}
static OpCost costSort(Operation *op) {
  int64_t size = shapeOf(op->getOperand(0))[cast<SortOp>(op).getDimension()];
  return costPerOperand(op, std::log2(std::max<double>(2, double(size))));
}

static OpCost costDotGeneral(Operation *op) {
  auto dot = cast<DotGeneralOp>(op);
  double contracted = 1;
  for (int64_t i : dot.getLhsContract())
    contracted *= double(shapeOf(dot.getLhs())[i]);
  return costPerResult(op, 2 * contracted);
}

/// Every output element is a sum over its filter.
static OpCost costConvolution(Operation *op, Value filter, Value output) {
  return withTraffic(op, 2 * elementsOf(output) *
                             product(shapeOf(filter).drop_front()));
}
static OpCost costConvolution(Operation *op) {
  return costConvolution(op, op->getOperand(1), op->getResult(0));
}
static OpCost costConvolutionInput(Operation *op) {
  return costConvolution(op, op->getOperand(1), op->getOperand(0));
}
static OpCost costConvolutionFilter(Operation *op) {
  return costConvolution(op, op->getResult(0), op->getOperand(1));
}

static OpCost costWindow(Operation *op) {
  return costPerResult(op, product(cast<ReduceWindowOp>(op).getWindow()));
}
static OpCost costWindowGradient(Operation *op) {
  return withTraffic(op,
                     elementsOf(op->getOperand(1)) *
                         product(cast<ReduceWindowGradientOp>(op).getWindow()));
}

/// Pairs of query and key that see each other by position.
static double countPairs(int64_t queries, int64_t keys, bool causal,
                         std::optional<uint64_t> window) {
  double pairs = 0;
  for (int64_t t = 0; t < queries; ++t) {
    int64_t end = causal ? std::min(keys, t + 1) : keys;
    int64_t begin = window ? std::max<int64_t>(0, t - int64_t(*window) + 1) : 0;
    pairs += double(std::max<int64_t>(0, end - begin));
  }
  return pairs;
}

static OpCost costAttention(Operation *op) {
  auto attention = cast<AttentionOp>(op);
  ArrayRef<int64_t> q = shapeOf(attention.getQuery()),
                    v = shapeOf(attention.getValue());
  double pairs =
      double(q[0] * q[1]) *
      countPairs(q[2], v[2], attention.getCausal(), attention.getWindow());
  return withTraffic(op,
                     pairs * (2.0 * double(q[3] + v[3]) + kTranscendental + 3));
}

/// Recomputes the scores: three products of query width, two of value width.
static OpCost costAttentionGradient(Operation *op) {
  auto attention = cast<AttentionGradientOp>(op);
  ArrayRef<int64_t> q = shapeOf(attention.getQuery()),
                    v = shapeOf(attention.getValue());
  double pairs =
      double(q[0] * q[1]) *
      countPairs(q[2], v[2], attention.getCausal(), attention.getWindow());
  return withTraffic(
      op, pairs * (2.0 * double(3 * q[3] + 2 * v[3]) + kTranscendental + 4));
}

static OpCost costSoftmax(Operation *op) {
  return costPerResult(op, kTranscendental + 4);
}
static OpCost costNorm(Operation *op) { return costPerResult(op, 8); }
static OpCost costNormGradient(Operation *op) { return costPerOperand(op, 14); }
static OpCost costEmbeddingGradient(Operation *op) {
  return costPerOperand(op, 1);
}
static OpCost costCrossEntropy(Operation *op) {
  return costPerOperand(op, kTranscendental + 4);
}
static OpCost costGlobalNorm(Operation *op) {
  double elements = 0;
  for (Value operand : op->getOperands())
    elements += elementsOf(operand);
  return withTraffic(op, 2 * elements);
}
static OpCost costSgd(Operation *op) { return costPerResult(op, 8); }
static OpCost costAdam(Operation *op) { return costPerResult(op, 18); }

static OpCost costAccumulate(Operation *op) {
  auto accumulate = cast<AccumulateOp>(op);
  OpCost body;
  for (Operation &inner : accumulate.getBody().front())
    if (auto costed = dyn_cast<CostedOpInterface>(inner))
      body = body + costed.getCost();
  double steps = double(accumulate.getSteps());
  return {body.flops * steps, body.bytesRead * steps,
          body.bytesWritten * steps};
}

//===--- Attaching ---===//

namespace {

template <typename Op, OpCost (*cost)(Operation *)>
struct CostedModel
    : CostedOpInterface::ExternalModel<CostedModel<Op, cost>, Op> {
  OpCost getCost(Operation *op) const { return cost(op); }
};

template <OpCost (*cost)(Operation *), typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<CostedModel<Ops, cost>>(*context), ...);
}

} // namespace

static void attachPointwise(MLIRContext *c) {
  attach<costSimple, NegateOp, AbsOp, SignOp, SqrtOp, RsqrtOp, FloorOp, CeilOp,
         RoundNearestEvenOp, TruncateOp, NotOp, AddOp, SubtractOp, MultiplyOp,
         DivideOp, FloorDivideOp, RemainderOp, ModuloOp, MaximumOp, MinimumOp,
         AndOp, OrOp, XorOp, ShiftLeftOp, ShiftRightOp, CompareOp, SelectOp,
         ConvertOp>(c);
  attach<costTranscendental, ExponentialOp, ExponentialMinusOneOp, LogOp,
         LogPlusOneOp, TanhOp, LogisticOp, SineOp, CosineOp, TanOp, AtanOp,
         ErfOp, PowerOp, Atan2Op>(c);
  attach<costDropout, DropoutOp>(c);
}

static void attachData(MLIRContext *c) {
  attach<costNothing, ReshapeOp, StopGradientOp, ConstantOp, YieldOp>(c);
  attach<costMove, IotaOp, BroadcastInDimOp, TransposeOp, PadOp, ConcatenateOp,
         ReverseOp>(c);
  attach<costSlice, SliceOp>(c);
  attach<costGather, GatherOp, EmbeddingOp>(c);
  attach<costScatter, ScatterOp>(c);
  attach<costSort, SortOp>(c);
  attach<costReduction, CumulativeOp, ReduceOp, ArgReduceOp>(c);
}

static void attachProducts(MLIRContext *c) {
  attach<costDotGeneral, DotGeneralOp>(c);
  attach<costConvolution, ConvolutionOp>(c);
  attach<costConvolutionInput, ConvolutionInputGradientOp>(c);
  attach<costConvolutionFilter, ConvolutionFilterGradientOp>(c);
  attach<costWindow, ReduceWindowOp>(c);
  attach<costWindowGradient, ReduceWindowGradientOp>(c);
}

static void attachComposites(MLIRContext *c) {
  attach<costSoftmax, SoftmaxOp, LogSoftmaxOp>(c);
  attach<costNorm, LayerNormOp, RmsNormOp, BatchNormOp>(c);
  attach<costNormGradient, LayerNormGradientOp, RmsNormGradientOp,
         BatchNormGradientOp>(c);
  attach<costAttention, AttentionOp>(c);
  attach<costAttentionGradient, AttentionGradientOp>(c);
  attach<costEmbeddingGradient, EmbeddingGradientOp>(c);
  attach<costCrossEntropy, CrossEntropyOp, CrossEntropyGradientOp>(c);
  attach<costReduction, LabelCountOp>(c);
  attach<costGlobalNorm, GlobalNormOp>(c);
  attach<costSgd, SgdOp>(c);
  attach<costAdam, AdamOp>(c);
  attach<costAccumulate, AccumulateOp>(c);
}

void registerCostedExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TrainDialect *) {
    attachPointwise(context);
    attachData(context);
    attachProducts(context);
    attachComposites(context);
  });
}

} // namespace lockstep
