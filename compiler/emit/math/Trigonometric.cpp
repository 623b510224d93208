//===- Trigonometric.cpp - Sine, cosine, tangent, arc tangent -------------===//
//
// x = n pi/2 + r with |r| <= pi/4 in f64 arithmetic, where a fused product with
// a two-part pi/2 loses nothing; n mod 4 says which of sin r and cos r is
// meant, and with which sign.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/math/FloatFormat.h"
#include "compiler/emit/math/Math.h"

#include <limits>

using namespace mlir;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;

static const double halfPi = 1.57079632679489655800e+00;
static const double halfPiLow = 6.12323399573676603587e-17;

namespace {
struct SineAndCosine {
  Value sine, cosine; ///< of the rest
  Value quadrant;     ///< i64
};
} // namespace

static SineAndCosine reduceAngle(ScalarBuilder &b, Value x, bool precise) {
  Rounded n = roundProduct(b, x, 6.36619772367581343e-01);
  Value r = b.fma(n.number, -halfPi, x);
  r = b.fma(n.number, -halfPiLow, r);
  r = b.fma(n.number, 1.49738490485916983294e-33, r);
  Value z = b.mul(r, r), s, c;
  if (precise) {
    s = b.polynomial(z, {-1.66666666666666657e-01, 8.33333333333333148e-03,
                         -1.98412698412645693e-04, 2.75573192189567318e-06,
                         -2.50521061009266746e-08, 1.60585109795353493e-10,
                         -7.58549250782124013e-13});
    c = b.polynomial(z, {4.16666666666666644e-02, -1.38888888888872414e-03,
                         2.48015872985334564e-05, -2.75573171524670406e-07,
                         2.08761216588711607e-09, -1.13808769481697168e-11});
  } else {
    s = b.polynomial(z, {-1.66666666636240218e-01, 8.33333178567173018e-03,
                         -1.98400391130122130e-04, 2.72438119752581052e-06});
    c = b.polynomial(z, {4.16666645369460908e-02, -1.38882794496495376e-03,
                         2.45428963369446284e-05});
  }
  Value one = b.constant(x.getType(), 1.0);
  return {b.fma(b.mul(r, z), s, r),
          b.fma(b.mul(z, z), c, b.fma(z, b.constant(x.getType(), -0.5), one)),
          n.integer};
}

static Value bitSet(ScalarBuilder &b, Value integer, int64_t mask) {
  Value masked =
      b.create<arith::AndIOp>(integer, b.integer(integer.getType(), mask));
  return b.compare(arith::CmpIPredicate::ne, masked,
                   b.integer(integer.getType(), 0));
}

/// Runs `body` in f64 for an argument of either type.
template <typename Body>
static Value inDouble(ScalarBuilder &b, Value x, Body body) {
  Type type = x.getType();
  if (type.isF64())
    return body(x, true);
  Value wide = b.create<arith::ExtFOp>(b.builder.getF64Type(), x);
  return b.create<arith::TruncFOp>(type, body(wide, false));
}

/// sin(x + shift pi/2)
static Value shiftedSine(ScalarBuilder &b, Value x, int64_t shift) {
  Value result = inDouble(b, x, [&](Value wide, bool precise) {
    SineAndCosine parts = reduceAngle(b, wide, precise);
    Value quadrant =
        b.addInt(parts.quadrant, b.integer(parts.quadrant.getType(), shift));
    Value value = b.select(bitSet(b, quadrant, 1), parts.cosine, parts.sine);
    return b.select(bitSet(b, quadrant, 2), b.neg(value), value);
  });
  if (shift)
    return result;
  // Keeps -0, and subnormal arguments.
  return b.select(
      b.compare(FP::OLT, b.abs(x), x.getType().isF64() ? 1e-150 : 1e-18), x,
      result);
}

Value lockstep::emit::emitSine(ScalarBuilder &b, Value x) {
  return shiftedSine(b, x, 0);
}
Value lockstep::emit::emitCosine(ScalarBuilder &b, Value x) {
  return shiftedSine(b, x, 1);
}

Value lockstep::emit::emitTan(ScalarBuilder &b, Value x) {
  return inDouble(b, x, [&](Value wide, bool precise) {
    SineAndCosine parts = reduceAngle(b, wide, precise);
    Value odd = bitSet(b, parts.quadrant, 1);
    Value numerator = b.select(odd, b.neg(parts.cosine), parts.sine);
    return b.div(numerator, b.select(odd, parts.sine, parts.cosine));
  });
}

/// atan x for 0 <= x <= 1 (NaN stays).
static Value atanOfFraction(ScalarBuilder &b, Value x) {
  // Above tan(pi/8): pi/4 + atan((x - 1) / (x + 1)).
  Type type = x.getType();
  Value upper = b.compare(FP::OGT, x, 0.41421356237309503);
  Value one = b.constant(type, 1.0), zero = b.constant(type, 0.0);
  Value t = b.div(b.select(upper, b.sub(x, one), x),
                  b.select(upper, b.add(x, one), one));
  Value z = b.mul(t, t), p;
  if (type.isF64())
    p = b.polynomial(z, {-3.33333333333333315e-01, 1.99999999999997402e-01,
                         -1.42857142856441077e-01, 1.11111111036453658e-01,
                         -9.09090867943174730e-02, 7.69229426393723548e-02,
                         -6.66638750573232547e-02, 5.87850526225370540e-02,
                         -5.22737720822896296e-02, 4.53775308762341401e-02,
                         -3.42195681070778107e-02, 1.59021551597737024e-02});
  else
    p = b.polynomial(z, {-3.333333135e-01, 1.999949068e-01, -1.426227540e-01,
                         1.072581783e-01, -6.393384188e-02});
  Value result = b.fma(b.mul(t, z), p, t);
  return b.add(result, b.select(upper, b.constant(type, halfPi / 2), zero));
}

Value lockstep::emit::emitAtan(ScalarBuilder &b, Value x) {
  return emitAtan2(b, x, b.constant(x.getType(), 1.0));
}

Value lockstep::emit::emitAtan2(ScalarBuilder &b, Value y, Value x) {
  Type type = x.getType();
  Value ax = b.abs(x), ay = b.abs(y), one = b.constant(type, 1.0),
        zero = b.constant(type, 0.0);
  Value steep = b.compare(FP::OGT, ay, ax);
  Value small = b.select(steep, ax, ay), large = b.select(steep, ay, ax);
  // 0 / 0 counts as 0, infinity / infinity as 1.
  Value fraction = b.div(small, large);
  fraction = b.select(b.compare(FP::OEQ, large, 0.0), zero, fraction);
  fraction = b.select(
      b.compare(FP::OEQ, small, std::numeric_limits<double>::infinity()), one,
      fraction);
  Value angle = atanOfFraction(b, fraction);
  angle = b.select(steep, b.sub(b.constant(type, halfPi), angle), angle);
  Value left = b.compare(FP::OLT, b.copySign(one, x), 0.0);
  angle = b.select(left, b.sub(b.constant(type, 2 * halfPi), angle), angle);
  Value unordered = b.compare(FP::UNO, x, y);
  return b.select(unordered, b.add(x, y), b.copySign(angle, y));
}
