//===- DerivativesData.cpp - Derivatives of constants and data movement
//----===//
//
// Data movement is linear, so each derivative is the adjoint movement: what was
// repeated is summed, what was cut out is padded with zeros, what was padded is
// cut out.
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/DerivativeRules.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

struct BroadcastInDimRule : GradientRule<BroadcastInDimRule, BroadcastInDimOp> {
  static void build(BroadcastInDimOp op, GradientBuilder &g) {
    ArrayRef<int64_t> from = getShape(op.getOperand()),
                      to = getShape(op.getResult());
    SmallVector<bool> repeated(to.size(), true);
    for (auto [size, dim] : llvm::zip_equal(from, op.getDimensions()))
      repeated[dim] = size != to[dim];
    SmallVector<int64_t> dims;
    for (auto [i, isRepeated] : llvm::enumerate(repeated))
      if (isRepeated)
        dims.push_back(i);
    g.set(0, g.reshape(g.sum(g.cotangent(), dims), from));
  }
};

struct ReshapeRule : GradientRule<ReshapeRule, ReshapeOp> {
  static void build(ReshapeOp op, GradientBuilder &g) {
    g.set(0, g.reshape(g.cotangent(), getShape(op.getOperand())));
  }
};

struct TransposeRule : GradientRule<TransposeRule, TransposeOp> {
  static void build(TransposeOp op, GradientBuilder &g) {
    SmallVector<int64_t> inverse(op.getPermutation().size());
    for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
      inverse[dim] = i;
    g.set(0, g.transpose(g.cotangent(), inverse));
  }
};

/// `value` surrounded and spread by zeros.
Value padWithZeros(TensorBuilder &b, Value value, ArrayRef<int64_t> low,
                   ArrayRef<int64_t> high, ArrayRef<int64_t> interior) {
  auto isZero = [](int64_t i) { return i == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero) &&
      llvm::all_of(interior, isZero))
    return value;
  return PadOp::create(b.getBuilder(), b.getLoc(), value,
                       b.scalar(getElementType(value), 0), low, high, interior);
}

struct SliceRule : GradientRule<SliceRule, SliceOp> {
  static void build(SliceOp op, GradientBuilder &g) {
    SmallVector<int64_t> high, interior;
    for (auto [size, kept, start, stride] :
         llvm::zip_equal(getShape(op.getOperand()), getShape(op.getResult()),
                         op.getStarts(), op.getStrides())) {
      interior.push_back(stride - 1);
      int64_t span = kept == 0 ? 0 : (kept - 1) * stride + 1;
      high.push_back(size - start - span);
    }
    g.set(0, padWithZeros(g, g.cotangent(), op.getStarts(), high, interior));
  }
};

/// The operand's elements are cut out again; those that negative padding
/// removed get zero. The padding value gets the rest.
struct PadRule : GradientRule<PadRule, PadOp> {
  static void build(PadOp op, GradientBuilder &g) {
    SmallVector<int64_t> starts, limits, strides, before, after;
    for (auto [size, total, low, interior] :
         llvm::zip_equal(getShape(op.getOperand()), getShape(op.getResult()),
                         op.getLow(), op.getInterior())) {
      int64_t stride = interior + 1;
      // Operand elements [first, last) land inside the result, element i at low
      // + i * stride.
      int64_t first = std::clamp<int64_t>(
          low < 0 ? (-low + stride - 1) / stride : 0, 0, size);
      int64_t last = std::clamp<int64_t>(
          total > low ? (total - low - 1) / stride + 1 : 0, first, size);
      int64_t start = first == last ? 0 : low + first * stride;
      starts.push_back(start);
      limits.push_back(first == last ? 0
                                     : start + (last - first - 1) * stride + 1);
      strides.push_back(stride);
      before.push_back(first);
      after.push_back(size - last);
    }
    Value inside = g.slice(g.cotangent(), starts, limits, strides);
    g.set(0, padWithZeros(g, inside, before, after,
                          SmallVector<int64_t>(before.size(), 0)));
    if (g.needs(1))
      g.set(1, g.subtract(g.sumAll(g.cotangent()), g.sumAll(inside)));
  }
};

struct ConcatenateRule : GradientRule<ConcatenateRule, ConcatenateOp> {
  static void build(ConcatenateOp op, GradientBuilder &g) {
    SmallVector<int64_t> starts(getShape(op.getResult()).size(), 0),
        limits(getShape(op.getResult()));
    SmallVector<int64_t> strides(starts.size(), 1);
    int64_t dim = op.getDimension();
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      limits[dim] = starts[dim] + getShape(input)[dim];
      if (g.needs(i))
        g.set(i, g.slice(g.cotangent(), starts, limits, strides));
      starts[dim] = limits[dim];
    }
  }
};

struct ReverseRule : GradientRule<ReverseRule, ReverseOp> {
  static void build(ReverseOp op, GradientBuilder &g) {
    g.set(0, ReverseOp::create(g.getBuilder(), op.getLoc(), op.getType(),
                               g.cotangent(), op.getDimensions()));
  }
};

} // namespace

void autodiff::attachDataRules(MLIRContext *context) {
  attachRules<ZeroRule<ConstantOp>, ZeroRule<IotaOp>>(context);
  attachRules<BroadcastInDimRule, ReshapeRule, TransposeRule, SliceRule,
              PadRule, ConcatenateRule, ReverseRule>(context);
}
