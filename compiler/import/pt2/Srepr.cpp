// Parser and printer of symbolic sizes in SymPy's srepr notation.
#include "compiler/import/pt2/SymbolicSize.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
constexpr size_t maxLength = 1 << 16;
constexpr unsigned maxDepth = 128;
constexpr size_t any = SIZE_MAX;

struct FunctionInfo {
  std::string_view name;
  SymExpr::Kind kind;
  size_t minOperands, maxOperands;
  const char *infix; ///< null: printed as a call
};
using Kind = SymExpr::Kind;
/// SymPy's class names first, then torch.utils._sympy.functions.
const FunctionInfo functions[] = {
    {"Add", Kind::Add, 1, any, " + "},
    {"Mul", Kind::Mul, 1, any, "*"},
    {"Pow", Kind::Pow, 2, 2, "**"},
    {"Max", Kind::Max, 1, any, nullptr},
    {"Min", Kind::Min, 1, any, nullptr},
    {"Abs", Kind::Abs, 1, 1, nullptr},
    {"Mod", Kind::Mod, 2, 2, " % "},
    {"floor", Kind::Floor, 1, 1, nullptr},
    {"ceiling", Kind::Ceiling, 1, 1, nullptr},
    {"Equality", Kind::Equal, 2, 2, " == "},
    {"Unequality", Kind::NotEqual, 2, 2, " != "},
    {"StrictLessThan", Kind::Less, 2, 2, " < "},
    {"LessThan", Kind::LessEqual, 2, 2, " <= "},
    {"StrictGreaterThan", Kind::Greater, 2, 2, " > "},
    {"GreaterThan", Kind::GreaterEqual, 2, 2, " >= "},
    {"And", Kind::And, 1, any, " & "},
    {"Or", Kind::Or, 1, any, " | "},
    {"Not", Kind::Not, 1, 1, nullptr},
    {"FloorDiv", Kind::FloorDiv, 2, 2, "//"},
    {"CeilDiv", Kind::CeilDiv, 2, 2, nullptr},
    {"CleanDiv", Kind::CleanDiv, 2, 2, "/"},
    {"IntTrueDiv", Kind::IntTrueDiv, 2, 2, "/"},
    {"FloatTrueDiv", Kind::FloatTrueDiv, 2, 2, "/"},
    {"PythonMod", Kind::PythonMod, 2, 2, " % "},
    {"ModularIndexing", Kind::ModularIndexing, 3, 3, nullptr},
    {"PowByNatural", Kind::Pow, 2, 2, "**"},
    {"FloatPow", Kind::Pow, 2, 2, "**"},
    {"FloorToInt", Kind::Floor, 1, 1, nullptr},
    {"CeilToInt", Kind::Ceiling, 1, 1, nullptr},
    {"TruncToInt", Kind::TruncToInt, 1, 1, nullptr},
    {"TruncToFloat", Kind::TruncToInt, 1, 1, nullptr},
    {"RoundToInt", Kind::RoundToInt, 1, 1, nullptr},
    {"ToFloat", Kind::ToFloat, 1, 1, nullptr},
    {"Identity", Kind::Identity, 1, 1, nullptr},
    {"Where", Kind::Where, 3, 3, nullptr},
    {"ITE", Kind::Where, 3, 3, nullptr},
};

class SreprParser {
public:
  explicit SreprParser(std::string_view text) : text(text) {}

  StatusOr<SymExpr> parse() {
    LOCKSTEP_ASSIGN_OR_RETURN(SymExpr expr, parseExpr(0));
    skipBlanks();
    if (position != text.size())
      return error("unexpected text after the expression");
    return expr;
  }

private:
  Status error(const std::string &what) const {
    std::string shown(text.substr(0, 80));
    for (char &c : shown)
      if (static_cast<unsigned char>(c) < 0x20)
        c = '?';
    return inputError(what + " at character " + std::to_string(position) +
                      " of symbolic size '" + shown + "'");
  }
  void skipBlanks() {
    while (position < text.size() && text[position] == ' ')
      ++position;
  }
  bool consume(char c) {
    skipBlanks();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }
  std::string_view identifier() {
    skipBlanks();
    size_t begin = position;
    while (position < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[position])) ||
            text[position] == '_' || text[position] == '.'))
      ++position;
    return text.substr(begin, position - begin);
  }
  StatusOr<std::string_view> quoted() {
    skipBlanks();
    char quote = position < text.size() ? text[position] : '\0';
    if (quote != '\'' && quote != '"')
      return error("expected a quoted name");
    size_t begin = ++position;
    while (position < text.size() && text[position] != quote)
      ++position;
    if (position == text.size())
      return error("expected a closing quote");
    return text.substr(begin, position++ - begin);
  }
  StatusOr<int64_t> integer() {
    skipBlanks();
    std::string digits;
    if (position < text.size() && text[position] == '-')
      digits += text[position++];
    while (position < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[position])))
      digits += text[position++];
    errno = 0;
    int64_t value = std::strtoll(digits.c_str(), nullptr, 10);
    if (digits.empty() || digits == "-" || errno == ERANGE)
      return error("expected an integer of 64 bits");
    return value;
  }
  /// Skips ", name=value" assumptions up to the closing parenthesis.
  Status closeWithAssumptions() {
    while (consume(',')) {
      std::string_view name = identifier();
      if (name.empty() || !consume('='))
        return error("expected an assumption");
      if (identifier().empty())
        return error("expected the value of assumption '" + std::string(name) +
                     "'");
    }
    if (!consume(')'))
      return error("expected ')'");
    return Status::success();
  }

  StatusOr<SymExpr> parseLeaf(std::string_view name) {
    SymExpr expr;
    if (name == "Integer" || name == "Rational") {
      expr.kind = name == "Integer" ? Kind::Integer : Kind::Rational;
      LOCKSTEP_ASSIGN_OR_RETURN(expr.value, integer());
      if (expr.kind == Kind::Rational) {
        if (!consume(','))
          return error("expected a denominator");
        LOCKSTEP_ASSIGN_OR_RETURN(expr.denominator, integer());
        if (expr.denominator <= 0)
          return error("expected a positive denominator");
      }
    } else if (name == "Float") {
      expr.kind = Kind::Float;
      LOCKSTEP_ASSIGN_OR_RETURN(std::string_view digits, quoted());
      std::string copy(digits);
      char *end = nullptr;
      expr.real = std::strtod(copy.c_str(), &end);
      if (copy.empty() || *end)
        return error("expected a number");
    } else { // Symbol, Dummy
      expr.kind = Kind::Symbol;
      LOCKSTEP_ASSIGN_OR_RETURN(std::string_view symbol, quoted());
      if (symbol.empty())
        return error("expected a symbol's name");
      expr.symbol = std::string(symbol);
    }
    LOCKSTEP_RETURN_IF_ERROR(closeWithAssumptions());
    return expr;
  }

  StatusOr<SymExpr> parseExpr(unsigned depth) {
    if (depth > maxDepth)
      return error("nesting deeper than " + std::to_string(maxDepth));
    skipBlanks();
    SymExpr expr;
    if (position < text.size() &&
        (text[position] == '-' ||
         std::isdigit(static_cast<unsigned char>(text[position])))) {
      LOCKSTEP_ASSIGN_OR_RETURN(expr.value, integer());
      return expr;
    }
    std::string_view name = identifier();
    // A class may come with its module in front.
    if (size_t dot = name.rfind('.'); dot != std::string_view::npos)
      name.remove_prefix(dot + 1);
    if (name.empty())
      return error("expected an expression");
    if (name == "true" || name == "false" || name == "True" ||
        name == "False") {
      expr.kind = Kind::Boolean;
      expr.value = name == "true" || name == "True";
      return expr;
    }
    if (!consume('('))
      return error("expected '(' after '" + std::string(name.substr(0, 40)) +
                   "'");
    if (name == "Integer" || name == "Rational" || name == "Float" ||
        name == "Symbol" || name == "Dummy")
      return parseLeaf(name);
    return parseCall(name, depth);
  }

  StatusOr<SymExpr> parseCall(std::string_view name, unsigned depth) {
    const FunctionInfo *function = nullptr;
    for (const FunctionInfo &candidate : functions)
      if (candidate.name == name)
        function = &candidate;
    if (!function)
      return error("function '" + std::string(name.substr(0, 40)) +
                   "' is not supported");
    SymExpr expr;
    expr.kind = function->kind;
    if (!consume(')')) {
      do {
        // Keyword arguments such as evaluate=False come last.
        size_t before = position;
        if (!identifier().empty() && consume('=')) {
          if (identifier().empty())
            return error("expected a keyword's value");
          continue;
        }
        position = before;
        LOCKSTEP_ASSIGN_OR_RETURN(SymExpr operand, parseExpr(depth + 1));
        expr.operands.push_back(std::move(operand));
      } while (consume(','));
      if (!consume(')'))
        return error("expected ')'");
    }
    if (expr.operands.size() < function->minOperands ||
        expr.operands.size() > function->maxOperands)
      return error("wrong number of operands of '" + std::string(name) + "'");
    return expr;
  }

  std::string_view text;
  size_t position = 0;
};
} // namespace

StatusOr<SymExpr> pt2::parseSrepr(std::string_view text) {
  if (text.size() > maxLength)
    return inputError("symbolic size of " + std::to_string(text.size()) +
                      " characters is too long");
  return SreprParser(text).parse();
}

std::string pt2::toString(const SymExpr &expr) {
  switch (expr.kind) {
  case Kind::Integer:
    return std::to_string(expr.value);
  case Kind::Boolean:
    return expr.value ? "true" : "false";
  case Kind::Rational:
    return std::to_string(expr.value) + "/" + std::to_string(expr.denominator);
  case Kind::Float:
    return std::to_string(expr.real);
  case Kind::Symbol:
    return expr.symbol;
  default:
    break;
  }
  const FunctionInfo *function = nullptr;
  for (const FunctionInfo &candidate : functions)
    if (!function && candidate.kind == expr.kind)
      function = &candidate;
  std::string result;
  for (const SymExpr &operand : expr.operands) {
    std::string text = toString(operand);
    if (function->infix && !operand.operands.empty())
      text = "(" + text + ")";
    if (!result.empty())
      result += function->infix ? function->infix : ", ";
    result += text;
  }
  if (function->infix)
    return result;
  return std::string(function->name) + "(" + result + ")";
}

std::string pt2::toString(const SymInt &size) {
  return size.isConcrete() ? std::to_string(size.value)
                           : toString(size.symbolic->expr);
}
