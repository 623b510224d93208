//===- Logarithm.cpp - Logarithms and powers ------------------------------===//
//
// x = 2^e m with m in [sqrt(1/2), sqrt(2)); with f = m - 1 and s = f / (2 + f),
// ln m = f - f^2/2 + s (f^2/2 + R(s^2)), R by a polynomial.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/math/FloatFormat.h"
#include "compiler/emit/math/Math.h"

#include <limits>

using namespace mlir;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;

static const double infinity = std::numeric_limits<double>::infinity();
static const double quietNaN = std::numeric_limits<double>::quiet_NaN();

/// ln x + correction for a positive, finite x.
static Value logOfPositive(ScalarBuilder &b, Value x, Value correction) {
  Type type = x.getType();
  FloatFormat format(type);
  // Subnormal numbers are scaled up first.
  int shift = format.mantissaBits() + 2;
  Value subnormal = b.compare(FP::OLT, x, format.smallestNormal());
  Value scaled =
      b.select(subnormal, b.mul(x, format.isDouble ? 0x1p54 : 0x1p25), x);
  Value bits = b.bits(scaled);
  int64_t rootHalf = format.isDouble ? 0x3FE6A09E667F3BCD : 0x3F3504F3;
  Value exponent =
      b.shiftRight(b.subInt(bits, b.integer(bits.getType(), rootHalf)),
                   format.mantissaBits());
  Value m = b.fromBits(
      b.subInt(bits, b.shiftLeft(exponent, format.mantissaBits())), type);
  // To a number through the low bits of the magic constant: AVX2 has no
  // conversion from 64-bit integers.
  Value e = b.sub(b.fromBits(b.addInt(exponent, b.integer(bits.getType(),
                                                          format.magicBits())),
                             type),
                  b.constant(type, format.magic()));
  e = b.select(subnormal, b.add(e, -double(shift)), e);

  Value f = b.add(m, -1.0);
  Value s = b.div(f, b.add(f, 2.0));
  Value z = b.mul(s, s);
  Value half = b.mul(b.mul(f, 0.5), f);
  Value r;
  double high, low;
  if (format.isDouble) {
    r = b.polynomial(z, {6.66666666666666630e-01, 4.00000000000010125e-01,
                         2.85714285707228288e-01, 2.22222224098440391e-01,
                         1.81817937222725046e-01, 1.53863429743081537e-01,
                         1.32660350372610508e-01, 1.31149760967170376e-01});
    high = 6.93147180485539138317e-01, low = 7.44061711001239672e-11;
  } else {
    r = b.polynomial(z, {6.666666865e-01, 4.000012875e-01, 2.854996324e-01,
                         2.335354239e-01});
    high = 6.9314575195e-01, low = 1.4286067653e-06;
  }
  Value tail =
      b.fma(s, b.fma(z, r, half), b.fma(e, b.constant(type, low), correction));
  return b.fma(e, b.constant(type, high), b.sub(f, b.sub(half, tail)));
}

static Value specialLogs(ScalarBuilder &b, Value x, Value result) {
  Type type = x.getType();
  result =
      b.select(b.compare(FP::OLT, x, infinity), result, x); // Infinity and NaN.
  result =
      b.select(b.compare(FP::OEQ, x, 0.0), b.constant(type, -infinity), result);
  return b.select(b.compare(FP::OLT, x, 0.0), b.constant(type, quietNaN),
                  result);
}

Value lockstep::emit::emitLog(ScalarBuilder &b, Value x) {
  return specialLogs(b, x, logOfPositive(b, x, b.constant(x.getType(), 0.0)));
}

Value lockstep::emit::emitLogPlusOne(ScalarBuilder &b, Value x) {
  // u = 1 + x rounded; ln(1 + x) = ln u + (1 + x - u) / u.
  Type type = x.getType();
  Value one = b.constant(type, 1.0);
  Value u = b.add(one, x);
  Value lost = b.select(b.compare(FP::OLT, x, 1.0), b.sub(x, b.sub(u, one)),
                        b.sub(one, b.sub(u, x)));
  Value result = specialLogs(b, u, logOfPositive(b, u, b.div(lost, u)));
  Value tiny = b.compare(FP::OLT, b.abs(x), type.isF64() ? 1e-20 : 1e-10);
  return b.select(tiny, x, result);
}

/// x^y for x >= 0, in f64 arithmetic.
static Value powerOfPositive(ScalarBuilder &b, Value x, Value y) {
  Value product = b.mul(y, emitLog(b, x));
  // 0 * infinity: x^0 = 1 and 1^y = 1.
  Value one = b.constant(x.getType(), 1.0);
  Value trivial =
      b.either(b.compare(FP::OEQ, y, 0.0), b.compare(FP::OEQ, x, 1.0));
  return b.select(trivial, one, emitExp(b, product));
}

Value lockstep::emit::emitPower(ScalarBuilder &b, Value x, Value y) {
  Type type = x.getType(), f64 = b.builder.getF64Type();
  Value magnitude = b.abs(x), result;
  if (type.isF64()) {
    result = powerOfPositive(b, magnitude, y);
  } else {
    Value wideX = b.create<arith::ExtFOp>(f64, magnitude),
          wideY = b.create<arith::ExtFOp>(f64, y);
    result = b.create<arith::TruncFOp>(type, powerOfPositive(b, wideX, wideY));
  }
  // A negative base: the sign of an odd exponent, NaN for one that is no
  // integer. -1 to an infinite power is 1.
  Value half = b.mul(y, 0.5);
  Value whole = b.compare(FP::OEQ, b.trunc(y), y);
  Value odd = b.both(whole, b.compare(FP::UNE, b.trunc(half), half));
  Value negative =
      b.compare(FP::OLT, b.copySign(b.constant(type, 1.0), x), 0.0);
  result = b.select(b.both(negative, odd), b.neg(result), result);
  Value finite = b.compare(FP::OLT, magnitude, infinity);
  Value belowZero = b.both(b.compare(FP::OLT, x, 0.0), finite);
  Value noInteger = b.compare(FP::ONE, b.trunc(y), y);
  return b.select(b.both(belowZero, noInteger), b.constant(type, quietNaN),
                  result);
}

Value lockstep::emit::emitIntegerPower(ScalarBuilder &b, Value x, int64_t n) {
  Value result, square = x;
  for (uint64_t left = n < 0 ? -uint64_t(n) : uint64_t(n); left; left >>= 1) {
    if (left & 1)
      result = result ? b.mul(result, square) : square;
    if (left > 1)
      square = b.mul(square, square);
  }
  Value one = b.constant(x.getType(), 1.0);
  if (!result)
    return one;
  return n < 0 ? b.div(one, result) : result;
}

Value lockstep::emit::emitRemainder(ScalarBuilder &b, Value x, Value y) {
  Value ax = b.abs(x), ay = b.abs(y);
  Value r = b.fma(b.neg(b.trunc(b.div(ax, ay))), ay, ax);
  // The quotient may be rounded up to an integer, or down from one.
  r = b.select(b.compare(FP::OLT, r, 0.0), b.add(r, ay), r);
  r = b.select(b.compare(FP::OGE, r, ay), b.sub(r, ay), r);
  // fmod(x, infinity) = x.
  Value whole = b.both(b.compare(FP::OEQ, ay, infinity),
                       b.compare(FP::OLT, ax, infinity));
  return b.copySign(b.select(whole, ax, r), x);
}
