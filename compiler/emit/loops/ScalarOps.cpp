//===- ScalarOps.cpp - Pointwise operations on scalars --------------------===//
//
// Where C++ or the hardware leaves a result open, the choice is that of
// compiler/reference: integer x / 0 is -1 and x % 0 is x.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/math/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

static bool isUnsigned(Type element) {
  return element.isUnsignedInteger() || element.isInteger(1);
}

static Type elementOf(Value value) {
  return getElementTypeOrSelf(value.getType());
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

static Value isNegative(ScalarBuilder &b, Value x) {
  return b.compare(FP::OLT, x, 0.0);
}

static Value signOf(ScalarBuilder &b, Value x) {
  Type type = x.getType();
  Value unit = b.copySign(b.constant(type, 1.0), x);
  Value nonzero =
      b.compare(FP::ONE, x, b.constant(type, 0.0)); // False for NaN.
  return b.select(nonzero, unit,
                  b.select(b.isNaN(x), x, b.constant(type, 0.0)));
}

static Value modulo(ScalarBuilder &b, Value x, Value y) {
  Value r = emitRemainder(b, x, y);
  Value nonzero = b.compare(FP::UNE, r, b.constant(r.getType(), 0.0));
  Value differ = b.create<arith::XOrIOp>(isNegative(b, r), isNegative(b, y));
  return b.select(b.both(nonzero, differ), b.add(r, y), r);
}

static Value floorDivide(ScalarBuilder &b, Value x, Value y) {
  // Exact also where x / y would round up to the next integer.
  Value exact =
      b.create<math::RoundEvenOp>(b.div(b.sub(x, modulo(b, x, y)), y));
  Value plain = b.floor(b.div(x, y));
  double infinity = std::numeric_limits<double>::infinity();
  Value ordinary = b.both(b.compare(FP::OLT, b.abs(x), infinity),
                          b.both(b.compare(FP::OLT, b.abs(y), infinity),
                                 b.compare(FP::UNE, y, 0.0)));
  return b.select(ordinary, exact, plain);
}

/// The value of a splat constant that `value` is, through broadcasts.
static std::optional<double> getSplat(Value value) {
  while (auto op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<train::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (dense && dense.isSplat() && isa<FloatType>(dense.getElementType()))
        return dense.getSplatValue<APFloat>().convertToDouble();
      return std::nullopt;
    }
    if (!isa<train::BroadcastInDimOp, train::ReshapeOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

static Value power(ScalarBuilder &b, train::PowerOp op, Value x, Value y) {
  std::optional<double> exponent = getSplat(op.getRhs());
  if (exponent && *exponent == std::trunc(*exponent) &&
      std::abs(*exponent) <= 4)
    return emitIntegerPower(b, x, int64_t(*exponent));
  return emitPower(b, x, y);
}

static FP toPredicate(train::CompareDirection direction) {
  switch (direction) {
  case train::CompareDirection::EQ:
    return FP::OEQ;
  case train::CompareDirection::NE:
    return FP::UNE;
  case train::CompareDirection::LT:
    return FP::OLT;
  case train::CompareDirection::LE:
    return FP::OLE;
  case train::CompareDirection::GT:
    return FP::OGT;
  case train::CompareDirection::GE:
    return FP::OGE;
  }
  llvm_unreachable("all directions are handled");
}

static Value emitFloat(ScalarBuilder &b, Operation *op, Value x, Value y) {
  using namespace train;
  return TypeSwitch<Operation *, Value>(op)
      .Case<NegateOp>([&](auto) { return b.neg(x); })
      .Case<AbsOp>([&](auto) { return b.abs(x); })
      .Case<SignOp>([&](auto) { return signOf(b, x); })
      .Case<ExponentialOp>([&](auto) { return emitExp(b, x); })
      .Case<ExponentialMinusOneOp>([&](auto) { return emitExpMinusOne(b, x); })
      .Case<LogOp>([&](auto) { return emitLog(b, x); })
      .Case<LogPlusOneOp>([&](auto) { return emitLogPlusOne(b, x); })
      .Case<TanhOp>([&](auto) { return emitTanh(b, x); })
      .Case<LogisticOp>([&](auto) { return emitLogistic(b, x); })
      .Case<SqrtOp>([&](auto) { return b.root(x); })
      .Case<RsqrtOp>([&](auto) {
        Value one = b.constant(x.getType(), 1.0);
        return b.approximates(x.getType())
                   ? b.approximateDiv(one, b.approximateSqrt(x))
                   : b.div(one, b.sqrt(x));
      })
      .Case<SineOp>([&](auto) { return emitSine(b, x); })
      .Case<CosineOp>([&](auto) { return emitCosine(b, x); })
      .Case<TanOp>([&](auto) { return emitTan(b, x); })
      .Case<AtanOp>([&](auto) { return emitAtan(b, x); })
      .Case<ErfOp>([&](auto) { return emitErf(b, x); })
      .Case<FloorOp>([&](auto) { return b.floor(x); })
      .Case<CeilOp>([&](auto) { return b.create<math::CeilOp>(x); })
      .Case<RoundNearestEvenOp>(
          [&](auto) { return b.create<math::RoundEvenOp>(x); })
      .Case<TruncateOp>([&](auto) { return b.trunc(x); })
      .Case<AddOp>([&](auto) { return b.add(x, y); })
      .Case<SubtractOp>([&](auto) { return b.sub(x, y); })
      .Case<MultiplyOp>([&](auto) { return b.mul(x, y); })
      .Case<DivideOp>([&](auto) { return b.quotient(x, y); })
      .Case<FloorDivideOp>([&](auto) { return floorDivide(b, x, y); })
      .Case<RemainderOp>([&](auto) { return emitRemainder(b, x, y); })
      .Case<ModuloOp>([&](auto) { return modulo(b, x, y); })
      .Case<PowerOp>([&](PowerOp powerOp) { return power(b, powerOp, x, y); })
      .Case<MaximumOp>([&](auto) {
        return combine(b, ReduceKind::Max, x, y, x.getType(), false);
      })
      .Case<MinimumOp>([&](auto) {
        return combine(b, ReduceKind::Min, x, y, x.getType(), false);
      })
      .Case<Atan2Op>([&](auto) { return emitAtan2(b, x, y); })
      .Case<CompareOp>([&](CompareOp compare) {
        return b.compare(toPredicate(compare.getDirection()), x, y);
      })
      .Default([](auto) { return Value(); });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

namespace {
/// Quotient (toward zero) and remainder with the chosen results for a divisor
/// of 0, and for -1, whose quotient may overflow.
struct Division {
  Value quotient, remainder;
};
} // namespace

static Division divide(ScalarBuilder &b, Value x, Value y, bool isUnsigned) {
  Type type = x.getType();
  Value zero = b.integer(type, 0), one = b.integer(type, 1),
        minusOne = b.integer(type, -1);
  Value byZero = b.compare(IP::eq, y, zero);
  if (isUnsigned) {
    Value safe = b.select(byZero, one, y);
    return {b.select(byZero, minusOne, b.create<arith::DivUIOp>(x, safe)),
            b.select(byZero, x, b.create<arith::RemUIOp>(x, safe))};
  }
  Value byMinusOne = b.compare(IP::eq, y, minusOne);
  Value safe = b.select(b.either(byZero, byMinusOne), one, y);
  Value quotient = b.select(byMinusOne, b.subInt(zero, x),
                            b.create<arith::DivSIOp>(x, safe));
  return {b.select(byZero, minusOne, quotient),
          b.select(byZero, x, b.create<arith::RemSIOp>(x, safe))};
}

static Value signsDiffer(ScalarBuilder &b, Value x, Value y) {
  return b.compare(IP::slt, b.create<arith::XOrIOp>(x, y),
                   b.integer(x.getType(), 0));
}

static Value floorDivideInt(ScalarBuilder &b, Value x, Value y,
                            bool isUnsigned) {
  Division d = divide(b, x, y, isUnsigned);
  if (isUnsigned)
    return d.quotient;
  Value zero = b.integer(x.getType(), 0);
  Value adjust = b.both(
      b.both(b.compare(IP::ne, d.remainder, zero), b.compare(IP::ne, y, zero)),
      signsDiffer(b, x, y));
  return b.select(adjust, b.addInt(d.quotient, b.integer(x.getType(), -1)),
                  d.quotient);
}

static Value moduloInt(ScalarBuilder &b, Value x, Value y, bool isUnsigned) {
  Division d = divide(b, x, y, isUnsigned);
  if (isUnsigned)
    return d.remainder;
  Value zero = b.integer(x.getType(), 0);
  Value adjust = b.both(
      b.both(b.compare(IP::ne, d.remainder, zero), b.compare(IP::ne, y, zero)),
      signsDiffer(b, d.remainder, y));
  return b.select(adjust, b.addInt(d.remainder, y), d.remainder);
}

static Value powerInt(ScalarBuilder &b, Value x, Value y, bool isUnsigned) {
  Type type = x.getType();
  Value zero = b.integer(type, 0), one = b.integer(type, 1),
        minusOne = b.integer(type, -1);
  auto squares = scf::ForOp::create(b.builder, b.loc, b.i64(0),
                                    b.i64(type.getIntOrFloatBitWidth()),
                                    b.i64(1), ValueRange{one, x, y});
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPointToEnd(squares.getBody());
    Value result = squares.getRegionIterArg(0),
          square = squares.getRegionIterArg(1),
          left = squares.getRegionIterArg(2);
    Value odd = b.compare(IP::ne, b.create<arith::AndIOp>(left, one), zero);
    Value next = b.select(odd, b.create<arith::MulIOp>(result, square), result);
    scf::YieldOp::create(b.builder, b.loc,
                         ValueRange{next,
                                    b.create<arith::MulIOp>(square, square),
                                    b.create<arith::ShRUIOp>(left, one)});
  }
  Value positive = squares.getResult(0);
  if (isUnsigned)
    return positive;
  Value odd = b.compare(IP::ne, b.create<arith::AndIOp>(y, one), zero);
  Value inverse = b.select(b.compare(IP::eq, x, one), one,
                           b.select(b.compare(IP::eq, x, minusOne),
                                    b.select(odd, minusOne, one), zero));
  return b.select(b.compare(IP::slt, y, zero), inverse, positive);
}

static Value shift(ScalarBuilder &b, Value x, Value y, bool left,
                   bool isUnsigned) {
  Type type = x.getType();
  int64_t bits = type.getIntOrFloatBitWidth();
  Value inRange = b.compare(IP::ult, y, b.integer(type, bits));
  Value zero = b.integer(type, 0);
  if (left)
    return b.select(
        inRange, b.create<arith::ShLIOp>(x, b.select(inRange, y, zero)), zero);
  if (isUnsigned)
    return b.select(
        inRange, b.create<arith::ShRUIOp>(x, b.select(inRange, y, zero)), zero);
  return b.create<arith::ShRSIOp>(
      x, b.select(inRange, y, b.integer(type, bits - 1)));
}

static IP toPredicate(train::CompareDirection direction, bool isUnsigned) {
  switch (direction) {
  case train::CompareDirection::EQ:
    return IP::eq;
  case train::CompareDirection::NE:
    return IP::ne;
  case train::CompareDirection::LT:
    return isUnsigned ? IP::ult : IP::slt;
  case train::CompareDirection::LE:
    return isUnsigned ? IP::ule : IP::sle;
  case train::CompareDirection::GT:
    return isUnsigned ? IP::ugt : IP::sgt;
  case train::CompareDirection::GE:
    return isUnsigned ? IP::uge : IP::sge;
  }
  llvm_unreachable("all directions are handled");
}

Value emit::emitCompareInt(ScalarBuilder &b, train::CompareDirection direction,
                           Value x, Value y, bool isUnsigned) {
  return b.compare(toPredicate(direction, isUnsigned), x, y);
}

static Value emitInteger(ScalarBuilder &b, Operation *op, Value x, Value y,
                         Type element) {
  using namespace train;
  Type type = x.getType();
  bool isU = isUnsigned(element);
  Value zero = b.integer(type, 0);
  return TypeSwitch<Operation *, Value>(op)
      .Case<NegateOp>([&](auto) { return b.subInt(zero, x); })
      .Case<AbsOp>([&](auto) {
        return isU ? x
                   : b.select(b.compare(IP::slt, x, zero), b.subInt(zero, x),
                              x);
      })
      .Case<SignOp>([&](auto) {
        Value unit = isU ? b.integer(type, 1)
                         : b.select(b.compare(IP::slt, x, zero),
                                    b.integer(type, -1), b.integer(type, 1));
        return b.select(b.compare(IP::eq, x, zero), zero, unit);
      })
      .Case<NotOp>(
          [&](auto) { return b.create<arith::XOrIOp>(x, b.integer(type, -1)); })
      .Case<AddOp>([&](auto) { return b.addInt(x, y); })
      .Case<SubtractOp>([&](auto) { return b.subInt(x, y); })
      .Case<MultiplyOp>([&](auto) { return b.create<arith::MulIOp>(x, y); })
      .Case<DivideOp>([&](auto) { return divide(b, x, y, isU).quotient; })
      .Case<FloorDivideOp>([&](auto) { return floorDivideInt(b, x, y, isU); })
      .Case<RemainderOp>([&](auto) { return divide(b, x, y, isU).remainder; })
      .Case<ModuloOp>([&](auto) { return moduloInt(b, x, y, isU); })
      .Case<PowerOp>([&](auto) { return powerInt(b, x, y, isU); })
      .Case<MaximumOp>([&](auto) {
        return combine(b, ReduceKind::Max, x, y, element, false);
      })
      .Case<MinimumOp>([&](auto) {
        return combine(b, ReduceKind::Min, x, y, element, false);
      })
      .Case<AndOp>([&](auto) { return b.create<arith::AndIOp>(x, y); })
      .Case<OrOp>([&](auto) { return b.create<arith::OrIOp>(x, y); })
      .Case<XorOp>([&](auto) { return b.create<arith::XOrIOp>(x, y); })
      .Case<ShiftLeftOp>([&](auto) { return shift(b, x, y, true, isU); })
      .Case<ShiftRightOp>([&](auto) { return shift(b, x, y, false, isU); })
      .Case<CompareOp>([&](CompareOp compare) {
        return b.compare(toPredicate(compare.getDirection(), isU), x, y);
      })
      .Default([](auto) { return Value(); });
}

//===----------------------------------------------------------------------===//
// All element types
//===----------------------------------------------------------------------===//

bool emit::isScalarOp(Operation *op) {
  return op->hasTrait<train::Pointwise>();
}

Value emit::emitPointwise(ScalarBuilder &b, Operation *op,
                          llvm::ArrayRef<Value> operands) {
  Type element = elementOf(op->getOperand(0)),
       resultElement = elementOf(op->getResult(0));
  if (isa<train::SelectOp>(op))
    return b.select(operands[0], operands[1], operands[2]);
  if (isa<train::ConvertOp>(op))
    return convertScalar(b, operands[0], element, resultElement);
  Value x = operands[0], y = operands.size() > 1 ? operands[1] : Value();
  Value result = isa<FloatType>(element) ? emitFloat(b, op, x, y)
                                         : emitInteger(b, op, x, y, element);
  // An operation with the trait that is not known here is the identity on its
  // first operand (stop_gradient).
  return result ? roundTo(b, result, resultElement) : x;
}

static Value minOrMax(ScalarBuilder &b, bool max, Value x, Value y,
                      Type element, bool reassociate) {
  if (!isa<FloatType>(x.getType())) {
    if (isUnsigned(element))
      return max ? b.create<arith::MaxUIOp>(x, y)
                 : b.create<arith::MinUIOp>(x, y);
    return max ? b.create<arith::MaxSIOp>(x, y)
               : b.create<arith::MinSIOp>(x, y);
  }
  // In a reduction the operation that the vectorizer knows, else the cheaper
  // comparison. NaN wins in both.
  if (reassociate)
    return max ? b.create<arith::MaximumFOp>(x, y, arith::FastMathFlags::nsz)
               : b.create<arith::MinimumFOp>(x, y, arith::FastMathFlags::nsz);
  Value better =
      b.compare(max ? FP::UGT : FP::ULT, x, y); // True for NaN in either.
  return b.select(b.isNaN(y), y, b.select(better, x, y));
}

Value emit::combine(ScalarBuilder &b, train::ReduceKind kind, Value x, Value y,
                    Type element, bool reassociate) {
  bool isFloat = isa<FloatType>(x.getType());
  auto flags = reassociate ? arith::FastMathFlags::contract |
                                 arith::FastMathFlags::reassoc |
                                 arith::FastMathFlags::nsz
                           : arith::FastMathFlags::contract;
  switch (kind) {
  case train::ReduceKind::Sum:
    return isFloat ? b.create<arith::AddFOp>(x, y, flags) : b.addInt(x, y);
  case train::ReduceKind::Product:
    return isFloat ? b.create<arith::MulFOp>(x, y, flags)
                   : b.create<arith::MulIOp>(x, y);
  case train::ReduceKind::Max:
    return minOrMax(b, true, x, y, element, reassociate);
  case train::ReduceKind::Min:
    return minOrMax(b, false, x, y, element, reassociate);
  case train::ReduceKind::And:
    return b.create<arith::AndIOp>(x, y);
  case train::ReduceKind::Or:
    return b.create<arith::OrIOp>(x, y);
  }
  llvm_unreachable("all kinds are handled");
}

Value emit::getNeutral(ScalarBuilder &b, train::ReduceKind kind, Type element) {
  Type type = getComputeType(element);
  bool isFloat = isa<FloatType>(type), isU = isUnsigned(element);
  unsigned bits = type.getIntOrFloatBitWidth();
  double infinity = std::numeric_limits<double>::infinity();
  auto integer = [&](const APInt &value) {
    return b.create<arith::ConstantOp>(IntegerAttr::get(type, value));
  };
  switch (kind) {
  case train::ReduceKind::Sum:
    return isFloat ? b.constant(type, 0.0) : b.integer(type, 0);
  case train::ReduceKind::Product:
    return isFloat ? b.constant(type, 1.0) : b.integer(type, 1);
  case train::ReduceKind::Max:
    return isFloat ? b.constant(type, -infinity)
                   : integer(isU ? APInt::getMinValue(bits)
                                 : APInt::getSignedMinValue(bits));
  case train::ReduceKind::Min:
    return isFloat ? b.constant(type, infinity)
                   : integer(isU ? APInt::getMaxValue(bits)
                                 : APInt::getSignedMaxValue(bits));
  case train::ReduceKind::And:
    return b.integer(type, -1);
  case train::ReduceKind::Or:
    return b.integer(type, 0);
  }
  llvm_unreachable("all kinds are handled");
}
