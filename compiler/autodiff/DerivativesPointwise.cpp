//===- DerivativesPointwise.cpp - Derivatives of elementwise operations
//----===//
//
// At a kink the derivative is PyTorch's: |x| and sign have 0 at 0, maximum and
// minimum give each of two equals half, a power with exponent 0 has 0 for its
// base, and select passes everything to the side that it takes (so that relu,
// which import writes as select(x <= 0, 0, x), has 0 at 0, and clamp, select(x
// < min, min, x), passes at its bounds).
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/DerivativeRules.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

using E = Expression;

//===--- One operand: gradient(x, y = f(x), dy) ---===//

struct NegateRule : UnaryRule<NegateRule, NegateOp> {
  static E gradient(E x, E y, E dy) { return -dy; }
};
struct AbsRule : UnaryRule<AbsRule, AbsOp> {
  static E gradient(E x, E y, E dy) { return dy * sign(x); }
};
struct ExponentialRule : UnaryRule<ExponentialRule, ExponentialOp> {
  static E gradient(E x, E y, E dy) { return dy * y; }
};
struct ExponentialMinusOneRule
    : UnaryRule<ExponentialMinusOneRule, ExponentialMinusOneOp> {
  static E gradient(E x, E y, E dy) { return dy * (y + 1); }
};
struct LogRule : UnaryRule<LogRule, LogOp> {
  static E gradient(E x, E y, E dy) { return dy / x; }
};
struct LogPlusOneRule : UnaryRule<LogPlusOneRule, LogPlusOneOp> {
  static E gradient(E x, E y, E dy) { return dy / (x + 1); }
};
struct TanhRule : UnaryRule<TanhRule, TanhOp> {
  static E gradient(E x, E y, E dy) { return dy * (1 - y * y); }
};
struct LogisticRule : UnaryRule<LogisticRule, LogisticOp> {
  static E gradient(E x, E y, E dy) { return dy * (y * (1 - y)); }
};
struct SqrtRule : UnaryRule<SqrtRule, SqrtOp> {
  static E gradient(E x, E y, E dy) { return dy * 0.5 / y; }
};
struct RsqrtRule : UnaryRule<RsqrtRule, RsqrtOp> {
  static E gradient(E x, E y, E dy) { return dy * (-0.5 * (y * y * y)); }
};
struct SineRule : UnaryRule<SineRule, SineOp> {
  static E gradient(E x, E y, E dy) { return dy * cos(x); }
};
struct CosineRule : UnaryRule<CosineRule, CosineOp> {
  static E gradient(E x, E y, E dy) { return -(dy * sin(x)); }
};
struct TanRule : UnaryRule<TanRule, TanOp> {
  static E gradient(E x, E y, E dy) { return dy * (y * y + 1); }
};
struct AtanRule : UnaryRule<AtanRule, AtanOp> {
  static E gradient(E x, E y, E dy) { return dy / (x * x + 1); }
};
struct ErfRule : UnaryRule<ErfRule, ErfOp> {
  static E gradient(E x, E y, E dy) {
    return dy * (2 / std::sqrt(M_PI) * exp(-(x * x)));
  }
};
struct ConvertRule : UnaryRule<ConvertRule, ConvertOp> {
  static E gradient(E x, E y, E dy) {
    return dy.with(dy.getBuilder().convert(dy, getElementType(x)));
  }
};

//===--- Two operands: left(x, y, z = f(x, y), dz), right(...) ---===//

struct AddRule : BinaryRule<AddRule, AddOp> {
  static E left(E x, E y, E z, E dz) { return dz; }
  static E right(E x, E y, E z, E dz) { return dz; }
};
struct SubtractRule : BinaryRule<SubtractRule, SubtractOp> {
  static E left(E x, E y, E z, E dz) { return dz; }
  static E right(E x, E y, E z, E dz) { return -dz; }
};
struct DivideRule : BinaryRule<DivideRule, DivideOp> {
  static E left(E x, E y, E z, E dz) { return dz / y; }
  static E right(E x, E y, E z, E dz) { return -(dz * z / y); }
};
struct RemainderRule : BinaryRule<RemainderRule, RemainderOp> {
  static E left(E x, E y, E z, E dz) { return dz; }
  static E right(E x, E y, E z, E dz) { return -(dz * truncate(x / y)); }
};
struct ModuloRule : BinaryRule<ModuloRule, ModuloOp> {
  static E left(E x, E y, E z, E dz) { return dz; }
  static E right(E x, E y, E z, E dz) { return -(dz * floor(x / y)); }
};
struct MaximumRule : BinaryRule<MaximumRule, MaximumOp> {
  static E left(E x, E y, E z, E dz) {
    return select(x == y, dz * 0.5, select(x < y, 0.0, dz));
  }
  static E right(E x, E y, E z, E dz) {
    return select(x == y, dz * 0.5, select(y < x, 0.0, dz));
  }
};
struct MinimumRule : BinaryRule<MinimumRule, MinimumOp> {
  static E left(E x, E y, E z, E dz) {
    return select(x == y, dz * 0.5, select(x > y, 0.0, dz));
  }
  static E right(E x, E y, E z, E dz) {
    return select(x == y, dz * 0.5, select(y > x, 0.0, dz));
  }
};
struct Atan2Rule : BinaryRule<Atan2Rule, Atan2Op> {
  static E left(E x, E y, E z, E dz) { return dz * (y / (x * x + y * y)); }
  static E right(E x, E y, E z, E dz) { return -(dz * (x / (x * x + y * y))); }
};

/// The number that all elements of a value are, seen through broadcasts and
/// conversions.
std::optional<double> getSplat(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<BroadcastInDimOp, ReshapeOp, ConvertOp>(op))
      break;
    value = op->getOperand(0);
  }
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getSplatValue<APInt>().getSExtValue();
}

struct PowerRule : BinaryRule<PowerRule, PowerOp> {
  static E left(E x, E y, E z, E dz) {
    std::optional<double> exponent = getSplat(y);
    if (!exponent) // y x^(y - 1), and 0 where y is 0, even at x = 0.
      return select(y == 0, 0.0, dz * (y * power(x, y - 1)));
    if (*exponent == 0)
      return dz.constant(0);
    if (*exponent == 1)
      return dz;
    if (*exponent == 2)
      return dz * (2 * x);
    if (*exponent == 3)
      return dz * (3 * (x * x));
    if (*exponent == 0.5)
      return dz * 0.5 / z;
    return dz * (*exponent * power(x, x.constant(*exponent - 1)));
  }
  /// x^y log x; where x is 0 and y is not negative, the limit 0.
  static E right(E x, E y, E z, E dz) {
    return select(x == 0 && y >= 0, 0.0, dz * (z * log(x)));
  }
};

/// x * x is one gradient, not two that are added.
struct MultiplyRule : GradientRule<MultiplyRule, MultiplyOp> {
  static void build(MultiplyOp op, GradientBuilder &g) {
    E x = g.expression(op.getLhs()), y = g.expression(op.getRhs()),
      dz = g.expression(g.cotangent());
    if (op.getLhs() == op.getRhs())
      return g.set(0, dz * (2 * x));
    if (g.needs(0))
      g.set(0, dz * y);
    if (g.needs(1))
      g.set(1, dz * x);
  }
};

/// True for select(x <= 0, 0, x).
bool isRelu(SelectOp op) {
  auto compare = op.getPred().getDefiningOp<CompareOp>();
  return compare && compare.getDirection() == CompareDirection::LE &&
         compare.getLhs() == op.getOnFalse() &&
         getSplat(compare.getRhs()) == 0.0 && getSplat(op.getOnTrue()) == 0.0;
}

struct SelectRule : GradientRule<SelectRule, SelectOp> {
  static void build(SelectOp op, GradientBuilder &g) {
    E dz = g.expression(g.cotangent());
    E condition = g.expression(op.getPred());
    if (isRelu(op)) // Its result, which the next layer keeps anyway, tells the
                    // sign as well as its operand.
      condition = compare(CompareDirection::LE, dz.with(op.getResult()),
                          dz.constant(0));
    if (g.needs(1))
      g.set(1, select(condition, dz, 0.0));
    if (g.needs(2))
      g.set(2, select(condition, 0.0, dz));
  }
};

/// The same elements are dropped and scaled.
struct DropoutRule : GradientRule<DropoutRule, DropoutOp> {
  static void build(DropoutOp op, GradientBuilder &g) {
    IRMapping operands;
    operands.map(op.getOperand(), g.cotangent());
    g.set(0, g.getBuilder().clone(*op, operands)->getResult(0));
  }
};

} // namespace

void autodiff::attachPointwiseRules(MLIRContext *context) {
  attachRules<NegateRule, AbsRule, ExponentialRule, ExponentialMinusOneRule,
              LogRule, LogPlusOneRule, TanhRule, LogisticRule, SqrtRule,
              RsqrtRule, SineRule, CosineRule, TanRule, AtanRule, ErfRule,
              ConvertRule>(context);
  attachRules<AddRule, SubtractRule, MultiplyRule, DivideRule, RemainderRule,
              ModuloRule, PowerRule, MaximumRule, MinimumRule, Atan2Rule,
              SelectRule, DropoutRule>(context);
  // Step functions, and operations on integers.
  attachRules<ZeroRule<SignOp>, ZeroRule<FloorOp>, ZeroRule<CeilOp>,
              ZeroRule<RoundNearestEvenOp>, ZeroRule<TruncateOp>,
              ZeroRule<FloorDivideOp>, ZeroRule<CompareOp>, ZeroRule<NotOp>,
              ZeroRule<AndOp>, ZeroRule<OrOp>, ZeroRule<XorOp>,
              ZeroRule<ShiftLeftOp>, ZeroRule<ShiftRightOp>>(context);
  attachRules<ZeroRule<StopGradientOp>>(context);
}
