// Arithmetic, roots, exponentials and trigonometry, element by element.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

using Unary = Value (*)(Emitter &, Value);

/// A function of real numbers: integers become floats, half precision computes
/// in f32.
static void lowerReal(OpCall &op, Unary body) {
  Value x = op.tensor("self");
  Type out = op.resultElement();
  if (op.bad())
    return;
  if (!isa<FloatType>(out))
    return op.t.fail("expected a floating-point result"), void();
  op.result(op.t.convert(body(op.t, op.t.convert(x, computeType(out))), out));
}

/// Rounding: integers stay what they are.
static void lowerRounding(OpCall &op, Unary body) {
  op.ignore({"decimals"});
  if (op.integer("decimals", 0) != 0)
    return op.unsupported("rounding to decimals");
  Value x = op.tensor("self");
  if (!op.bad())
    op.result(isFloat(x) ? body(op.t, x) : x);
}

/// A function within the element type.
static void lowerSame(OpCall &op, Unary body) {
  Value x = op.tensor("self");
  if (!op.bad())
    op.result(body(op.t, x));
}

//===----------------------------------------------------------------------===//
// Sums, products, quotients
//===----------------------------------------------------------------------===//

static Value scaled(OpCall &op, Value value, StringRef name) {
  if (!op.has(name))
    return value;
  Scalar alpha = op.number(name);
  if (alpha.real == 1)
    return value;
  if (alpha.kind == Scalar::Kind::Float)
    return op.t.mul(value, alpha.real);
  return op.t.mul(value, value
                             ? op.t.constantInt(shapeOf(value),
                                                elementOf(value), alpha.integer)
                             : value);
}

static void lowerAdd(OpCall &op) {
  Type type = op.promote({"self", "other"});
  Value a = op.operand("self", type),
        b = scaled(op, op.operand("other", type), "alpha");
  op.result(op.t.add(a, b));
}

static void lowerSub(OpCall &op) {
  Type type = op.promote({"self", "other"});
  Value a = op.operand("self", type), b = op.operand("other", type);
  bool reversed = op.base.starts_with("rsub");
  op.result(reversed ? op.t.sub(b, scaled(op, a, "alpha"))
                     : op.t.sub(a, scaled(op, b, "alpha")));
}

static void lowerMul(OpCall &op) {
  Type type = op.promote({"self", "other"});
  op.result(op.t.mul(op.operand("self", type), op.operand("other", type)));
}

static void lowerDiv(OpCall &op) {
  Type type = op.promote({"self", "other"});
  std::string mode =
      op.base == "floor_divide" ? "floor" : op.string("rounding_mode", "");
  if (mode.empty() && !isa<FloatType>(type))
    type = op.t.f32();
  Value a = op.operand("self", type), b = op.operand("other", type);
  if (mode == "floor")
    return op.result(op.t.binary<FloorDivideOp>(a, b));
  Value quotient = op.t.div(a, b);
  op.result(mode == "trunc" && quotient && isFloat(quotient)
                ? op.t.unary<TruncateOp>(quotient)
                : quotient);
}

template <typename OpTy> static void lowerBinary(OpCall &op) {
  Type type = op.promote({"self", "other"});
  op.result(
      op.t.binary<OpTy>(op.operand("self", type), op.operand("other", type)));
}

/// fmax, fmin: a NaN loses.
static void lowerFmax(OpCall &op) {
  Type type = op.promote({"self", "other"});
  Value a = op.operand("self", type), b = op.operand("other", type);
  Value best = op.base == "fmax" ? op.t.max(a, b) : op.t.min(a, b);
  best = op.t.select(op.t.compare(CompareDirection::NE, a, a), b, best);
  op.result(op.t.select(op.t.compare(CompareDirection::NE, b, b), a, best));
}

static Value power(Emitter &t, Value x, double exponent) {
  if (!x)
    return x;
  if (exponent == 0)
    return t.like(x, 1);
  if (exponent == 1)
    return x;
  if (exponent == 2)
    return t.square(x);
  if (exponent == 3)
    return t.mul(t.square(x), x);
  if (isFloat(x) && exponent == 4)
    return t.square(t.square(x));
  if (isFloat(x) && exponent == 0.5)
    return t.sqrt(x);
  if (isFloat(x) && exponent == -0.5)
    return t.rsqrt(x);
  if (isFloat(x) && exponent == -1)
    return t.div(1, x);
  if (isFloat(x) && exponent == -2)
    return t.div(1, t.square(x));
  return t.binary<PowerOp>(x, exponent);
}

static void lowerPow(OpCall &op) {
  Type type = op.promote({"self", "exponent"});
  if (op.bad())
    return;
  Type compute = computeType(type);
  if (!op.isTensor("exponent"))
    return op.result(op.t.convert(
        power(op.t, op.operand("self", compute), op.number("exponent").real),
        type));
  op.result(op.t.convert(op.t.binary<PowerOp>(op.operand("self", compute),
                                              op.operand("exponent", compute)),
                         type));
}

static void lowerAddc(OpCall &op) {
  Type type = op.promote({"self", "tensor1", "tensor2"});
  Value self = op.operand("self", type), a = op.operand("tensor1", type),
        b = op.operand("tensor2", type);
  Value term = op.base == "addcmul" ? op.t.mul(a, b) : op.t.div(a, b);
  op.result(op.t.add(self, scaled(op, term, "value")));
}

static void lowerLerp(OpCall &op) {
  Value self = op.tensor("self"), end = op.tensor("end");
  if (op.bad())
    return;
  Value weight = op.operand("weight", elementOf(self));
  op.result(op.t.add(self, op.t.mul(weight, op.t.sub(end, self))));
}

static void lowerXlogy(OpCall &op) {
  Type type = op.resultElement();
  Value a = op.operand("self", type), b = op.operand("other", type);
  Value product = op.t.mul(a, op.t.log(b));
  op.result(product ? op.t.select(op.t.compare(
                                      CompareDirection::EQ,
                                      op.t.broadcastTo(a, shapeOf(product)), 0),
                                  0, product)
                    : product);
}

static void lowerLogAddExp(OpCall &op) {
  Type type = op.promote({"self", "other"});
  Value a = op.operand("self", type), b = op.operand("other", type);
  op.result(op.t.add(op.t.max(a, b),
                     op.t.log1p(op.t.exp(op.t.neg(op.t.abs(op.t.sub(a, b)))))));
}

static void lowerHypot(OpCall &op) {
  Type type = op.promote({"self", "other"});
  Value a = op.operand("self", type), b = op.operand("other", type);
  op.result(op.t.sqrt(op.t.add(op.t.square(a), op.t.square(b))));
}

static void lowerCopysign(OpCall &op) {
  Type type = op.resultElement();
  Value a = op.t.abs(op.operand("self", type)), b = op.operand("other", type);
  op.result(op.t.select(op.t.lt(b, 0), op.t.neg(a), a));
}

static void lowerHeaviside(OpCall &op) {
  Value x = op.tensor("self"), at = op.tensor("values");
  Value step = op.bad() ? x : op.t.convert(op.t.gt(x, 0), elementOf(x));
  op.result(op.t.select(op.t.compare(CompareDirection::EQ, x, 0), at, step));
}

static void lowerNanToNum(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  if (!isFloat(x))
    return op.ignoreAll(), op.result(x);
  double largest =
      APFloat::getLargest(cast<FloatType>(elementOf(x)).getFloatSemantics())
          .convertToDouble();
  double nan = op.real("nan", 0), high = op.real("posinf", largest),
         low = op.real("neginf", -largest);
  Value clean = op.t.select(op.t.compare(CompareDirection::NE, x, x), nan, x);
  clean =
      op.t.select(op.t.compare(CompareDirection::EQ, x, INFINITY), high, clean);
  op.result(op.t.select(op.t.compare(CompareDirection::EQ, x, -INFINITY), low,
                        clean));
}

/// Bounds are numbers or tensors. Inside and on the bounds the gradient passes,
/// as in PyTorch.
static void lowerClamp(OpCall &op) {
  SmallVector<StringRef> names{"self"};
  for (StringRef name : {"min", "max"})
    if (op.has(name))
      names.push_back(name);
  Type type = op.promote(names);
  Value x = op.operand("self", type);
  if (op.base != "clamp_max" && op.has("min")) {
    Value bound = op.operand("min", type);
    x = op.t.select(op.t.compare(CompareDirection::LT, x, bound), bound, x);
  }
  if (op.base != "clamp_min" && op.has("max")) {
    Value bound = op.operand("max", type);
    x = op.t.select(op.t.compare(CompareDirection::GT, x, bound), bound, x);
  }
  op.result(x);
}

static void lowerIdentity(OpCall &op) { op.result(op.tensor("self")); }

//===----------------------------------------------------------------------===//
// Functions of one number
//===----------------------------------------------------------------------===//

static Value atan2OfRoot(Emitter &t, Value x, bool sine) {
  Value root = t.sqrt(t.sub(1, t.square(x)));
  return sine ? t.binary<Atan2Op>(x, root) : t.binary<Atan2Op>(root, x);
}

static void addRealFunctions(OperatorTable &table) {
  constexpr Form pointwise = Form::Pointwise;
#define REAL(NAME, EXPRESSION)                                                 \
  table.add(                                                                   \
      NAME,                                                                    \
      [](OpCall &op) {                                                         \
        lowerReal(op,                                                          \
                  [](Emitter &t, Value x) -> Value { return EXPRESSION; });    \
      },                                                                       \
      pointwise)
  REAL("exp", t.exp(x));
  REAL("exp2", t.exp(t.mul(x, M_LN2)));
  REAL("expm1", t.expm1(x));
  REAL("log", t.log(x));
  REAL("log2", t.div(t.log(x), M_LN2));
  REAL("log10", t.div(t.log(x), M_LN10));
  REAL("log1p", t.log1p(x));
  REAL("sqrt", t.sqrt(x));
  REAL("rsqrt", t.rsqrt(x));
  REAL("sin", t.unary<SineOp>(x));
  REAL("cos", t.unary<CosineOp>(x));
  REAL("tan", t.unary<TanOp>(x));
  REAL("asin", atan2OfRoot(t, x, true));
  REAL("acos", atan2OfRoot(t, x, false));
  REAL("atan", t.unary<AtanOp>(x));
  REAL("sinh", t.mul(t.sub(t.expm1(x), t.expm1(t.neg(x))), 0.5));
  REAL("cosh", t.mul(t.add(t.exp(x), t.exp(t.neg(x))), 0.5));
  REAL("tanh", t.tanh(x));
  REAL("asinh", t.mul(t.unary<SignOp>(x),
                      t.log(t.add(t.abs(x), t.sqrt(t.add(t.square(x), 1.0))))));
  REAL("acosh", t.log(t.add(x, t.sqrt(t.sub(t.square(x), 1.0)))));
  REAL("atanh", t.mul(t.sub(t.log1p(x), t.log1p(t.neg(x))), 0.5));
  REAL("erf", t.erf(x));
  REAL("erfc", t.sub(1, t.erf(x)));
  REAL("reciprocal", t.div(1, x));
  REAL("sigmoid", t.sigmoid(x));
  REAL("deg2rad", t.mul(x, M_PI / 180));
  REAL("rad2deg", t.mul(x, 180 / M_PI));
  REAL("sinc",
       t.select(t.compare(CompareDirection::EQ, x, 0), 1,
                t.div(t.unary<SineOp>(t.mul(x, M_PI)), t.mul(x, M_PI))));
#undef REAL
  for (auto [alias, name] : {std::pair("special_expit", "sigmoid"),
                             {"special_erf", "erf"},
                             {"special_erfc", "erfc"},
                             {"special_expm1", "expm1"},
                             {"special_log1p", "log1p"},
                             {"special_exp2", "exp2"},
                             {"arctan", "atan"},
                             {"arcsin", "asin"},
                             {"arccos", "acos"},
                             {"arcsinh", "asinh"},
                             {"arccosh", "acosh"},
                             {"arctanh", "atanh"},
                             {"special_sinc", "sinc"}})
    table.add(alias, LowerFn(table.find(name)->lower), pointwise);
}

void addPointwise(OperatorTable &table) {
  constexpr Form pointwise = Form::Pointwise;
  table.add("add", lowerAdd, pointwise);
  table.add({"sub", "subtract", "rsub"}, lowerSub, pointwise);
  table.add({"mul", "multiply"}, lowerMul, pointwise);
  table.add({"div", "divide", "true_divide", "floor_divide"}, lowerDiv,
            pointwise);
  table.add("remainder", lowerBinary<ModuloOp>, pointwise);
  table.add("fmod", lowerBinary<RemainderOp>, pointwise);
  table.add("maximum", lowerBinary<MaximumOp>, pointwise);
  table.add("minimum", lowerBinary<MinimumOp>, pointwise);
  table.add({"fmax", "fmin"}, lowerFmax, pointwise);
  table.add({"atan2", "arctan2"}, lowerBinary<Atan2Op>, pointwise);
  table.add("pow", lowerPow, pointwise);
  table.add({"addcmul", "addcdiv"}, lowerAddc, pointwise);
  table.add("lerp", lowerLerp, pointwise);
  table.add({"xlogy", "special_xlogy"}, lowerXlogy, pointwise);
  table.add("logaddexp", lowerLogAddExp, pointwise);
  table.add("hypot", lowerHypot, pointwise);
  table.add("copysign", lowerCopysign, pointwise);
  table.add("heaviside", lowerHeaviside, pointwise);
  table.add("nan_to_num", lowerNanToNum, pointwise);
  table.add({"clamp", "clip", "clamp_min", "clamp_max"}, lowerClamp, pointwise);
  table.add("positive", lowerIdentity, pointwise);
  table.add(
      {"neg", "negative"},
      [](OpCall &op) {
        lowerSame(op, [](Emitter &t, Value x) { return t.neg(x); });
      },
      pointwise);
  table.add(
      {"abs", "absolute"},
      [](OpCall &op) {
        lowerSame(op, [](Emitter &t, Value x) { return t.abs(x); });
      },
      pointwise);
  table.add(
      {"sign", "sgn"},
      [](OpCall &op) {
        lowerSame(op, [](Emitter &t, Value x) { return t.unary<SignOp>(x); });
      },
      pointwise);
  table.add(
      "square",
      [](OpCall &op) {
        lowerSame(op, [](Emitter &t, Value x) { return t.square(x); });
      },
      pointwise);
  table.add(
      "floor",
      [](OpCall &op) {
        lowerRounding(op,
                      [](Emitter &t, Value x) { return t.unary<FloorOp>(x); });
      },
      pointwise);
  table.add(
      "ceil",
      [](OpCall &op) {
        lowerRounding(op,
                      [](Emitter &t, Value x) { return t.unary<CeilOp>(x); });
      },
      pointwise);
  table.add(
      "round",
      [](OpCall &op) {
        lowerRounding(op, [](Emitter &t, Value x) {
          return t.unary<RoundNearestEvenOp>(x);
        });
      },
      pointwise);
  table.add(
      {"trunc", "fix"},
      [](OpCall &op) {
        lowerRounding(
            op, [](Emitter &t, Value x) { return t.unary<TruncateOp>(x); });
      },
      pointwise);
  table.add(
      "frac",
      [](OpCall &op) {
        lowerRounding(op, [](Emitter &t, Value x) {
          return t.sub(x, t.unary<TruncateOp>(x));
        });
      },
      pointwise);
  addRealFunctions(table);
}

} // namespace lockstep::aten
