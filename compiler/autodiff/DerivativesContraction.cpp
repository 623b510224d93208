//===- DerivativesContraction.cpp - Derivatives of reductions, products, windows
//===//
#include "compiler/autodiff/DerivativeRules.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

using E = Expression;

/// Equals share the gradient of a maximum or minimum evenly (torch.amax).
struct ReduceRule : GradientRule<ReduceRule, ReduceOp> {
  static void build(ReduceOp op, GradientBuilder &g) {
    ArrayRef<int64_t> shape = getShape(op.getOperand()),
                      dims = op.getDimensions();
    auto rows = [&](Value value) {
      return g.expression(g.broadcastRows(value, shape, dims));
    };
    E x = g.expression(op.getOperand());
    switch (op.getKind()) {
    case ReduceKind::Sum:
      return g.set(0, rows(g.cotangent()));
    case ReduceKind::Max:
    case ReduceKind::Min: {
      E hits = select(x == rows(op.getResult()), x.constant(1), 0.0);
      return g.set(0, rows(g.divide(g.cotangent(), g.sum(hits, dims))) * hits);
    }
    case ReduceKind::Product: { // the product of the others, also where one of
                                // them is zero
      E zeros = select(x == 0, x.constant(1), 0.0);
      E others =
          rows(g.reduce(ReduceKind::Product, select(x == 0, 1.0, x), dims));
      E forZero = select(rows(g.sum(zeros, dims)) == 1, others, 0.0);
      return g.set(0, rows(g.cotangent()) * select(x == 0, forZero,
                                                   rows(op.getResult()) /
                                                       select(x == 0, 1.0, x)));
    }
    case ReduceKind::And:
    case ReduceKind::Or:
      return;
    }
  }
};

/// One operand of a dot_general, as its dimensions.
struct DotSide {
  Value value;
  ArrayRef<int64_t> batch, contract;
  SmallVector<int64_t> free;
};

/// The gradient of `wanted` in wanted x other = result: the cotangent times
/// `other`, summed over other's free dimensions. `cotangentOther` are the
/// cotangent's dimensions that are other's free ones. The product of the
/// cotangent and other has the dimensions [batch, wanted's free, wanted's
/// contracted in other's order], and the product in the other order [batch,
/// contracted, free]. The one that needs no transpose is chosen.
Value buildDotGradient(TensorBuilder &b, Value cotangent, const DotSide &wanted,
                       const DotSide &other, ArrayRef<int64_t> cotangentOther) {
  SmallVector<int64_t> cotangentBatch = getDimRange(0, wanted.batch.size());
  // other's contracted dimensions in increasing order, as they appear in a
  // result, named by the wanted dimension that they match.
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [otherDim, wantedDim] :
       llvm::zip_equal(other.contract, wanted.contract))
    pairs.push_back({otherDim, wantedDim});
  llvm::sort(pairs);
  SmallVector<int64_t> contracted =
      llvm::map_to_vector(pairs, [](auto pair) { return pair.second; });

  auto inOrder = [&](ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
    SmallVector<int64_t> order(wanted.batch);
    llvm::append_range(order, first);
    llvm::append_range(order, second);
    return order;
  };
  SmallVector<int64_t> order = inOrder(wanted.free, contracted),
                       swapped = inOrder(contracted, wanted.free);
  Value product;
  if (!llvm::is_sorted(order) && llvm::is_sorted(swapped)) {
    product = b.dotGeneral(other.value, cotangent, other.batch, cotangentBatch,
                           other.free, cotangentOther);
    order = swapped;
  } else {
    product = b.dotGeneral(cotangent, other.value, cotangentBatch, other.batch,
                           cotangentOther, other.free);
  }
  if (llvm::is_sorted(order))
    return product;
  // Dimension i of the product is dimension order[i] of the wanted operand.
  SmallVector<int64_t> permutation(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    permutation[dim] = i;
  return b.transpose(product, permutation);
}

struct DotGeneralRule : GradientRule<DotGeneralRule, DotGeneralOp> {
  static void build(DotGeneralOp op, GradientBuilder &g) {
    DotSide lhs{op.getLhs(), op.getLhsBatch(), op.getLhsContract(),
                op.getLhsFree()};
    DotSide rhs{op.getRhs(), op.getRhsBatch(), op.getRhsContract(),
                op.getRhsFree()};
    int64_t batch = lhs.batch.size(), lhsEnd = batch + lhs.free.size();
    SmallVector<int64_t> lhsDims = getDimRange(batch, lhsEnd),
                         rhsDims =
                             getDimRange(lhsEnd, lhsEnd + rhs.free.size());
    if (g.needs(0))
      g.set(0, buildDotGradient(g, g.cotangent(), lhs, rhs, rhsDims));
    if (g.needs(1))
      g.set(1, buildDotGradient(g, g.cotangent(), rhs, lhs, lhsDims));
  }
};

//===--- Convolutions: y = conv(x, w), and its gradients dx = A(dy, w), dw =
// B(x, dy); all three are bilinear and one
//===--- another's adjoints, so each of the six derivatives is one of the three
// again.

template <typename OpT>
Value convolve(GradientBuilder &g, OpT op, Value input, Value filter) {
  return ConvolutionOp::create(g.getBuilder(), op.getLoc(), input, filter,
                               op.getStrides(), op.getPaddingLow(),
                               op.getPaddingHigh(), op.getDilation(),
                               op.getGroups());
}
template <typename OpT>
Value inputGradient(GradientBuilder &g, OpT op, Value cotangent, Value filter,
                    Value likeInput) {
  return ConvolutionInputGradientOp::create(
      g.getBuilder(), op.getLoc(), likeInput.getType(), cotangent, filter,
      op.getStrides(), op.getPaddingLow(), op.getPaddingHigh(),
      op.getDilation(), op.getGroups());
}
template <typename OpT>
Value filterGradient(GradientBuilder &g, OpT op, Value input, Value cotangent,
                     Value likeFilter) {
  return ConvolutionFilterGradientOp::create(
      g.getBuilder(), op.getLoc(), likeFilter.getType(), input, cotangent,
      op.getStrides(), op.getPaddingLow(), op.getPaddingHigh(),
      op.getDilation(), op.getGroups());
}

struct ConvolutionRule : GradientRule<ConvolutionRule, ConvolutionOp> {
  static void build(ConvolutionOp op, GradientBuilder &g) {
    if (g.needs(0))
      g.set(0,
            inputGradient(g, op, g.cotangent(), op.getFilter(), op.getInput()));
    if (g.needs(1))
      g.set(1, filterGradient(g, op, op.getInput(), g.cotangent(),
                              op.getFilter()));
  }
};
struct ConvolutionInputGradientRule
    : GradientRule<ConvolutionInputGradientRule, ConvolutionInputGradientOp> {
  static void build(ConvolutionInputGradientOp op, GradientBuilder &g) {
    if (g.needs(0))
      g.set(0, convolve(g, op, g.cotangent(), op.getFilter()));
    if (g.needs(1))
      g.set(1, filterGradient(g, op, g.cotangent(), op.getCotangent(),
                              op.getFilter()));
  }
};
struct ConvolutionFilterGradientRule
    : GradientRule<ConvolutionFilterGradientRule, ConvolutionFilterGradientOp> {
  static void build(ConvolutionFilterGradientOp op, GradientBuilder &g) {
    if (g.needs(0))
      g.set(0, inputGradient(g, op, op.getCotangent(), g.cotangent(),
                             op.getInput()));
    if (g.needs(1))
      g.set(1, convolve(g, op, op.getInput(), g.cotangent()));
  }
};

//===--- Windows ---===//

struct ReduceWindowRule : GradientRule<ReduceWindowRule, ReduceWindowOp> {
  static void build(ReduceWindowOp op, GradientBuilder &g) {
    // A sum's gradient does not depend on the operand, which then need not be
    // kept.
    bool isSum = op.getKind() == ReduceKind::Sum;
    Value operand =
        isSum ? g.constantLike(op.getOperand(), 0) : op.getOperand();
    g.set(0, ReduceWindowGradientOp::create(
                 g.getBuilder(), op.getLoc(), op.getKind(), operand,
                 g.cotangent(), op.getWindow(), op.getStrides(),
                 op.getPaddingLow(), op.getPaddingHigh(), op.getDilation()));
  }
};

/// Linear in its cotangent, and constant almost everywhere in its operand. The
/// adjoint picks, per window, the sum of the new cotangent, or its element
/// where the operand has its first maximum.
struct ReduceWindowGradientRule
    : GradientRule<ReduceWindowGradientRule, ReduceWindowGradientOp> {
  static void build(ReduceWindowGradientOp op, GradientBuilder &g) {
    if (!g.needs(1))
      return;
    if (op.getKind() == ReduceKind::Sum)
      return g.set(1, ReduceWindowOp::create(
                          g.getBuilder(), op.getLoc(), ReduceKind::Sum,
                          g.cotangent(), op.getWindow(), op.getStrides(),
                          op.getPaddingLow(), op.getPaddingHigh(),
                          op.getDilation()));
    Value operand =
        pad(op, g, op.getOperand(), -std::numeric_limits<double>::infinity());
    Value cotangent = pad(op, g, g.cotangent(), 0);
    SmallVector<int64_t> position(op.getWindow().size(), 0);
    E largest = element(op, g, operand, position),
      picked = element(op, g, cotangent, position);
    while (advance(position, op.getWindow())) {
      E candidate = element(op, g, operand, position);
      E isLarger = candidate > largest;
      picked = select(isLarger, element(op, g, cotangent, position), picked);
      largest = select(isLarger, candidate, largest);
    }
    g.set(1, picked);
  }

private:
  static Value pad(ReduceWindowGradientOp op, GradientBuilder &g, Value value,
                   double number) {
    SmallVector<int64_t> low(getShape(value).size() - op.getWindow().size(), 0),
        high = low;
    SmallVector<int64_t> interior(getShape(value).size(), 0);
    llvm::append_range(low, op.getPaddingLow());
    llvm::append_range(high, op.getPaddingHigh());
    return PadOp::create(g.getBuilder(), op.getLoc(), value,
                         g.scalar(getElementType(value), number), low, high,
                         interior);
  }
  /// The element at one position of every window.
  static E element(ReduceWindowGradientOp op, GradientBuilder &g, Value padded,
                   ArrayRef<int64_t> position) {
    ArrayRef<int64_t> windows = getShape(op.getCotangent());
    int64_t leading = windows.size() - position.size();
    SmallVector<int64_t> starts(windows.size(), 0), limits(windows),
        strides(windows.size(), 1);
    for (auto [i, at] : llvm::enumerate(position)) {
      starts[leading + i] = at * op.getDilation()[i];
      strides[leading + i] = op.getStrides()[i];
      limits[leading + i] = starts[leading + i] +
                            (windows[leading + i] - 1) * op.getStrides()[i] + 1;
    }
    return g.expression(g.slice(padded, starts, limits, strides));
  }
  /// Counts through a window in row-major order; false at the end.
  static bool advance(SmallVectorImpl<int64_t> &position,
                      ArrayRef<int64_t> window) {
    for (int64_t i = position.size() - 1; i >= 0; --i) {
      if (++position[i] < window[i])
        return true;
      position[i] = 0;
    }
    return false;
  }
};

} // namespace

void autodiff::attachContractionRules(MLIRContext *context) {
  attachRules<ReduceRule, ZeroRule<ArgReduceOp>, DotGeneralRule>(context);
  attachRules<ConvolutionRule, ConvolutionInputGradientRule,
              ConvolutionFilterGradientRule>(context);
  attachRules<ReduceWindowRule, ReduceWindowGradientRule>(context);
}
