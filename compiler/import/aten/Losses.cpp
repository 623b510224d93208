// Losses inside the graph. Cross entropy's mean is written as loss_sum /
// label_count, the form in which autodiff finds the count that must be summed
// over ranks and accumulation steps before the backward pass; means of other
// losses are sums divided by a constant.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

enum Reduce : int64_t { None = 0, Mean = 1, Sum = 2 };

void reduceLoss(OpCall &op, Value loss) {
  int64_t reduction = op.integer("reduction", Mean);
  if (op.bad() || !loss)
    return;
  if (reduction == None)
    return op.result(0, loss);
  Value sum = op.t.sumAll(loss);
  op.result(0,
            reduction == Sum
                ? sum
                : op.t.div(sum, static_cast<double>(countOf(shapeOf(loss)))));
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// (sum, lse) of classes along `dim`.
static Operation *crossEntropy(Emitter &t, Value logits, Value labels,
                               int64_t dim, int64_t ignore, double smoothing) {
  return t.inferred<CrossEntropyOp>({logits, labels}, [&](auto &p) {
    p.dimension = t.integer(dim), p.ignore_index = t.integer(ignore),
    p.smoothing = t.real(smoothing);
  });
}

static Value labelCount(Emitter &t, Value labels, int64_t ignore, Type type) {
  return labels ? LabelCountOp::create(t.b, t.loc, t.type({}, type), labels,
                                       ignore)
                      .getResult()
                : labels;
}

/// -log p[label] per position (0 where ignored) and each position's weight,
/// from log probabilities.
static std::pair<Value, Value> pickLabels(Emitter &t, Value logp, Value labels,
                                          Value weight, int64_t dim,
                                          int64_t ignore) {
  Value kept = t.compare(CompareDirection::NE, t.convert(labels, t.i64()),
                         static_cast<double>(ignore));
  Value safe = t.select(kept, t.convert(labels, t.i64()), 0.0);
  if (!logp || !safe)
    return {};
  int64_t last = rankOf(logp) - 1;
  Shape toLast = range(rankOf(logp));
  toLast.erase(toLast.begin() + dim);
  toLast.push_back(dim);
  Value picked = t.gather(t.transpose(logp, toLast), {safe}, {last}, last);
  Value share = weight ? t.gather(weight, {safe}, {0}, 0)
                       : t.constant(shapeOf(labels), elementOf(logp), 1);
  share = t.select(kept, share, 0.0);
  return {t.mul(t.neg(t.select(kept, picked, 0.0)), share), share};
}

/// Reduces per-position losses with weights: the mean divides by the sum of the
/// weights.
static void reduceWeighted(OpCall &op, Value loss, Value share, Value labels,
                           bool weighted, int64_t ignore) {
  int64_t reduction = op.integer("reduction", Mean);
  if (op.bad() || !loss)
    return;
  if (reduction == None)
    return op.result(0, loss);
  Value sum = op.t.sumAll(loss);
  Value total = weighted ? op.t.sumAll(share)
                         : labelCount(op.t, labels, ignore, elementOf(loss));
  op.result(0, reduction == Sum ? sum : op.t.div(sum, total));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.result(1, total);
}

/// The usual case: a sum over positions without class weights.
static void fusedCrossEntropy(OpCall &op, Value logits, Value labels,
                              int64_t dim, int64_t ignore, double smoothing,
                              int64_t reduction) {
  Operation *loss = crossEntropy(op.t, logits, labels, dim, ignore, smoothing);
  if (!loss)
    return;
  Value sum = loss->getResult(0);
  Value count = labelCount(op.t, labels, ignore, elementOf(sum));
  op.result(0, reduction == Sum ? sum : op.t.div(sum, count));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.result(1, count);
}

static void lowerSoftTargets(OpCall &op, Value logits, Value target,
                             Value weight, int64_t dim, double smoothing) {
  int64_t reduction = op.integer("reduction", Mean),
          classes = shapeOf(logits)[dim];
  if (smoothing > 0)
    target = op.t.add(op.t.mul(target, 1 - smoothing),
                      smoothing / static_cast<double>(classes));
  Value logp = op.t.softmax(logits, dim, true);
  if (weight) {
    Shape shape(rankOf(logits), 1);
    shape[dim] = classes;
    logp = op.t.mul(logp, op.t.reshape(weight, shape));
  }
  Value loss = op.t.neg(op.t.sum(op.t.mul(logp, target), {dim}));
  if (op.bad() || !loss)
    return;
  if (reduction == None)
    return op.result(loss);
  Value sum = op.t.sumAll(loss);
  op.result(reduction == Sum
                ? sum
                : op.t.div(sum, static_cast<double>(std::max<int64_t>(
                                    1, countOf(shapeOf(loss))))));
}

static void lowerCrossEntropy(OpCall &op) {
  Value logits = op.tensor("self"), target = op.tensor("target"),
        weight = op.optionalTensor("weight");
  int64_t ignore = op.integer("ignore_index", -100),
          reduction = op.integer("reduction", Mean);
  double smoothing = op.real("label_smoothing", 0);
  if (op.bad() || rankOf(logits) == 0)
    return;
  int64_t dim = rankOf(logits) == 1 ? 0 : 1;
  if (isFloat(target))
    return lowerSoftTargets(op, logits, target, weight, dim, smoothing);
  if (!weight && reduction != None)
    return fusedCrossEntropy(op, logits, target, dim, ignore, smoothing,
                             reduction);
  if (weight && smoothing > 0)
    return op.unsupported(
        "cross entropy with class weights and label smoothing");
  Value logp = op.t.softmax(logits, dim, true);
  auto [loss, share] = pickLabels(op.t, logp, target, weight, dim, ignore);
  if (smoothing > 0)
    loss = op.t.add(
        op.t.mul(loss, 1 - smoothing),
        op.t.mul(op.t.mul(op.t.sum(logp, {dim}), share),
                 -smoothing / static_cast<double>(shapeOf(logits)[dim])));
  reduceWeighted(op, loss, share, target, weight != nullptr, ignore);
}

static void lowerNll(OpCall &op) {
  Value logp = op.tensor("self"), labels = op.tensor("target"),
        weight = op.optionalTensor("weight");
  int64_t ignore = op.integer("ignore_index", -100),
          reduction = op.integer("reduction", Mean);
  if (op.bad() || rankOf(logp) == 0)
    return;
  int64_t dim = rankOf(logp) == 1 ? 0 : 1;
  auto softmax = logp.getDefiningOp<LogSoftmaxOp>();
  if (softmax && static_cast<int64_t>(softmax.getDimension()) == dim &&
      !weight && reduction != None)
    return fusedCrossEntropy(op, softmax.getOperand(), labels, dim, ignore, 0,
                             reduction);
  auto [loss, share] = pickLabels(op.t, logp, labels, weight, dim, ignore);
  reduceWeighted(op, loss, share, labels, weight != nullptr, ignore);
}

//===----------------------------------------------------------------------===//
// Regression
//===----------------------------------------------------------------------===//

static Value pairDifference(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target");
  return op.bad() ? Value() : op.t.sub(x, op.t.convert(target, elementOf(x)));
}

static void lowerMse(OpCall &op) {
  reduceLoss(op, op.t.square(pairDifference(op)));
}
static void lowerL1(OpCall &op) {
  reduceLoss(op, op.t.abs(pairDifference(op)));
}

/// Quadratic near 0: smooth_l1 0.5 d^2 / beta, huber 0.5 d^2; linear beyond.
static void lowerHuber(OpCall &op) {
  bool huber = op.base == "huber_loss";
  double edge = op.real(huber ? "delta" : "beta", 1);
  Value size = op.t.abs(pairDifference(op));
  if (edge == 0)
    return reduceLoss(op, size);
  Value inner = op.t.mul(op.t.square(size), huber ? 0.5 : 0.5 / edge);
  Value outer = huber ? op.t.mul(op.t.sub(size, 0.5 * edge), edge)
                      : op.t.sub(size, 0.5 * edge);
  reduceLoss(op, op.t.select(op.t.lt(size, edge), inner, outer));
}

static void lowerBce(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target"),
        weight = op.optionalTensor("weight");
  if (op.bad())
    return;
  // PyTorch bounds the logarithms at -100.
  Value yes = op.t.max(op.t.log(x), -100.0),
        no = op.t.max(op.t.log(op.t.sub(1, x)), -100.0);
  Value loss = op.t.neg(
      op.t.add(op.t.mul(target, yes), op.t.mul(op.t.sub(1, target), no)));
  reduceLoss(op, weight ? op.t.mul(loss, weight) : loss);
}

static void lowerBceWithLogits(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target"),
        weight = op.optionalTensor("weight"),
        positive = op.optionalTensor("pos_weight");
  if (op.bad())
    return;
  target = op.t.convert(target, elementOf(x));
  // (1 - y) x + softplus(-x), the second part weighted by 1 + (p - 1) y.
  Value softplus = op.t.add(op.t.log1p(op.t.exp(op.t.neg(op.t.abs(x)))),
                            op.t.select(op.t.gt(x, 0), 0, op.t.neg(x)));
  if (positive)
    softplus = op.t.mul(
        softplus, op.t.add(op.t.mul(op.t.sub(positive, 1.0), target), 1.0));
  Value loss = op.t.add(op.t.mul(op.t.sub(1, target), x), softplus);
  reduceLoss(op, weight ? op.t.mul(loss, weight) : loss);
}

static void lowerKlDiv(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target");
  bool logarithm = op.flag("log_target");
  if (op.bad())
    return;
  if (logarithm)
    return reduceLoss(op, op.t.mul(op.t.exp(target), op.t.sub(target, x)));
  Value positive = op.t.gt(target, 0),
        safe = op.t.select(positive, target, 1.0);
  reduceLoss(op,
             op.t.select(positive, op.t.mul(safe, op.t.sub(op.t.log(safe), x)),
                         op.t.mul(op.t.neg(target), x)));
}

static void lowerSoftMargin(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target");
  reduceLoss(op, op.bad()
                     ? Value()
                     : op.t.log1p(op.t.exp(op.t.neg(op.t.mul(target, x)))));
}

static void lowerPoissonNll(OpCall &op) {
  Value x = op.tensor("input"), target = op.tensor("target");
  bool logInput = op.flag("log_input", true), full = op.flag("full");
  double eps = op.real("eps", 1e-8);
  if (op.bad() || full)
    return op.unsupported("the full Poisson loss");
  reduceLoss(
      op, logInput ? op.t.sub(op.t.exp(x), op.t.mul(target, x))
                   : op.t.sub(x, op.t.mul(target, op.t.log(op.t.add(x, eps)))));
}

static void lowerMarginRanking(OpCall &op) {
  Value a = op.tensor("input1"), b = op.tensor("input2"),
        target = op.tensor("target");
  double margin = op.real("margin", 0);
  if (!op.bad())
    reduceLoss(op, op.t.max(op.t.add(op.t.neg(op.t.mul(target, op.t.sub(a, b))),
                                     margin),
                            0.0));
}

//===----------------------------------------------------------------------===//
// Similarity
//===----------------------------------------------------------------------===//

Value vectorNorm(Emitter &t, Value x, double p, Dims dims, bool keep);

static Value cosine(Emitter &t, Value a, Value b, int64_t dim, double eps) {
  Value na = t.max(vectorNorm(t, a, 2, {dim}, true), eps),
        nb = t.max(vectorNorm(t, b, 2, {dim}, true), eps);
  return t.sum(t.mul(t.div(a, na), t.div(b, nb)), {dim});
}

static void lowerCosineSimilarity(OpCall &op) {
  Value a = op.tensor("x1"), b = op.tensor("x2");
  Shape shape;
  if (op.bad() || !broadcastShapes(shapeOf(a), shapeOf(b), shape))
    return void(op.t.fail("shapes do not broadcast"));
  double eps = op.real("eps", 1e-8);
  int64_t dim = op.dim("dim", shape.size(), 1);
  if (!op.bad())
    op.result(cosine(op.t, op.t.broadcastTo(a, shape),
                     op.t.broadcastTo(b, shape), dim, eps));
}

static void lowerCosineEmbedding(OpCall &op) {
  Value a = op.tensor("input1"), b = op.tensor("input2"),
        target = op.tensor("target");
  double margin = op.real("margin", 0);
  if (op.bad())
    return;
  int64_t dim = rankOf(a) - 1;
  // PyTorch's loss adds its epsilon to the squared norms.
  Value aa = op.t.add(op.t.sum(op.t.square(a), {dim}), 1e-12),
        bb = op.t.add(op.t.sum(op.t.square(b), {dim}), 1e-12);
  Value cos =
      op.t.div(op.t.sum(op.t.mul(a, b), {dim}), op.t.sqrt(op.t.mul(aa, bb)));
  Value same = op.t.sub(1, cos), other = op.t.max(op.t.sub(cos, margin), 0.0);
  reduceLoss(op, op.t.select(op.t.compare(CompareDirection::EQ, target, 1),
                             same, other));
}

static void lowerPairwiseDistance(OpCall &op) {
  Value a = op.tensor("x1"), b = op.tensor("x2");
  double p = op.real("p", 2), eps = op.real("eps", 1e-6);
  bool keep = op.flag("keepdim");
  Value difference = op.t.add(op.t.sub(a, b), eps);
  op.result(difference ? vectorNorm(op.t, difference, p,
                                    {rankOf(difference) - 1}, keep)
                       : difference);
}

static void lowerTripletMargin(OpCall &op) {
  Value anchor = op.tensor("anchor"), positive = op.tensor("positive"),
        negative = op.tensor("negative");
  double margin = op.real("margin", 1), p = op.real("p", 2),
         eps = op.real("eps", 1e-6);
  bool swap = op.flag("swap");
  auto distance = [&](Value a, Value b) {
    Value difference = op.t.add(op.t.sub(a, b), eps);
    return difference ? vectorNorm(op.t, difference, p,
                                   {rankOf(difference) - 1}, false)
                      : difference;
  };
  Value far = distance(anchor, negative);
  if (swap)
    far = op.t.min(far, distance(positive, negative));
  reduceLoss(
      op, op.t.max(op.t.add(op.t.sub(distance(anchor, positive), far), margin),
                   0.0));
}

void addLosses(OperatorTable &table) {
  table.add("cross_entropy_loss", lowerCrossEntropy);
  table.add({"nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward",
             "nll_loss2d_forward"},
            lowerNll);
  table.add("mse_loss", lowerMse);
  table.add("l1_loss", lowerL1);
  table.add({"smooth_l1_loss", "huber_loss"}, lowerHuber);
  table.add("binary_cross_entropy", lowerBce);
  table.add("binary_cross_entropy_with_logits", lowerBceWithLogits);
  table.add("kl_div", lowerKlDiv);
  table.add("soft_margin_loss", lowerSoftMargin);
  table.add("poisson_nll_loss", lowerPoissonNll);
  table.add("margin_ranking_loss", lowerMarginRanking);
  table.add("cosine_similarity", lowerCosineSimilarity);
  table.add("cosine_embedding_loss", lowerCosineEmbedding);
  table.add("pairwise_distance", lowerPairwiseDistance);
  table.add("triplet_margin_loss", lowerTripletMargin);
}

} // namespace lockstep::aten
