// The logarithm of the gamma function and its derivative, by Lanczos's
// approximation (g = 7, nine terms: 1e-15 of the value), reflected below 1/2.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

namespace {
constexpr double coefficients[] = {
    0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
    771.32342877765313,   -176.61502916214059,   12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
constexpr double g = 7, pi = 3.14159265358979323846;

/// The pieces for an argument of at least 1/2.
struct Lanczos {
  Lanczos(Emitter &t, Value x) {
    Value z = t.sub(x, 1.0);
    shifted = t.add(z, 0.5), base = t.add(z, g + 0.5);
    for (int i = 1; i < 9; ++i) {
      Value pole = t.add(z, static_cast<double>(i));
      Value term = t.div(coefficients[i], pole);
      Value down = t.neg(t.div(term, pole));
      sum = i == 1 ? t.add(term, coefficients[0]) : t.add(sum, term);
      slope = i == 1 ? down : t.add(slope, down);
    }
  }
  Value shifted, base, sum, slope;
};

struct Reflected {
  Reflected(Emitter &t, Value x) {
    below = t.lt(x, 0.5);
    upper = t.select(below, t.sub(1, x), x);
    // Where nothing is reflected, a place that has a value and a slope.
    Value inside = t.select(below, x, 0.25);
    // Of sin(pi x) the size counts, so x may lose its whole part first.
    angle = t.mul(t.sub(inside, t.unary<FloorOp>(inside)), pi);
  }
  Value below, upper, angle;
};
} // namespace

static Value logGamma(Emitter &t, Value x) {
  Reflected r(t, x);
  Lanczos l(t, r.upper);
  Value value =
      t.add(t.add(t.sub(t.mul(l.shifted, t.log(l.base)), l.base), t.log(l.sum)),
            0.5 * std::log(2 * pi));
  Value reflection = t.sub(std::log(pi), t.log(t.unary<SineOp>(r.angle)));
  return t.select(r.below, t.sub(reflection, value), value);
}

static Value digamma(Emitter &t, Value x) {
  Reflected r(t, x);
  Lanczos l(t, r.upper);
  Value value =
      t.add(t.add(t.log(l.base), t.div(t.sub(l.shifted, l.base), l.base)),
            t.div(l.slope, l.sum));
  Value cotangent = t.div(t.unary<CosineOp>(r.angle), t.unary<SineOp>(r.angle));
  return t.select(r.below, t.sub(value, t.mul(cotangent, pi)), value);
}

template <Value (*body)(Emitter &, Value)>
static void lowerSpecial(OpCall &op) {
  Value x = op.tensor("self");
  Type out = op.resultElement();
  if (!op.bad())
    op.result(op.t.convert(body(op.t, op.t.convert(x, computeType(out))), out));
}

void addSpecialFunctions(OperatorTable &table) {
  table.add({"lgamma", "special_gammaln"}, lowerSpecial<logGamma>,
            Form::Pointwise);
  table.add({"digamma", "special_digamma", "special_psi"},
            lowerSpecial<digamma>, Form::Pointwise);
}

} // namespace lockstep::aten
