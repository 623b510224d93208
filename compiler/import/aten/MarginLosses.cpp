// Losses of margins: hinge embedding, and of one or several labels per row
// against all other classes.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

Value takeAlong(Emitter &t, Value x, Value index, int64_t dim);
void reduceLoss(OpCall &op, Value loss);

static void lowerHingeEmbedding(OpCall &op) {
  Value x = op.tensor("self"), target = op.tensor("target");
  double margin = op.real("margin", 1);
  if (op.bad())
    return;
  auto is = [&](double sign) {
    return op.t.compare(CompareDirection::EQ, target, sign);
  };
  Value apart = op.t.max(op.t.sub(margin, x), 0.0);
  reduceLoss(op, op.t.add(op.t.select(is(1), 0.0, apart),
                          op.t.select(is(-1), 0.0, x)));
}

/// The mean over classes of max(0, margin - x[label] + x[class])^p.
static void lowerMultiMargin(OpCall &op) {
  Value x = op.tensor("self"), labels = op.tensor("target"),
        weight = op.optionalTensor("weight");
  double margin = op.real("margin", 1), p = op.real("p", 1);
  if (op.bad())
    return;
  if (p != 1 && p != 2)
    return op.unsupported("a multi margin loss of an exponent but 1 and 2");
  int64_t dim = rankOf(x) - 1;
  if (dim < 0 || rankOf(labels) != dim)
    return op.unsupported("this form of multi margin loss");
  Value index = op.t.unsqueeze(op.t.convert(labels, op.t.i64()), dim);
  Value excess = op.t.max(
      op.t.add(op.t.sub(x, takeAlong(op.t, x, index, dim)), margin), 0.0);
  if (p == 2)
    excess = op.t.square(excess);
  if (weight)
    excess = op.t.mul(excess, op.t.gather(weight, {index}, {0}, 0));
  Value own = op.t.compare(CompareDirection::EQ, index,
                           op.t.iota(Shape(shapeOf(x)), op.t.i64(), dim));
  reduceLoss(op, op.t.mean(op.t.select(own, 0.0, excess), {dim}));
}

/// Labels are listed up to the first -1: each of them against all classes that
/// are not among them.
static void lowerMultilabelMargin(OpCall &op) {
  Value x = op.tensor("self"), labels = op.tensor("target");
  if (op.bad())
    return;
  int64_t dim = rankOf(x) - 1;
  if (dim < 0 || shapeOf(labels) != shapeOf(x))
    return op.unsupported("this form of multilabel margin loss");
  Shape pairs(shapeOf(x));
  pairs.push_back(shapeOf(x)[dim]);
  labels = op.t.convert(labels, op.t.i64());
  Value listed =
      op.t.ge(op.t.cumulative(ReduceKind::Min, labels, dim), 0); // [..., label]
  Value index = op.t.max(labels, 0.0);
  Value hit = op.t.logicalAnd(
      op.t.unsqueeze(listed, dim + 1),
      op.t.compare(CompareDirection::EQ, op.t.unsqueeze(index, dim + 1),
                   op.t.iota(pairs, op.t.i64(), dim + 1)));
  Value member = op.t.gt(op.t.sum(op.t.convert(hit, op.t.i64()), {dim}), 0);
  Value excess = op.t.max(
      op.t.sub(1,
               op.t.sub(op.t.unsqueeze(takeAlong(op.t, x, index, dim), dim + 1),
                        op.t.unsqueeze(x, dim))),
      0.0);
  Value counted = op.t.logicalAnd(op.t.unsqueeze(listed, dim + 1),
                                  op.t.logicalNot(op.t.unsqueeze(member, dim)));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.result(1, op.t.convert(member, elementOf(x)));
  reduceLoss(
      op, op.t.div(op.t.sum(op.t.select(counted, excess, 0.0), {dim, dim + 1}),
                   static_cast<double>(shapeOf(x)[dim])));
}

void addMarginLosses(OperatorTable &table) {
  table.add("hinge_embedding_loss", lowerHingeEmbedding);
  table.add("multi_margin_loss", lowerMultiMargin);
  table.add({"multilabel_margin_loss", "multilabel_margin_loss_forward"},
            lowerMultilabelMargin);
}

} // namespace lockstep::aten
