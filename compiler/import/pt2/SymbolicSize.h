// Symbolic sizes. torch.export writes them as SymPy's srepr, for example
//   Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))
// with PyTorch's own functions (FloorDiv, Mod, Max, ...) among SymPy's. They
// are parsed into small trees and evaluated once the symbols are bound.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_SYMBOLICSIZE_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_SYMBOLICSIZE_H

#include "runtime/support/status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::pt2 {

/// Symbol name → value, as `{"s77": 8}`.
using SymbolBindings = std::map<std::string, int64_t, std::less<>>;

struct SymExpr {
  enum class Kind : uint8_t {
    Integer,
    Rational,
    Float,
    Boolean,
    Symbol,
    // Arithmetic.
    Add,
    Mul,
    Pow,
    Max,
    Min,
    Abs,
    FloorDiv, ///< rounds toward minus infinity, as Python's //
    CeilDiv,
    CleanDiv, ///< exact
    IntTrueDiv,
    FloatTrueDiv,
    Mod,             ///< result has the sign of the divisor
    PythonMod,       ///< the same
    ModularIndexing, ///< (a // b) % c
    Floor,
    Ceiling,
    TruncToInt,
    RoundToInt,
    ToFloat,
    Identity,
    // Relations and logic.
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Not,
    Where, ///< (condition, then, else)
  };
  Kind kind = Kind::Integer;
  int64_t value = 0;       ///< Integer, Boolean; numerator of a Rational
  int64_t denominator = 1; ///< Rational
  double real = 0;         ///< Float
  std::string symbol;      ///< Symbol
  std::vector<SymExpr> operands;
};

/// Parses srepr. Length and depth are bounded; unknown functions are errors
/// that name the function.
StatusOr<SymExpr> parseSrepr(std::string_view text);

/// The value in double precision and, exactly, as an integer when it is one.
/// Errors: an unbound symbol (named), division by zero, overflow of 64 bits, a
/// value that is not an integer.
StatusOr<int64_t> evaluateInteger(const SymExpr &expr,
                                  const SymbolBindings &bindings);
StatusOr<double> evaluateReal(const SymExpr &expr,
                              const SymbolBindings &bindings);

/// "2*s0 + 1": for messages.
std::string toString(const SymExpr &expr);

/// A size: a constant, or an expression shared by all its uses.
struct SymInt {
  int64_t value = 0; ///< meaningful when concrete
  struct Symbolic {
    SymExpr expr;
    std::optional<int64_t> hint; ///< the value in the example inputs
  };
  std::shared_ptr<const Symbolic> symbolic;

  bool isConcrete() const { return !symbolic; }
  StatusOr<int64_t> evaluate(const SymbolBindings &bindings) const {
    if (isConcrete())
      return value;
    return evaluateInteger(symbolic->expr, bindings);
  }
};
std::string toString(const SymInt &size);

/// sym_bool_values and sym_float_values: a constant or an expression.
struct SymBool {
  bool value = false;
  std::shared_ptr<const SymExpr> expr;
  bool isConcrete() const { return !expr; }
};
struct SymFloat {
  double value = 0;
  std::shared_ptr<const SymExpr> expr;
  bool isConcrete() const { return !expr; }
};

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_SYMBOLICSIZE_H
