//===- DerivativesModel.cpp - Derivatives of layers, losses and updates
//----===//
//
// Layers with kernels of their own have gradient operations of their own, which
// take what the forward operation saved. The derivative of such a gradient
// operation, and a gradient that no kernel gives (attention's mask, a norm's
// saved mean), come from the decomposition.
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/DerivativeRules.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

using E = Expression;

/// dx = y (dy - sum(dy y))
struct SoftmaxRule : GradientRule<SoftmaxRule, SoftmaxOp> {
  static void build(SoftmaxOp op, GradientBuilder &g) {
    E y = g.expression(op.getResult()), dy = g.expression(g.cotangent());
    int64_t dim = op.getDimension();
    E sum = g.expression(g.broadcastRows(g.sum(dy * y, dim), getShape(y), dim));
    g.set(0, y * (dy - sum));
  }
};

/// dx = dy - e^y sum(dy)
struct LogSoftmaxRule : GradientRule<LogSoftmaxRule, LogSoftmaxOp> {
  static void build(LogSoftmaxOp op, GradientBuilder &g) {
    E y = g.expression(op.getResult()), dy = g.expression(g.cotangent());
    int64_t dim = op.getDimension();
    E sum = g.expression(g.broadcastRows(g.sum(dy, dim), getShape(y), dim));
    g.set(0, dy - exp(y) * sum);
  }
};

/// Sets the gradients of a norm's operands, of which `weight` and `bias` may be
/// absent, from its gradient operation's results.
void setNormGradients(GradientBuilder &g, bool hasWeight, bool hasBias,
                      Operation *gradient) {
  unsigned next = 0;
  g.set(next++, gradient->getResult(0));
  if (hasWeight)
    g.set(next++, gradient->getResult(1));
  if (hasBias)
    g.set(next++, gradient->getResult(2));
}

struct LayerNormRule : GradientRule<LayerNormRule, LayerNormOp> {
  static void build(LayerNormOp op, GradientBuilder &g) {
    auto gradient = LayerNormGradientOp::create(
        g.getBuilder(), op.getLoc(), g.cotangent(), op.getOperand(),
        op.getMean(), op.getRstd(), op.getWeight(), op.getAxes());
    setNormGradients(g, bool(op.getWeight()), bool(op.getBias()), gradient);
  }
};

struct RmsNormRule : GradientRule<RmsNormRule, RmsNormOp> {
  static void build(RmsNormOp op, GradientBuilder &g) {
    auto gradient = RmsNormGradientOp::create(
        g.getBuilder(), op.getLoc(), g.cotangent(), op.getOperand(),
        op.getRstd(), op.getWeight(), op.getAxes());
    setNormGradients(g, bool(op.getWeight()), false, gradient);
  }
};

/// The running statistics are constants of the forward pass, in training and in
/// inference, as in PyTorch.
struct BatchNormRule : GradientRule<BatchNormRule, BatchNormOp> {
  static void build(BatchNormOp op, GradientBuilder &g) {
    auto gradient = BatchNormGradientOp::create(
        g.getBuilder(), op.getLoc(), g.cotangent(), op.getOperand(),
        op.getMean(), op.getRstd(), op.getWeight(), op.getInference(),
        op.getLocalStatistics());
    setNormGradients(g, bool(op.getWeight()), bool(op.getBias()), gradient);
  }
};

struct EmbeddingRule : GradientRule<EmbeddingRule, EmbeddingOp> {
  static void build(EmbeddingOp op, GradientBuilder &g) {
    g.set(0, EmbeddingGradientOp::create(g.getBuilder(), op.getLoc(),
                                         op.getTable().getType(), g.cotangent(),
                                         op.getIds(), op.getPaddingIdxAttr()));
  }
};

/// Linear in its cotangent: the adjoint looks rows up again, and gives zero
/// where the padding row was left out.
struct EmbeddingGradientRule
    : GradientRule<EmbeddingGradientRule, EmbeddingGradientOp> {
  static void build(EmbeddingGradientOp op, GradientBuilder &g) {
    E rows = g.expression(EmbeddingOp::create(g.getBuilder(), op.getLoc(),
                                              g.cotangent(), op.getIds(),
                                              IntegerAttr()));
    if (std::optional<int64_t> padding = op.getPaddingIdx()) {
      E ids = g.expression(op.getIds());
      Value isPadding = ids == double(*padding);
      SmallVector<int64_t> idDims = getDimRange(0, getShape(ids).size());
      rows =
          select(g.expression(g.broadcast(isPadding, getShape(rows), idDims)),
                 0.0, rows);
    }
    g.set(0, rows);
  }
};

struct AttentionRule : GradientRule<AttentionRule, AttentionOp> {
  static bool mustDecompose(AttentionOp op, ArrayRef<bool> needed) {
    return op.getMask() && needed[3];
  }

  static void build(AttentionOp op, GradientBuilder &g) {
    auto gradient = AttentionGradientOp::create(
        g.getBuilder(), op.getLoc(), g.cotangent(), op.getQuery(), op.getKey(),
        op.getValue(), op.getResult(), op.getLse(), op.getMask(),
        op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr());
    for (auto [i, result] : llvm::enumerate(gradient.getResults()))
      g.set(i, result);
  }
};

/// The cotangent of the sum is the scale of the gradient.
struct CrossEntropyRule : GradientRule<CrossEntropyRule, CrossEntropyOp> {
  static void build(CrossEntropyOp op, GradientBuilder &g) {
    g.set(0, CrossEntropyGradientOp::create(
                 g.getBuilder(), op.getLoc(), op.getLogits(), op.getLabels(),
                 op.getLse(), g.cotangent(), op.getDimensionAttr(),
                 op.getIgnoreIndexAttr(), op.getSmoothingAttr()));
  }
};

} // namespace

void autodiff::attachModelRules(MLIRContext *context) {
  attachRules<SoftmaxRule, LogSoftmaxRule, LayerNormRule, RmsNormRule,
              BatchNormRule, EmbeddingRule, AttentionRule, CrossEntropyRule>(
      context);
  attachRules<
      EmbeddingGradientRule, DecomposedRule<LayerNormGradientOp>,
      DecomposedRule<RmsNormGradientOp>, DecomposedRule<BatchNormGradientOp>,
      DecomposedRule<AttentionGradientOp>,
      DecomposedRule<CrossEntropyGradientOp>, DecomposedRule<GlobalNormOp>,
      DecomposedRule<SgdOp>, DecomposedRule<AdamOp>>(context);
  // A count of labels, and the region operation that the reverse pass builds
  // itself.
  attachRules<ZeroRule<LabelCountOp>, ZeroRule<YieldOp>,
              ZeroRule<AccumulateOp>>(context);
}
