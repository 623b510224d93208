// Masks of attention: conditions on row and column become `causal` and
// `window`; what depends on inputs stays, unexpanded.
#include "compiler/import/recognize/AffineAnalysis.h"
#include "compiler/import/recognize/Matching.h"
#include "compiler/import/recognize/Recognize.h"

#include <limits>

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

/// A rank-4 value that broadcasts to `value`, with unit dimensions where
/// `value` only repeats. Rebuilds pointwise operations on the smaller shapes;
/// gives `value` itself where nothing is saved.
static Value unexpanded(PatternRewriter &rewriter, Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 12)
    return value;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat)
      return value;
    auto type =
        RankedTensorType::get(Shape(rankOf(value), 1), elementOf(value));
    return ConstantOp::create(rewriter, op->getLoc(), splat.resizeSplat(type));
  }
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op)) {
    Shape shape(rankOf(value), 1);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions()))
      shape[dim] = shapeOf(broadcast.getOperand())[i];
    Value operand = broadcast.getOperand();
    if (shapeOf(operand) != Dims(shape))
      operand = ReshapeOp::create(
          rewriter, op->getLoc(),
          RankedTensorType::get(shape, elementOf(operand)), operand);
    return unexpanded(rewriter, operand, depth + 1);
  }
  if (!op->hasTrait<Pointwise>() || op->getNumResults() != 1 ||
      isa<DropoutOp>(op))
    return value;
  SmallVector<Value> operands;
  Shape common(rankOf(value), 1);
  for (Value operand : op->getOperands()) {
    operands.push_back(unexpanded(rewriter, operand, depth + 1));
    Shape wide;
    if (rankOf(operands.back()) != rankOf(value) ||
        !broadcastShapes(common, shapeOf(operands.back()), wide))
      return value;
    common = wide;
  }
  if (Dims(common) == shapeOf(value))
    return value;
  for (Value &operand : operands)
    if (shapeOf(operand) != Dims(common))
      operand = BroadcastInDimOp::create(
          rewriter, op->getLoc(),
          RankedTensorType::get(common, elementOf(operand)), operand,
          range(rankOf(operand)));
  Operation *copy = rewriter.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(RankedTensorType::get(common, elementOf(value)));
  return copy->getResult(0);
}

/// The conditions that must all hold.
static void collectConjuncts(PatternRewriter &rewriter, Value value,
                             SmallVectorImpl<Value> &conjuncts, int depth = 0) {
  value = unexpanded(rewriter, value);
  if (auto both = value.getDefiningOp<AndOp>(); both && depth < 12) {
    collectConjuncts(rewriter, both.getLhs(), conjuncts, depth + 1);
    collectConjuncts(rewriter, both.getRhs(), conjuncts, depth + 1);
    return;
  }
  conjuncts.push_back(value);
}

/// The value over the whole shape, so that rows and columns are coordinates.
static std::optional<Band> bandOf(PatternRewriter &rewriter, Value condition,
                                  Dims shape) {
  if (shapeOf(condition) != shape)
    condition = BroadcastInDimOp::create(
        rewriter, condition.getLoc(),
        RankedTensorType::get(shape, elementOf(condition)), condition,
        range(rankOf(condition)));
  return IndexAnalysis(condition).condition();
}

/// The condition under which an added mask is 0 where it is -infinity
/// otherwise; null where it is none such.
static Value conditionOf(PatternRewriter &rewriter, Value mask) {
  constexpr double never = -std::numeric_limits<double>::infinity();
  auto select = mask.getDefiningOp<SelectOp>();
  if (!select)
    return {};
  if (splatOf(select.getOnTrue()) == 0.0 &&
      splatOf(select.getOnFalse()) == never)
    return select.getPred();
  if (splatOf(select.getOnTrue()) == never &&
      splatOf(select.getOnFalse()) == 0.0)
    return NotOp::create(rewriter, select.getLoc(), select.getPred());
  return {};
}

namespace {
struct MaskParts {
  Band band;
  Value rest; ///< null: nothing else
};

struct SimplifyMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  static Shape scoresShape(AttentionOp op) {
    return {shapeOf(op.getQuery())[0], shapeOf(op.getQuery())[1],
            shapeOf(op.getQuery())[2], shapeOf(op.getKey())[2]};
  }

  /// What a band means for [T, S] positions, where `causal` and `window` can
  /// say it.
  static bool apply(const Band &band, int64_t t, int64_t s, bool &causal,
                    std::optional<int64_t> &window) {
    bool above = band.high >= s - 1, below = band.low <= 1 - t;
    if (band.isNone() || (!above && band.high != 0) ||
        (!below && (above || band.low > 0)))
      return false;
    if (!above)
      causal = true;
    if (!below)
      window = window ? std::min(*window, 1 - band.low) : 1 - band.low;
    return true;
  }

  static MaskParts splitBoolean(PatternRewriter &rewriter, Value mask,
                                Dims shape) {
    MaskParts parts;
    SmallVector<Value> conjuncts;
    collectConjuncts(rewriter, mask, conjuncts);
    for (Value condition : conjuncts) {
      if (std::optional<Band> band = bandOf(rewriter, condition, shape)) {
        parts.band = {std::max(parts.band.low, band->low),
                      std::min(parts.band.high, band->high)};
        continue;
      }
      if (!parts.rest) {
        parts.rest = condition;
        continue;
      }
      Shape common;
      if (!broadcastShapes(shapeOf(parts.rest), shapeOf(condition), common))
        continue;
      auto widen = [&](Value v) -> Value {
        return shapeOf(v) == Dims(common)
                   ? v
                   : BroadcastInDimOp::create(
                         rewriter, v.getLoc(),
                         RankedTensorType::get(common, elementOf(v)), v,
                         range(rankOf(v)))
                         .getResult();
      };
      parts.rest = AndOp::create(rewriter, condition.getLoc(),
                                 widen(parts.rest), widen(condition));
    }
    return parts;
  }

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask || op->hasAttr("train.mask_seen"))
      return rewriter.notifyMatchFailure(op, "no mask to look at");
    Shape shape = scoresShape(op);
    bool causal = op.getCausal();
    std::optional<int64_t> window;
    if (op.getWindow())
      window = *op.getWindow();
    MaskParts parts;
    if (Value condition = conditionOf(rewriter, unexpanded(rewriter, mask)))
      mask = condition;
    if (elementOf(mask).isInteger(1)) {
      parts = splitBoolean(rewriter, mask, shape);
    } else {
      Value wide = mask;
      if (shapeOf(wide) != Dims(shape))
        wide = BroadcastInDimOp::create(
            rewriter, op.getLoc(),
            RankedTensorType::get(shape, elementOf(mask)), mask,
            range(rankOf(mask)));
      std::optional<TwoValued> two = IndexAnalysis(wide).twoValued();
      // Added numbers: 0 where seen, and so low elsewhere that nothing remains.
      if (two && two->in == 0 && (two->out <= -1e4 || two->band.isAll()))
        parts.band = two->band;
      else if (std::optional<Band> outside =
                   two && two->out == 0 && two->in <= -1e4
                       ? complementOf(two->band)
                       : std::nullopt)
        parts.band = *outside;
      else
        parts.rest = unexpanded(rewriter, mask);
    }
    Value rest = parts.rest;
    if (!apply(parts.band, shape[2], shape[3], causal, window)) {
      // Something that the attributes cannot say: the mask stays, without
      // repetition.
      rest = unexpanded(rewriter, mask);
      causal = op.getCausal();
      window = op.getWindow() ? std::optional<int64_t>(*op.getWindow())
                              : std::nullopt;
    }
    auto simplified = AttentionOp::create(
        rewriter, op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), rest,
        op.getScale(), causal,
        window ? rewriter.getI64IntegerAttr(*window) : IntegerAttr());
    if (rest)
      simplified->setAttr("train.mask_seen", rewriter.getUnitAttr());
    rewriter.replaceOp(op, simplified->getResults());
    return success();
  }

  static std::optional<Band> complementOf(const Band &band) {
    if (band.isAll() || band.isNone())
      return band.isAll() ? Band::none() : Band::all();
    if (band.low <= -Band::kUnbounded)
      return Band{band.high + 1, Band::kUnbounded};
    if (band.high >= Band::kUnbounded)
      return Band{-Band::kUnbounded, band.low - 1};
    return std::nullopt;
  }
};
} // namespace

void addMaskPatterns(RewritePatternSet &patterns) {
  patterns.add<SimplifyMask>(patterns.getContext());
}

} // namespace lockstep::recognize
