// RMS norm and layer norm from their arithmetic:
//   x * rsqrt(mean(x^2) + eps) * weight        (Llama, T5, Gemma)
//   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias
// Half precision computes the norm in f32 and converts before the weight is
// applied; the operations do the same inside.
#include "compiler/import/recognize/Matching.h"
#include "compiler/import/recognize/Recognize.h"

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

/// 1 / sqrt(mean(x^2) + eps), per row: what multiplies x.
static std::optional<double> matchInverseRoot(Value rows, Value x, bool isRoot,
                                              int64_t axes) {
  Value sum;
  if (isRoot) {
    auto sqrt = rows.getDefiningOp<SqrtOp>();
    sum = sqrt ? sqrt.getOperand() : Value();
  } else {
    auto rsqrt = rows.getDefiningOp<RsqrtOp>();
    sum = rsqrt ? rsqrt.getOperand() : Value();
  }
  auto add = sum ? sum.getDefiningOp<AddOp>() : AddOp();
  if (!add)
    return std::nullopt;
  std::optional<double> result;
  eitherOrder(add.getLhs(), add.getRhs(), [&](Value mean, Value constant) {
    std::optional<double> eps = splatOf(constant);
    int64_t found = 0;
    Value squares = eps ? meanOperand(mean, found) : Value();
    auto square = squares ? squares.getDefiningOp<MultiplyOp>() : MultiplyOp();
    if (!square || found != axes || square.getLhs() != x ||
        square.getRhs() != x)
      return false;
    result = eps;
    return true;
  });
  return result;
}

static Value createRms(PatternRewriter &rewriter, Location loc, Value x,
                       Value weight, int64_t axes, double eps) {
  return RmsNormOp::create(rewriter, loc, x, weight,
                           static_cast<uint64_t>(axes), APFloat(eps))
      .getResult();
}

static Value createLayerNorm(PatternRewriter &rewriter, Location loc, Value x,
                             Value weight, Value bias, int64_t axes,
                             double eps) {
  return LayerNormOp::create(rewriter, loc, x, weight, bias,
                             static_cast<uint64_t>(axes), APFloat(eps))
      .getResult();
}

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

namespace {
template <typename OpTy> struct RmsNorm : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    constexpr bool divides = std::is_same_v<OpTy, DivideOp>;
    Value found;
    double eps = 0;
    int64_t axes = 0;
    auto match = [&](Value x, Value scale) {
      if (!isFloat(x) || rankOf(x) == 0)
        return false;
      for (int64_t candidate = 1; candidate <= std::min<int64_t>(3, rankOf(x));
           ++candidate)
        if (Value rows = repeatedRows(scale, candidate))
          if (std::optional<double> e =
                  matchInverseRoot(rows, x, divides, candidate)) {
            found = x, eps = *e, axes = candidate;
            return true;
          }
      return false;
    };
    if (!(divides ? match(op.getLhs(), op.getRhs())
                  : eitherOrder(op.getLhs(), op.getRhs(), match)))
      return rewriter.notifyMatchFailure(
          op, "not x times the inverse of its root mean square");
    rewriter.replaceOp(op,
                       createRms(rewriter, op.getLoc(), found, {}, axes, eps));
    return success();
  }
};

/// weight * norm(x), with a conversion to half precision between.
template <typename NormOp> struct AbsorbWeight : OpRewritePattern<MultiplyOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MultiplyOp op,
                                PatternRewriter &rewriter) const override {
    Value result;
    bool matched =
        eitherOrder(op.getLhs(), op.getRhs(), [&](Value normed, Value scale) {
          Value inner = normed;
          auto convert = inner.getDefiningOp<ConvertOp>();
          if (convert && isHalf(elementOf(inner)))
            inner = convert.getOperand();
          auto norm = inner.getDefiningOp<NormOp>();
          if (!norm || inner != norm.getResult() || norm.getWeight() ||
              !inner.hasOneUse() || !normed.hasOneUse())
            return false;
          Value x = norm.getOperand();
          if (inner != normed) { // convert(x) to f32, norm, convert back
            auto widen = x.template getDefiningOp<ConvertOp>();
            if (!widen || elementOf(widen.getOperand()) != elementOf(normed))
              return false;
            x = widen.getOperand();
          }
          int64_t axes = norm.getAxes();
          Value weight = repeatedWeight(scale, axes);
          if (!weight || splatOf(weight))
            return false;
          if constexpr (std::is_same_v<NormOp, LayerNormOp>)
            if (norm.getBias())
              return false;
          Shape shape(shapeOf(x).take_back(axes));
          if (shapeOf(weight) != Dims(shape))
            weight = ReshapeOp::create(
                rewriter, op.getLoc(),
                RankedTensorType::get(shape, elementOf(weight)), weight);
          double eps = norm.getEps().convertToDouble();
          if constexpr (std::is_same_v<NormOp, RmsNormOp>) {
            result = createRms(rewriter, op.getLoc(), x, weight, axes, eps);
          } else {
            result = createLayerNorm(rewriter, op.getLoc(), x, weight, {}, axes,
                                     eps);
          }
          return true;
        });
    if (!matched)
      return rewriter.notifyMatchFailure(op, "no norm without a weight");
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// rms_norm(x - mean(x)) is layer_norm(x).
struct CentredRmsNorm : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op,
                                PatternRewriter &rewriter) const override {
    auto centred = op.getOperand().getDefiningOp<SubtractOp>();
    int64_t axes = op.getAxes(), found = 0;
    Value rows = centred ? repeatedRows(centred.getRhs(), axes) : Value();
    if (!rows || !op.getRstd().use_empty() ||
        meanOperand(rows, found) != centred.getLhs() || found != axes)
      return rewriter.notifyMatchFailure(op, "operand is not centred");
    Value result =
        createLayerNorm(rewriter, op.getLoc(), centred.getLhs(), op.getWeight(),
                        {}, axes, op.getEps().convertToDouble());
    rewriter.replaceAllUsesWith(op.getResult(), result);
    rewriter.eraseOp(op);
    return success();
  }
};

struct AbsorbBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    Value result;
    bool matched =
        eitherOrder(op.getLhs(), op.getRhs(), [&](Value normed, Value shift) {
          auto norm = normed.getDefiningOp<LayerNormOp>();
          if (!norm || normed != norm.getResult() || !norm.getWeight() ||
              norm.getBias() || !normed.hasOneUse())
            return false;
          int64_t axes = norm.getAxes();
          Value bias = repeatedWeight(shift, axes);
          if (!bias || shapeOf(bias) != shapeOf(norm.getWeight()))
            return false;
          result = createLayerNorm(rewriter, op.getLoc(), norm.getOperand(),
                                   norm.getWeight(), bias, axes,
                                   norm.getEps().convertToDouble());
          return true;
        });
    if (!matched)
      return rewriter.notifyMatchFailure(op, "no layer norm without a bias");
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

void addNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RmsNorm<MultiplyOp>, RmsNorm<DivideOp>, AbsorbWeight<RmsNormOp>,
               AbsorbWeight<LayerNormOp>, CentredRmsNorm, AbsorbBias>(
      patterns.getContext());
}

} // namespace lockstep::recognize
