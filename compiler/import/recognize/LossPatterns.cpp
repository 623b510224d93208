// Cross entropy from its decomposition: log_softmax, the labels' elements, a
// sum over the labels that count.
#include "compiler/import/recognize/Matching.h"
#include "compiler/import/recognize/Recognize.h"

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

/// labels != ignore.
static bool matchKept(Value condition, Value &labels, int64_t &ignore) {
  auto compare = condition ? condition.getDefiningOp<CompareOp>() : CompareOp();
  std::optional<double> number =
      compare ? splatOf(compare.getRhs()) : std::nullopt;
  if (!number || compare.getDirection() != CompareDirection::NE ||
      isFloat(compare.getLhs()))
    return false;
  labels = compare.getLhs(), ignore = static_cast<int64_t>(*number);
  return true;
}

static Value throughReshapes(Value value) {
  while (auto reshape = value ? value.getDefiningOp<ReshapeOp>() : ReshapeOp())
    value = reshape.getOperand();
  return value;
}

namespace {
/// sum(where(labels != ignore, -log_softmax(x)[where(labels != ignore, labels,
/// 0)], 0)), classes in the last dimension.
struct SumOfLogProbabilities : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto select = op.getOperand().getDefiningOp<SelectOp>();
    Value labels;
    int64_t ignore = 0;
    if (op.getKind() != ReduceKind::Sum || rankOf(op.getResult()) != 0 ||
        !select || !matchKept(select.getPred(), labels, ignore) ||
        splatOf(select.getOnFalse()) != 0.0)
      return rewriter.notifyMatchFailure(op, "not a sum over kept labels");
    Value value = throughReshapes(select.getOnTrue());
    auto negate = value.getDefiningOp<NegateOp>();
    Value picked = negate ? throughReshapes(negate.getOperand()) : Value();
    auto gather = picked ? picked.getDefiningOp<GatherOp>() : GatherOp();
    if (!gather || gather.getIndices().size() != 1)
      return rewriter.notifyMatchFailure(op, "no gather of probabilities");
    auto softmax = gather.getOperand().getDefiningOp<LogSoftmaxOp>();
    int64_t last = softmax ? rankOf(gather.getOperand()) - 1 : 0;
    if (!softmax || static_cast<int64_t>(softmax.getDimension()) != last ||
        gather.getDims()[0] != last ||
        static_cast<int64_t>(gather.getBatchDims()) != last)
      return rewriter.notifyMatchFailure(op, "not along the classes");
    Value index = throughReshapes(gather.getIndices()[0]);
    auto safe = index.getDefiningOp<SelectOp>();
    Value safeLabels;
    int64_t safeIgnore = 0;
    if (!safe || !matchKept(safe.getPred(), safeLabels, safeIgnore) ||
        safeLabels != labels || safeIgnore != ignore ||
        throughReshapes(safe.getOnTrue()) != throughReshapes(labels))
      return rewriter.notifyMatchFailure(op, "other labels");
    Value logits = softmax.getOperand();
    if (countOf(shapeOf(labels)) != countOf(shapeOf(logits).drop_back()))
      return rewriter.notifyMatchFailure(op, "other labels");
    if (shapeOf(labels) != shapeOf(logits).drop_back())
      labels = ReshapeOp::create(
          rewriter, op.getLoc(),
          RankedTensorType::get(shapeOf(logits).drop_back(), elementOf(labels)),
          labels);
    Value sum =
        CrossEntropyOp::create(rewriter, op.getLoc(), logits, labels,
                               static_cast<uint64_t>(last),
                               static_cast<uint64_t>(ignore), APFloat(0.0))
            .getLossSum();
    if (sum.getType() != op.getType())
      sum = ConvertOp::create(rewriter, op.getLoc(), op.getType(), sum);
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// Divided by the number of labels that count.
struct CountOfLabels : OpRewritePattern<DivideOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivideOp op,
                                PatternRewriter &rewriter) const override {
    auto loss = op.getLhs().getDefiningOp<CrossEntropyOp>();
    auto real = op.getRhs().getDefiningOp<ConvertOp>();
    auto sum = real ? real.getOperand().getDefiningOp<ReduceOp>() : ReduceOp();
    auto flags = sum && sum.getKind() == ReduceKind::Sum
                     ? sum.getOperand().getDefiningOp<ConvertOp>()
                     : ConvertOp();
    Value labels;
    int64_t ignore = 0;
    if (!loss || !flags || !matchKept(flags.getOperand(), labels, ignore) ||
        throughReshapes(labels) != throughReshapes(loss.getLabels()) ||
        ignore != static_cast<int64_t>(loss.getIgnoreIndex()))
      return rewriter.notifyMatchFailure(op,
                                         "not the number of the loss's labels");
    Value count =
        LabelCountOp::create(rewriter, op.getLoc(), op.getType(),
                             loss.getLabels(), static_cast<uint64_t>(ignore));
    rewriter.replaceOpWithNewOp<DivideOp>(op, op.getLhs(), count);
    return success();
  }
};
} // namespace

void addLossPatterns(RewritePatternSet &patterns) {
  patterns.add<SumOfLogProbabilities, CountOfLabels>(patterns.getContext());
}

} // namespace lockstep::recognize
