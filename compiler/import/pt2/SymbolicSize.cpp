// Evaluates symbolic sizes, exactly on rationals of 64 bits; only functions
// that leave them (roots, floating-point constants) go through double
// precision.
#include "compiler/import/pt2/SymbolicSize.h"

#include <cmath>
#include <cstdlib>

using namespace lockstep;
using namespace lockstep::pt2;
using Kind = SymExpr::Kind;

namespace {
/// An exact fraction, or a double once exactness is lost.
struct Number {
  bool exact = true;
  int64_t numerator = 0, denominator = 1;
  double inexact = 0;

  double real() const {
    return exact ? double(numerator) / double(denominator) : inexact;
  }
  bool isInteger() const { return exact && denominator == 1; }
  bool truth() const { return exact ? numerator != 0 : inexact != 0; }
};
} // namespace

static Number integerNumber(int64_t value) { return {true, value, 1, 0}; }
static Number realNumber(double value) { return {false, 0, 1, value}; }

/// Reduces the fraction; the numbers that come in have less than 128 bits.
static StatusOr<Number> fraction(__int128 numerator, __int128 denominator) {
  if (denominator == 0)
    return inputError("division by zero in a symbolic size");
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator;
  while (b != 0) {
    __int128 rest = a % b;
    a = b;
    b = rest;
  }
  numerator /= a;
  denominator /= a;
  if (numerator > INT64_MAX || numerator < INT64_MIN || denominator > INT64_MAX)
    return inputError("a symbolic size overflows 64 bits");
  return Number{true, int64_t(numerator), int64_t(denominator), 0};
}

static StatusOr<Number> add(const Number &a, const Number &b) {
  if (!a.exact || !b.exact)
    return realNumber(a.real() + b.real());
  __int128 left = __int128(a.numerator) * b.denominator,
           right = __int128(b.numerator) * a.denominator;
  return fraction(left + right, __int128(a.denominator) * b.denominator);
}

static StatusOr<Number> multiply(const Number &a, const Number &b) {
  if (!a.exact || !b.exact)
    return realNumber(a.real() * b.real());
  return fraction(__int128(a.numerator) * b.numerator,
                  __int128(a.denominator) * b.denominator);
}

static StatusOr<Number> divide(const Number &a, const Number &b) {
  if (!b.truth())
    return inputError("division by zero in a symbolic size");
  if (!a.exact || !b.exact)
    return realNumber(a.real() / b.real());
  return fraction(__int128(a.numerator) * b.denominator,
                  __int128(a.denominator) * b.numerator);
}

/// Rounds toward minus or plus infinity.
static StatusOr<Number> roundNumber(const Number &a, bool up) {
  if (!a.exact) {
    double value = up ? std::ceil(a.inexact) : std::floor(a.inexact);
    if (!(std::fabs(value) < 9.2e18))
      return inputError("a symbolic size overflows 64 bits");
    return integerNumber(int64_t(value));
  }
  int64_t quotient = a.numerator / a.denominator;
  int64_t rest = a.numerator % a.denominator;
  if (rest < 0 && !up)
    --quotient;
  if (rest > 0 && up)
    ++quotient;
  return integerNumber(quotient);
}

static StatusOr<Number> floorDivide(const Number &a, const Number &b) {
  LOCKSTEP_ASSIGN_OR_RETURN(Number quotient, divide(a, b));
  return roundNumber(quotient, /*up=*/false);
}

static StatusOr<Number> modulo(const Number &a, const Number &b) {
  LOCKSTEP_ASSIGN_OR_RETURN(Number quotient, floorDivide(a, b));
  LOCKSTEP_ASSIGN_OR_RETURN(Number product, multiply(quotient, b));
  LOCKSTEP_ASSIGN_OR_RETURN(Number negative,
                            multiply(product, integerNumber(-1)));
  return add(a, negative);
}

static StatusOr<Number> power(const Number &base, const Number &exponent) {
  if (!base.exact || !exponent.isInteger() || exponent.numerator > 64 ||
      exponent.numerator < -64)
    return realNumber(std::pow(base.real(), exponent.real()));
  Number result = integerNumber(1);
  for (int64_t i = 0; i < std::llabs(exponent.numerator); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(result, multiply(result, base));
  }
  if (exponent.numerator < 0)
    return divide(integerNumber(1), result);
  return result;
}

static bool compare(Kind kind, const Number &a, const Number &b) {
  int order;
  if (a.exact && b.exact) {
    __int128 left = __int128(a.numerator) * b.denominator,
             right = __int128(b.numerator) * a.denominator;
    order = left < right ? -1 : left > right;
  } else {
    order = a.real() < b.real() ? -1 : a.real() > b.real();
  }
  switch (kind) {
  case Kind::Equal:
    return order == 0;
  case Kind::NotEqual:
    return order != 0;
  case Kind::Less:
    return order < 0;
  case Kind::LessEqual:
    return order <= 0;
  case Kind::Greater:
    return order > 0;
  default:
    return order >= 0;
  }
}

/// Folds one more operand into the value of an operator with many operands.
static StatusOr<Number> accumulate(Kind kind, const Number &a,
                                   const Number &b) {
  switch (kind) {
  case Kind::Add:
    return add(a, b);
  case Kind::Mul:
    return multiply(a, b);
  case Kind::Max:
    return compare(Kind::Less, a, b) ? b : a;
  case Kind::Min:
    return compare(Kind::Less, b, a) ? b : a;
  case Kind::And:
    return integerNumber(a.truth() && b.truth());
  default:
    return integerNumber(a.truth() || b.truth());
  }
}

static StatusOr<Number> applyFunction(Kind kind,
                                      const std::vector<Number> &operands) {
  const Number &a = operands[0], &b = operands[operands.size() > 1 ? 1 : 0];
  switch (kind) {
  case Kind::Pow:
    return power(a, b);
  case Kind::Abs:
    return compare(Kind::Less, a, integerNumber(0))
               ? multiply(a, integerNumber(-1))
               : StatusOr<Number>(a);
  case Kind::FloorDiv:
    return floorDivide(a, b);
  case Kind::CeilDiv: {
    LOCKSTEP_ASSIGN_OR_RETURN(Number quotient, divide(a, b));
    return roundNumber(quotient, /*up=*/true);
  }
  case Kind::CleanDiv:
  case Kind::IntTrueDiv:
  case Kind::FloatTrueDiv:
    return divide(a, b);
  case Kind::Mod:
  case Kind::PythonMod:
    return modulo(a, b);
  case Kind::ModularIndexing: {
    LOCKSTEP_ASSIGN_OR_RETURN(Number quotient, floorDivide(a, b));
    return modulo(quotient, operands[2]);
  }
  case Kind::Floor:
  case Kind::Ceiling:
    return roundNumber(a, kind == Kind::Ceiling);
  case Kind::TruncToInt:
    return roundNumber(a, /*up=*/compare(Kind::Less, a, integerNumber(0)));
  case Kind::RoundToInt:
    return roundNumber(realNumber(std::nearbyint(a.real())), false);
  case Kind::Not:
    return integerNumber(!a.truth());
  case Kind::Where:
    return a.truth() ? b : operands[2];
  case Kind::Equal:
  case Kind::NotEqual:
  case Kind::Less:
  case Kind::LessEqual:
  case Kind::Greater:
  case Kind::GreaterEqual:
    return integerNumber(compare(kind, a, b));
  default: // ToFloat, Identity
    return a;
  }
}

static StatusOr<Number> evaluate(const SymExpr &expr,
                                 const SymbolBindings &bindings) {
  switch (expr.kind) {
  case Kind::Integer:
  case Kind::Boolean:
    return integerNumber(expr.value);
  case Kind::Rational:
    return fraction(expr.value, expr.denominator);
  case Kind::Float:
    return realNumber(expr.real);
  case Kind::Symbol: {
    auto it = bindings.find(expr.symbol);
    if (it == bindings.end())
      return inputError("symbolic size '" + expr.symbol + "' has no value");
    return integerNumber(it->second);
  }
  default:
    break;
  }
  std::vector<Number> operands;
  for (const SymExpr &operand : expr.operands) {
    LOCKSTEP_ASSIGN_OR_RETURN(Number value, evaluate(operand, bindings));
    operands.push_back(value);
  }
  bool folds = expr.kind == Kind::Add || expr.kind == Kind::Mul ||
               expr.kind == Kind::Max || expr.kind == Kind::Min ||
               expr.kind == Kind::And || expr.kind == Kind::Or;
  if (!folds)
    return applyFunction(expr.kind, operands);
  Number result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(result,
                              accumulate(expr.kind, result, operands[i]));
  }
  return result;
}

StatusOr<int64_t> pt2::evaluateInteger(const SymExpr &expr,
                                       const SymbolBindings &bindings) {
  LOCKSTEP_ASSIGN_OR_RETURN(Number value, evaluate(expr, bindings));
  if (!value.exact && std::floor(value.inexact) == value.inexact) {
    LOCKSTEP_ASSIGN_OR_RETURN(value, roundNumber(value, false));
  }
  if (!value.isInteger())
    return inputError("symbolic size '" + toString(expr) +
                      "' is not an integer");
  return value.numerator;
}

StatusOr<double> pt2::evaluateReal(const SymExpr &expr,
                                   const SymbolBindings &bindings) {
  LOCKSTEP_ASSIGN_OR_RETURN(Number value, evaluate(expr, bindings));
  return value.real();
}
