// Attention from its products: softmax(scale q k^T [+ mask]) v, with batch and
// heads as two dimensions or as one, with the guard of decomposed graphs
// against rows that see nothing, and with keys and values that were repeated
// for groups of heads.
#include "compiler/import/recognize/Matching.h"
#include "compiler/import/recognize/Recognize.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Reshapes between [B, H, T, S] and [B H, T, S].
static bool keepsLastTwo(ReshapeOp reshape) {
  Dims from = shapeOf(reshape.getOperand()), to = shapeOf(reshape.getResult());
  return from.size() >= 2 && to.size() >= 2 &&
         from.take_back(2) == to.take_back(2);
}

/// Counts negations down to `scores == -inf`; true for "all scores are -inf".
static bool isNothingSeen(Value condition, Value scores) {
  bool negated = false;
  std::optional<ReduceKind> kind;
  bool negatedInside = false;
  for (int depth = 0; depth < 12; ++depth) {
    Operation *op = condition.getDefiningOp();
    if (!op)
      return false;
    if (isa<NotOp>(op)) {
      (kind ? negatedInside : negated) ^= true;
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      if (kind || reduce.getDimensions().size() != 1 ||
          reduce.getDimensions()[0] != rankOf(reduce.getOperand()) - 1)
        return false;
      kind = reduce.getKind();
    } else if (auto compare = dyn_cast<CompareOp>(op)) {
      bool equals = compare.getDirection() == CompareDirection::EQ &&
                    compare.getLhs() == scores &&
                    splatOf(compare.getRhs()) == -INFINITY;
      // all(x) = not any(not x); a maximum of -inf says the same.
      auto top = compare.getLhs().getDefiningOp<ReduceOp>();
      if (!kind && top && compare.getDirection() == CompareDirection::EQ &&
          top.getKind() == ReduceKind::Max && top.getOperand() == scores)
        return !negated && splatOf(compare.getRhs()) == -INFINITY;
      return equals && kind &&
             (*kind == ReduceKind::And
                  ? !negated && !negatedInside
                  : *kind == ReduceKind::Or && negated && negatedInside);
    } else if (!isa<ReshapeOp, BroadcastInDimOp>(op)) {
      return false;
    }
    condition = op->getOperand(0);
  }
  return false;
}

/// From the left operand of the second product to the softmax.
static SoftmaxOp findSoftmax(Value weights) {
  Value guard;
  for (int depth = 0; depth < 8; ++depth) {
    Operation *op = weights.getDefiningOp();
    if (!op)
      return {};
    if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
      bool last =
          static_cast<int64_t>(softmax.getDimension()) == rankOf(weights) - 1;
      return last && (!guard || isNothingSeen(guard, softmax.getOperand()))
                 ? softmax
                 : SoftmaxOp();
    }
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      if (!keepsLastTwo(reshape))
        return {};
    } else if (auto select = dyn_cast<SelectOp>(op)) {
      if (guard || splatOf(select.getOnTrue()) != 0.0)
        return {};
      guard = select.getPred();
      weights = select.getOnFalse();
      continue;
    } else if (!isa<ConvertOp>(op)) {
      return {};
    }
    weights = op->getOperand(0);
  }
  return {};
}

/// A factor that multiplies the whole tensor is taken out, through reshapes and
/// transposes.
static Value takeScale(PatternRewriter &rewriter, Value value, double &scale,
                       int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return value;
  if (isa<MultiplyOp, DivideOp>(op))
    if (std::optional<double> factor = splatOf(op->getOperand(1))) {
      scale = isa<MultiplyOp>(op) ? scale * *factor : scale / *factor;
      return takeScale(rewriter, op->getOperand(0), scale, depth + 1);
    }
  if (isa<ReshapeOp, TransposeOp>(op)) {
    Value inner = takeScale(rewriter, op->getOperand(0), scale, depth + 1);
    if (inner == op->getOperand(0))
      return value;
    Operation *copy = rewriter.clone(*op);
    copy->setOperand(0, inner);
    return copy->getResult(0);
  }
  return value;
}

namespace {
/// What stands between the softmax and the first product.
struct Scores {
  DotGeneralOp product;
  double scale = 1;
  Value mask;       ///< added, or boolean
  SelectOp chooses; ///< instead: a number where the mask hides
};
} // namespace

static Value reshapeTo(PatternRewriter &rewriter, Value value, Dims shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(rewriter, value.getLoc(),
                           RankedTensorType::get(shape, elementOf(value)),
                           value);
}

/// Which operand of a select hides what it stands for: a low number.
static std::optional<bool> hidesOnTrue(SelectOp select) {
  std::optional<double> hidden = splatOf(select.getOnFalse()),
                        other = splatOf(select.getOnTrue());
  bool inverted = other && !hidden;
  double low = inverted ? other.value_or(0) : hidden.value_or(0);
  return low <= -1e4 ? std::optional(inverted) : std::nullopt;
}

/// A select's condition as a mask. A finite number stays one that is added:
/// rows that see nothing are means then.
static Value buildMask(PatternRewriter &rewriter, SelectOp select) {
  bool inverted = *hidesOnTrue(select);
  double low = *splatOf(inverted ? select.getOnTrue() : select.getOnFalse());
  Value seen = select.getPred();
  if (inverted)
    seen = NotOp::create(rewriter, select.getLoc(), seen);
  if (std::isinf(low))
    return seen;
  auto type = cast<RankedTensorType>(select.getType());
  Value zero = ConstantOp::create(rewriter, select.getLoc(), type, 0.0),
        number = ConstantOp::create(rewriter, select.getLoc(), type, low);
  return SelectOp::create(rewriter, select.getLoc(), type, seen, zero, number);
}

/// Two masks at once would be added; that is rare and left alone. Creates
/// nothing: a pattern that does and then fails is tried for ever.
static std::optional<Scores> findScores(Value scores) {
  Scores result;
  for (int depth = 0; depth < 10; ++depth) {
    Operation *op = scores.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto product = dyn_cast<DotGeneralOp>(op)) {
      result.product = product;
      return result;
    }
    if (isa<MultiplyOp, DivideOp>(op)) {
      std::optional<double> factor = splatOf(op->getOperand(1));
      if (!factor)
        return std::nullopt;
      result.scale =
          isa<MultiplyOp>(op) ? result.scale * *factor : result.scale / *factor;
      scores = op->getOperand(0);
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      if (!keepsLastTwo(reshape))
        return std::nullopt;
      scores = reshape.getOperand();
    } else if (isa<ConvertOp>(op) && isFloat(op->getOperand(0))) {
      scores = op->getOperand(0);
    } else if (isa<AddOp, SelectOp>(op) && !result.mask && !result.chooses &&
               result.scale == 1) {
      if (auto select = dyn_cast<SelectOp>(op)) {
        std::optional<bool> inverted = hidesOnTrue(select);
        if (!inverted)
          return std::nullopt;
        result.chooses = select;
        scores = *inverted ? select.getOnFalse() : select.getOnTrue();
      } else {
        // The operand that leads to the product is the scores.
        auto leads = [](Value v) {
          for (int i = 0; i < 6; ++i) {
            Operation *def = v.getDefiningOp();
            if (!def)
              return false;
            if (isa<DotGeneralOp>(def))
              return true;
            if (!isa<MultiplyOp, DivideOp, ReshapeOp, ConvertOp>(def))
              return false;
            v = def->getOperand(0);
          }
          return false;
        };
        bool left = leads(op->getOperand(0)), right = leads(op->getOperand(1));
        if (left == right)
          return std::nullopt;
        scores = op->getOperand(left ? 0 : 1);
        result.mask = op->getOperand(left ? 1 : 0);
      }
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// [batch.., rows, width] as [B, H, rows, width]: through the reshape that
/// merged B and H, where there is one.
static Value toRank4(PatternRewriter &rewriter, Value value, Dims batch,
                     Dims freeAndContract, int64_t b, int64_t h) {
  if (batch.size() == 1 && batch[0] == 0) {
    auto merge = value.getDefiningOp<ReshapeOp>();
    Value inner = merge ? merge.getOperand() : Value();
    Shape wanted{b, h};
    llvm::append_range(wanted, shapeOf(value).drop_front());
    if (inner && shapeOf(inner) == Dims(wanted))
      value = inner;
    else
      value = reshapeTo(rewriter, value, wanted);
    return TransposeOp::create(
        rewriter, value.getLoc(), value,
        Dims{0, 1, freeAndContract[0] + 1, freeAndContract[1] + 1});
  }
  Shape order(batch);
  llvm::append_range(order, freeAndContract);
  value = TransposeOp::create(rewriter, value.getLoc(), value, order);
  Shape shape(shapeOf(value).take_back(2));
  shape.insert(shape.begin(), {b, h});
  return reshapeTo(rewriter, value, shape);
}

/// Batch and heads: two batching dimensions, or one that a reshape made of two.
static std::pair<int64_t, int64_t>
batchAndHeads(DotGeneralOp first, Value weights, SoftmaxOp softmax) {
  Dims result = shapeOf(first.getResult());
  size_t n = first.getLhsBatch().size();
  if (n == 2)
    return {result[0], result[1]};
  if (n == 0)
    return {1, 1};
  if (rankOf(softmax.getOperand()) == 4)
    return {shapeOf(softmax.getOperand())[0], shapeOf(softmax.getOperand())[1]};
  for (Value operand : {first.getLhs(), first.getRhs()})
    if (auto merge = operand.getDefiningOp<ReshapeOp>();
        merge && rankOf(merge.getOperand()) == 4 &&
        shapeOf(merge.getOperand()).take_back(2) ==
            shapeOf(operand).take_back(2))
      return {shapeOf(merge.getOperand())[0], shapeOf(merge.getOperand())[1]};
  return {result[0], 1};
}

namespace {
struct FuseAttention : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp second,
                                PatternRewriter &rewriter) const override {
    Value weights = second.getLhs();
    int64_t n = second.getLhsBatch().size(), rank = rankOf(weights);
    if (n > 2 || rank != n + 2 || rankOf(second.getRhs()) != n + 2 ||
        !llvm::equal(second.getLhsBatch(), range(n)) ||
        second.getLhsContract() != Dims{rank - 1})
      return rewriter.notifyMatchFailure(second, "not weights times values");
    SoftmaxOp softmax = findSoftmax(weights);
    if (!softmax || !softmax.getResult().hasOneUse())
      return rewriter.notifyMatchFailure(second, "no softmax");
    std::optional<Scores> scores = findScores(softmax.getOperand());
    if (!scores)
      return rewriter.notifyMatchFailure(second,
                                         "no product under the softmax");
    DotGeneralOp first = scores->product;
    int64_t m = first.getLhsBatch().size();
    if (m != n || rankOf(first.getLhs()) != m + 2 ||
        rankOf(first.getRhs()) != m + 2 || first.getLhsContract().size() != 1 ||
        elementOf(first.getLhs()) != elementOf(second.getRhs()))
      return rewriter.notifyMatchFailure(second, "not queries times keys");
    auto [b, h] = batchAndHeads(first, weights, softmax);
    int64_t t = shapeOf(weights)[rank - 2], s = shapeOf(weights)[rank - 1];
    double scale = scores->scale;
    Value q = takeScale(rewriter, first.getLhs(), scale),
          k = takeScale(rewriter, first.getRhs(), scale);
    q = toRank4(rewriter, q, first.getLhsBatch(),
                {first.getLhsFree()[0], first.getLhsContract()[0]}, b, h);
    k = toRank4(rewriter, k, first.getRhsBatch(),
                {first.getRhsFree()[0], first.getRhsContract()[0]}, b, h);
    Value v =
        toRank4(rewriter, second.getRhs(), second.getRhsBatch(),
                {second.getRhsContract()[0], second.getRhsFree()[0]}, b, h);
    Value mask =
        scores->chooses ? buildMask(rewriter, scores->chooses) : scores->mask;
    if (mask)
      mask = reshapeTo(rewriter, mask, {b, h, t, s});
    Value result =
        AttentionOp::create(rewriter, second.getLoc(), q, k, v, mask,
                            APFloat(scale), /*causal=*/false, IntegerAttr())
            .getResult();
    rewriter.replaceOp(
        second, reshapeTo(rewriter, result, shapeOf(second.getResult())));
    return success();
  }
};

/// Keys and values repeated for the heads of a group: attention takes them
/// unrepeated.
struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  /// The repeat in [B, G, S, D] -> [B, G, R, S, D] -> [B, G R, S, D], and the
  /// unrepeated shape.
  static std::pair<BroadcastInDimOp, Shape> findRepeat(Value value) {
    auto merge = value.getDefiningOp<ReshapeOp>();
    auto repeat = merge ? merge.getOperand().getDefiningOp<BroadcastInDimOp>()
                        : BroadcastInDimOp();
    if (!repeat || rankOf(repeat.getResult()) != 5)
      return {};
    Dims wide = shapeOf(repeat.getResult()), to = shapeOf(value);
    if (wide[0] != to[0] || wide[1] * wide[2] != to[1] || wide[3] != to[2] ||
        wide[4] != to[3])
      return {};
    Shape found(5, 1);
    for (auto [i, dim] : llvm::enumerate(repeat.getDimensions()))
      found[dim] = shapeOf(repeat.getOperand())[i];
    if (found[2] != 1 || found[0] != wide[0] || found[1] != wide[1] ||
        found[3] != wide[3] || found[4] != wide[4] || wide[2] == 1)
      return {};
    return {repeat, {found[0], found[1], found[3], found[4]}};
  }
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (shapeOf(op.getKey())[1] != shapeOf(op.getQuery())[1])
      return rewriter.notifyMatchFailure(op, "grouped already");
    auto [keys, keyShape] = findRepeat(op.getKey());
    auto [values, valueShape] = findRepeat(op.getValue());
    if (!keys || !values || keyShape[1] != valueShape[1])
      return rewriter.notifyMatchFailure(op, "keys or values are not repeated");
    Value k = reshapeTo(rewriter, keys.getOperand(), keyShape),
          v = reshapeTo(rewriter, values.getOperand(), valueShape);
    auto grouped = AttentionOp::create(rewriter, op.getLoc(), op.getQuery(), k,
                                       v, op.getMask(), op.getScale(),
                                       op.getCausal(), op.getWindowAttr());
    rewriter.replaceOp(op, grouped->getResults());
    return success();
  }
};
} // namespace

void addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<FuseAttention, GroupHeads>(patterns.getContext());
}

} // namespace lockstep::recognize
