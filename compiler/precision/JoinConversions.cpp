//===- JoinConversions.cpp - Fewer conversions, of fewer bytes ------------===//
#include "compiler/precision/Passes.h"
#include "dialects/train/Train.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace lockstep {
#define GEN_PASS_DEF_JOINCONVERSIONSPASS
#include "compiler/precision/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

static FloatType floatOf(Value value) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// From a wider to a narrower floating type.
static bool isRounding(ConvertOp op) {
  FloatType from = floatOf(op.getOperand()), to = floatOf(op.getResult());
  return from && to && from.getWidth() > to.getWidth();
}

namespace {

/// round(widen(x)) is x where the types are the same.
struct RoundedWidening : OpRewritePattern<ConvertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvertOp op,
                                PatternRewriter &rewriter) const override {
    auto widening = op.getOperand().getDefiningOp<ConvertOp>();
    if (!isRounding(op) || !widening ||
        widening.getOperand().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "rounds no widened value");
    rewriter.replaceOp(op, widening.getOperand());
    return success();
  }
};

/// round(move(x)) is move(round(x)). Where others read the moved value, too,
/// moving it twice pays off only if nothing is left to round.
struct RoundedMovement : OpRewritePattern<ConvertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvertOp op,
                                PatternRewriter &rewriter) const override {
    Operation *move = op.getOperand().getDefiningOp();
    if (!isRounding(op) || !move ||
        !isa<ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp, ReverseOp>(
            move))
      return rewriter.notifyMatchFailure(op, "rounds no moved value");
    bool allRound = llvm::all_of(move->getUsers(), [&](Operation *user) {
      auto convert = dyn_cast<ConvertOp>(user);
      return convert && convert.getType() == op.getType();
    });
    if (!allRound && !isWidened(move->getOperand(0), op.getType()))
      return rewriter.notifyMatchFailure(op, "others read the moved value");
    auto operand = cast<RankedTensorType>(move->getOperand(0).getType());
    Value narrow = ConvertOp::create(
        rewriter, op.getLoc(),
        operand.clone(getElementTypeOrSelf(op.getType())), move->getOperand(0));
    Operation *copy = rewriter.clone(*move);
    copy->setOperand(0, narrow);
    copy->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, copy->getResults());
    return success();
  }

private:
  /// Whether it is a value of that type, widened and moved.
  static bool isWidened(Value value, Type narrow) {
    while (Operation *op = value.getDefiningOp()) {
      if (auto convert = dyn_cast<ConvertOp>(op))
        return getElementTypeOrSelf(convert.getOperand().getType()) ==
               getElementTypeOrSelf(narrow);
      if (!isa<ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp, ReverseOp>(
              op))
        return false;
      value = op->getOperand(0);
    }
    return false;
  }
};

struct JoinConversions
    : lockstep::impl::JoinConversionsPassBase<JoinConversions> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RoundedWidening, RoundedMovement>(&getContext());
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
