//===- Exponential.cpp - e^x and what follows from it ---------------------===//
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r - 1 = r + r^2 q(r) with a polynomial
// q (Chebyshev fit); then a scaling by 2^n.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/math/FloatFormat.h"
#include "compiler/emit/math/Math.h"

using namespace mlir;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;

namespace {
/// e^x = 2^n (1 + p)
struct Reduced {
  Value n, p;
};
} // namespace

static Reduced reduceExponential(ScalarBuilder &b, Value x) {
  Type type = x.getType();
  Rounded n = roundProduct(b, x, 1.44269504088896340736);
  Value r, q;
  if (type.isF64()) {
    r = b.fma(n.number, -6.93147180485539138317e-01, x);
    r = b.fma(n.number, -7.44061711001239672e-11, r);
    q = b.polynomial(r, {5.00000000000000000e-01, 1.66666666666666713e-01,
                         4.16666666666666713e-02, 8.33333333332554431e-03,
                         1.38888888888833275e-03, 1.98412698768643558e-04,
                         2.48015873270071872e-05, 2.75572528335169111e-06,
                         2.75572718102198004e-07, 2.51062747335732955e-08,
                         2.09154422977801163e-09});
  } else {
    r = b.fma(n.number, -6.9314575195e-01, x);
    r = b.fma(n.number, -1.4286067653e-06, r);
    q = b.polynomial(r, {5.000000000e-01, 1.666657329e-01, 4.166654870e-02,
                         8.363774046e-03, 1.392692677e-03});
  }
  return {n.integer, b.fma(b.mul(r, r), q, r)};
}

/// min(max(x, low), high); NaN stays.
static Value clamp(ScalarBuilder &b, Value x, double low, double high) {
  Value lo = b.constant(x.getType(), low), hi = b.constant(x.getType(), high);
  x = b.select(b.compare(FP::OLT, x, lo), lo, x);
  return b.select(b.compare(FP::OGT, x, hi), hi, x);
}

/// With the hardware's 2^t: t = x log2 e in rounded form, and e^x = 2^t (1 + d
/// ln 2) for what rounding left out, d.
static Value exponentialByHardware(ScalarBuilder &b, Value x) {
  constexpr double log2E = 1.44269504088896340736,
                   ln2 = 0.693147180559945309417;
  Value factor = b.constant(x.getType(), log2E);
  Value t = b.mul(x, factor);
  Value power = b.exp2(t);
  Value left = b.fma(x, factor, b.neg(t));
  Value corrected = b.fma(power, b.mul(left, ln2), power);
  // Near the ends, infinite and not a number: as it is.
  return b.select(b.compare(FP::OLT, b.abs(t), 125.0), corrected, power);
}

Value lockstep::emit::emitExp(ScalarBuilder &b, Value x) {
  Type type = x.getType();
  if (b.approximates(type))
    return exponentialByHardware(b, x);
  x = type.isF64() ? clamp(b, x, -746, 710) : clamp(b, x, -104, 89);
  Reduced reduced = reduceExponential(b, x);
  // In two steps, since 2^n may be subnormal or one above the largest power.
  Value half = b.shiftRight(reduced.n, 1);
  Value rest = b.subInt(reduced.n, half);
  Value first = powerOfTwo(b, half, type);
  return b.mul(b.fma(first, reduced.p, first), powerOfTwo(b, rest, type));
}

Value lockstep::emit::emitExpMinusOne(ScalarBuilder &b, Value x) {
  Type type = x.getType();
  Value clamped = type.isF64() ? clamp(b, x, -40, 710) : clamp(b, x, -20, 89);
  Reduced reduced = reduceExponential(b, clamped);
  // 2^n (1 + p) - 1 = 2 (s p + (s - 1/2)) with s = 2^(n-1), which does not
  // overflow.
  Value s = powerOfTwo(
      b, b.addInt(reduced.n, b.integer(reduced.n.getType(), -1)), type);
  Value result = b.fma(s, reduced.p, b.add(s, -0.5));
  result = b.add(result, result);
  // Subnormal arguments would lose bits in s p.
  Value tiny = b.compare(FP::OLT, b.abs(x), type.isF64() ? 1e-300 : 1e-30);
  return b.select(tiny, x, result);
}

/// With the hardware's 2^t: below a bound x + x^3 q(x^2) (Chebyshev fit), above
/// it 1 - 2 / (e^(2 |x|) + 1).
static Value tanhByHardware(ScalarBuilder &b, Value x) {
  Type type = x.getType();
  Value a = b.abs(x), square = b.mul(x, x);
  Value q = b.polynomial(square, {-3.3333324720e-01, 1.3332660109e-01,
                                  -5.3844500849e-02, 2.0988040936e-02,
                                  -6.1005334326e-03});
  Value small = b.fma(b.mul(square, x), q, x);
  constexpr double twoLog2E = 2.88539008177792681472;
  Value e = b.exp2(b.mul(a, twoLog2E));
  Value large = b.fma(b.approximateDiv(b.constant(type, 1.0), b.add(e, 1.0)),
                      -2.0, b.constant(type, 1.0));
  return b.select(b.compare(FP::OLT, a, 0.625), small, b.copySign(large, x));
}

Value lockstep::emit::emitTanh(ScalarBuilder &b, Value x) {
  if (b.approximates(x.getType()))
    return tanhByHardware(b, x);
  // tanh |x| = t / (t + 2), t = e^(2 |x|) - 1.
  Type type = x.getType();
  Value twice = b.mul(b.abs(x), 2.0);
  Value limit = b.constant(type, type.isF64() ? 44 : 22);
  twice = b.select(b.compare(FP::OGT, twice, limit), limit, twice);
  Value t = emitExpMinusOne(b, twice);
  return b.copySign(b.div(t, b.add(t, 2.0)), x);
}

Value lockstep::emit::emitLogistic(ScalarBuilder &b, Value x) {
  // With e = e^-|x|: 1 / (1 + e) for positive x, e / (1 + e) for negative.
  Value one = b.constant(x.getType(), 1.0);
  Value e = emitExp(b, b.neg(b.abs(x)));
  Value numerator = b.select(b.compare(FP::OLT, x, 0.0), e, one);
  Value denominator = b.add(one, e);
  return b.approximates(x.getType()) ? b.approximateDiv(numerator, denominator)
                                     : b.div(numerator, denominator);
}

Value lockstep::emit::emitErf(ScalarBuilder &b, Value x) {
  // Below 1: x (1 + q(x^2)). Above: 1 - e^l(|x|), where l fits ln erfc.
  Type type = x.getType();
  Value a = b.abs(x), square = b.mul(x, x);
  Value small, logarithm;
  double limit = type.isF64() ? 6.0 : 4.0;
  Value clamped = clamp(b, a, 0.9, limit);
  if (type.isF64()) {
    small =
        b.polynomial(square, {0.12837916709551256, -3.76126389031837483e-01,
                              1.12837916709548791e-01, -2.68661706450767923e-02,
                              5.22397762481801448e-03, -8.54832698083379003e-04,
                              1.20553311116427105e-04, -1.49255952668311818e-05,
                              1.64610004841213676e-06, -1.63503127010546952e-07,
                              1.46597752740474363e-08, -1.13728488567916737e-09,
                              5.95717614774891131e-11});
    logarithm =
        b.polynomial(b.add(clamped, -3.5),
                     {-1.41124374021481742e+01, -7.26609958836519088e+00,
                      -9.66753054742230167e-01, -5.22565822194286100e-03,
                      8.73687323640823721e-04,  -1.47297774887817441e-04,
                      2.43863735383719291e-05,  -3.88955717743329121e-06,
                      5.85614342021468568e-07,  -8.06930092105988733e-08,
                      9.53166232456755914e-09,  -7.74909821609914422e-10,
                      -2.47979619273135335e-11, 3.06579974706522569e-11,
                      -9.18163254922417384e-12, 2.05374382433181000e-12,
                      -3.93655553611787075e-13, 6.73265894390408183e-14,
                      -8.93331293903663780e-15, 5.18112696321671030e-16,
                      -2.37276178676315811e-17, 2.07184957445762544e-17,
                      7.95415950552728581e-18,  -5.09527760266909546e-18,
                      6.32552058871849307e-19});
  } else {
    small =
        b.polynomial(square, {0.128379167096, -3.761262596e-01, 1.128359437e-01,
                              -2.685421146e-02, 5.189087242e-03,
                              -8.016864303e-04, 7.875874871e-05});
    logarithm = b.polynomial(
        clamped, {3.201380605e-04, -1.130233407e+00, -6.318260431e-01,
                  -1.100800857e-01, 2.642113529e-02, -4.759596195e-03,
                  5.968056503e-04, -4.605804133e-05, 1.637151399e-06});
  }
  Value one = b.constant(type, 1.0);
  Value large = b.sub(one, emitExp(b, logarithm));
  large = b.select(b.compare(FP::OGE, a, limit), one, large);
  // The first branch also carries NaN.
  Value result =
      b.select(b.compare(FP::OGE, a, 1.0), large, b.fma(a, small, a));
  return b.copySign(result, x);
}
