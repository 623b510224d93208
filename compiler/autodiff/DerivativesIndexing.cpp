//===- DerivativesIndexing.cpp - Derivatives of gather, scatter, sort, scans
//===//
//
// gather and scatter are one another's adjoints. Where elements were combined
// by max or min, equals share the cotangent evenly (torch.scatter_reduce, amax)
// for scatter, and the last of equals takes it for a running maximum
// (torch.cummax). Products divide by the element where it is not zero and fall
// back on the product of the others where it is.
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/DerivativeRules.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

using E = Expression;

struct GatherRule : GradientRule<GatherRule, GatherOp> {
  static void build(GatherOp op, GradientBuilder &g) {
    Value zeros = g.constantLike(op.getOperand(), 0);
    g.set(0, ScatterOp::create(g.getBuilder(), op.getLoc(), ScatterKind::Add,
                               zeros, op.getIndices(), g.cotangent(),
                               op.getDims(), op.getBatchDims()));
  }
};

struct ScatterRule : GradientRule<ScatterRule, ScatterOp> {
  static void build(ScatterOp op, GradientBuilder &g) {
    switch (op.getKind()) {
    case ScatterKind::Add:
      g.set(0, g.cotangent());
      return setUpdates(op, g, g.cotangent());
    case ScatterKind::Replace:
      if (g.needs(0))
        g.set(0, scatter(op, g, ScatterKind::Replace, g.cotangent(),
                         g.constantLike(op.getUpdates(), 0)));
      return setUpdates(op, g, g.cotangent());
    case ScatterKind::Max:
    case ScatterKind::Min:
      return buildExtremum(op, g);
    case ScatterKind::Multiply:
      return buildProduct(op, g);
    }
  }

private:
  static E gather(ScatterOp op, GradientBuilder &g, Value from) {
    return g.expression(GatherOp::create(g.getBuilder(), op.getLoc(), from,
                                         op.getIndices(), op.getDims(),
                                         op.getBatchDims()));
  }
  static E scatter(ScatterOp op, GradientBuilder &g, ScatterKind kind,
                   Value base, Value updates) {
    return g.expression(ScatterOp::create(g.getBuilder(), op.getLoc(), kind,
                                          base, op.getIndices(), updates,
                                          op.getDims(), op.getBatchDims()));
  }
  static unsigned updatesIndex(ScatterOp op) {
    return op->getNumOperands() - 1;
  }
  static void setUpdates(ScatterOp op, GradientBuilder &g, Value perPosition) {
    if (g.needs(updatesIndex(op)))
      g.set(updatesIndex(op), gather(op, g, perPosition));
  }

  /// Every element that equals the result takes an even share.
  static void buildExtremum(ScatterOp op, GradientBuilder &g) {
    E result = g.expression(op.getResult()),
      base = g.expression(op.getOperand()),
      updates = g.expression(op.getUpdates());
    E baseHits = select(base == result, base.constant(1), 0.0);
    E updateHits =
        select(updates == gather(op, g, result), updates.constant(1), 0.0);
    E share = g.expression(g.cotangent()) /
              scatter(op, g, ScatterKind::Add, baseHits, updateHits);
    g.set(0, share * baseHits);
    if (g.needs(updatesIndex(op)))
      g.set(updatesIndex(op), gather(op, g, share) * updateHits);
  }

  /// d(product) / d(factor) is the product of the others.
  static void buildProduct(ScatterOp op, GradientBuilder &g) {
    E result = g.expression(op.getResult()),
      base = g.expression(op.getOperand()),
      updates = g.expression(op.getUpdates());
    E dresult = g.expression(g.cotangent());
    E baseZeros = select(base == 0, base.constant(1), 0.0),
      updateZeros = select(updates == 0, updates.constant(1), 0.0);
    E zeros = scatter(op, g, ScatterKind::Add, baseZeros, updateZeros);
    E nonZeroProduct =
        scatter(op, g, ScatterKind::Multiply, select(base == 0, 1.0, base),
                select(updates == 0, 1.0, updates));
    E forZero = select(zeros == 1, nonZeroProduct, 0.0);
    g.set(0, dresult * select(base == 0, forZero, result / base));
    if (g.needs(updatesIndex(op)))
      g.set(updatesIndex(op), gather(op, g, dresult) *
                                  select(updates == 0, gather(op, g, forZero),
                                         gather(op, g, result) / updates));
  }
};

/// Adds `updates` up at `positions` (i64, of the same shape) along one
/// dimension.
Value scatterAlong(TensorBuilder &b, Value updates, Value positions,
                   int64_t dimension) {
  int64_t last = getShape(updates).size() - 1;
  SmallVector<int64_t> order = getDimRange(0, last + 1);
  std::swap(order[dimension], order[last]); // its own inverse
  if (dimension != last) {
    updates = b.transpose(updates, order);
    positions = b.transpose(positions, order);
  }
  Value sums = ScatterOp::create(b.getBuilder(), b.getLoc(), ScatterKind::Add,
                                 b.constantLike(updates, 0), positions, updates,
                                 ArrayRef<int64_t>{last}, last);
  return dimension == last ? sums : b.transpose(sums, order);
}

/// Values go back where they came from.
struct SortRule : GradientRule<SortRule, SortOp> {
  static void build(SortOp op, GradientBuilder &g) {
    g.set(0,
          scatterAlong(g, g.cotangent(), op.getIndices(), op.getDimension()));
  }
};

struct CumulativeRule : GradientRule<CumulativeRule, CumulativeOp> {
  static void build(CumulativeOp op, GradientBuilder &g) {
    switch (op.getKind()) {
    case ReduceKind::Sum:
      return g.set(
          0, running(op, g, ReduceKind::Sum, g.cotangent(), !op.getReverse()));
    case ReduceKind::Product:
      return buildProduct(op, g);
    case ReduceKind::Max:
    case ReduceKind::Min:
      return buildExtremum(op, g);
    case ReduceKind::And:
    case ReduceKind::Or:
      return;
    }
  }

private:
  static E running(CumulativeOp op, GradientBuilder &g, ReduceKind kind,
                   Value value, bool reverse) {
    return g.expression(CumulativeOp::create(g.getBuilder(), op.getLoc(),
                                             value.getType(), kind, value,
                                             op.getDimension(), reverse));
  }

  /// dx_j = sum over i >= j of dy_i y_i / x_j. All y from the first zero on are
  /// 0, so the first zero itself takes the sum with the products that leave it
  /// out, and everything after it gets 0.
  static void buildProduct(CumulativeOp op, GradientBuilder &g) {
    E x = g.expression(op.getOperand()), y = g.expression(op.getResult()),
      dy = g.expression(g.cotangent());
    bool reverse = op.getReverse();
    E zerosSoFar = running(op, g, ReduceKind::Sum,
                           select(x == 0, x.constant(1), 0.0), reverse);
    E isFirstZero = x == 0 && zerosSoFar == 1;
    E others = running(op, g, ReduceKind::Product, select(isFirstZero, 1.0, x),
                       reverse);
    E forFirstZero = running(op, g, ReduceKind::Sum, dy * others, !reverse);
    E forNonZero = running(op, g, ReduceKind::Sum, dy * y, !reverse) /
                   select(x == 0, 1.0, x);
    g.set(0,
          select(isFirstZero, forFirstZero, select(x == 0, 0.0, forNonZero)));
  }

  /// The position of the running extremum is the running maximum (from the
  /// other end: minimum) of the positions that reach it.
  static void buildExtremum(CumulativeOp op, GradientBuilder &g) {
    E x = g.expression(op.getOperand()), y = g.expression(op.getResult());
    bool reverse = op.getReverse();
    int64_t dimension = op.getDimension(), size = getShape(x)[dimension];
    E position = g.expression(
        g.iota(getShape(x), g.getBuilder().getI64Type(), dimension));
    E reached = select(x == y, position, reverse ? size - 1 : 0);
    E source = running(op, g, reverse ? ReduceKind::Min : ReduceKind::Max,
                       reached, reverse);
    g.set(0, scatterAlong(g, g.cotangent(), source, dimension));
  }
};

} // namespace

void autodiff::attachIndexingRules(MLIRContext *context) {
  attachRules<GatherRule, ScatterRule, SortRule, CumulativeRule>(context);
}
