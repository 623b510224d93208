// Symbolic sizes in SymPy's notation: parsing, exact evaluation, bounds.
#include "compiler/import/pt2/SymbolicSize.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::pt2;
using Catch::Matchers::Contains;

static const SymbolBindings bindings = {{"s0", 7}, {"s1", 12}, {"u0", 3}};

static int64_t valueOf(const std::string &text) {
  StatusOr<SymExpr> expr = parseSrepr(text);
  INFO(text << ": " << expr.status().toString());
  REQUIRE(expr.ok());
  StatusOr<int64_t> value = evaluateInteger(*expr, bindings);
  INFO(value.status().toString());
  REQUIRE(value.ok());
  return *value;
}

static std::string parseError(const std::string &text) {
  StatusOr<SymExpr> expr = parseSrepr(text);
  return expr.ok() ? "ok" : expr.status().toString();
}

static std::string evaluationError(const std::string &text) {
  StatusOr<SymExpr> expr = parseSrepr(text);
  REQUIRE(expr.ok());
  StatusOr<int64_t> value = evaluateInteger(*expr, bindings);
  return value.ok() ? "ok" : value.status().toString();
}

static const std::string s0 = "Symbol('s0', positive=True, integer=True)";
static const std::string s1 = "Symbol('s1', integer=True)";

TEST_CASE("leaves") {
  CHECK(valueOf("Integer(5)") == 5);
  CHECK(valueOf("Integer(-5)") == -5);
  CHECK(valueOf("12") == 12);
  CHECK(valueOf(s0) == 7);
  CHECK(valueOf("Symbol(\"u0\")") == 3);
  CHECK(valueOf("Float('2.0', precision=53)") == 2);
  CHECK(valueOf("Mul(Rational(1, 2), Integer(8))") == 4);
  CHECK(valueOf("true") == 1);
}

TEST_CASE("functions of SymPy") {
  CHECK(valueOf("Add(Mul(Integer(2), " + s0 + "), Integer(1))") == 15);
  CHECK(valueOf("Mul(Integer(-1)," + s0 + "," + s1 + ")") == -84);
  CHECK(valueOf("Pow(" + s0 + ", Integer(2))") == 49);
  CHECK(valueOf("Mul(Pow(Integer(2), Integer(-1)), " + s1 + ")") == 6);
  CHECK(valueOf("Max(Integer(1), " + s0 + ", Integer(9))") == 9);
  CHECK(valueOf("Min(Integer(1), " + s0 + ")") == 1);
  CHECK(valueOf("Mod(Integer(-7), Integer(3))") == 2);
  CHECK(valueOf("floor(Mul(Rational(1, 2), Integer(-3)))") == -2);
  CHECK(valueOf("ceiling(Mul(Rational(1, 2), Integer(-3)))") == -1);
  CHECK(valueOf("Abs(Integer(-3))") == 3);
  CHECK(valueOf("And(StrictLessThan(" + s0 + ", " + s1 +
                "), Unequality(Integer(1), Integer(2)))") == 1);
  CHECK(valueOf("Or(Equality(Integer(1), Integer(2)), Not(true))") == 0);
  CHECK(valueOf("Add(" + s0 + ", Integer(1), evaluate=False)") == 8);
}

TEST_CASE("functions of PyTorch") {
  CHECK(valueOf("FloorDiv(Integer(-7), Integer(2))") == -4);
  CHECK(valueOf("torch.utils._sympy.functions.FloorDiv(" + s1 +
                ", Integer(5))") == 2);
  CHECK(valueOf("CeilDiv(Integer(7), Integer(2))") == 4);
  CHECK(valueOf("CleanDiv(Integer(8), Integer(2))") == 4);
  CHECK(valueOf("PythonMod(Integer(7), Integer(-2))") == -1);
  CHECK(valueOf("ModularIndexing(Integer(100), Integer(3), Integer(10))") == 3);
  CHECK(valueOf("PowByNatural(" + s0 + ", Integer(3))") == 343);
  CHECK(valueOf("TruncToInt(Float('-2.5', precision=53))") == -2);
  CHECK(valueOf("CeilToInt(IntTrueDiv(Integer(7), Integer(2)))") == 4);
  CHECK(valueOf("RoundToInt(ToFloat(Integer(3)))") == 3);
  CHECK(valueOf("Where(true, Integer(1), Integer(2))") == 1);
  CHECK(valueOf("Identity(" + s0 + ")") == 7);
}

TEST_CASE("printing") {
  CHECK(toString(*parseSrepr("Add(Mul(Integer(2), " + s0 + "), Integer(1))")) ==
        "(2*s0) + 1");
  CHECK(toString(*parseSrepr("Max(Integer(1), FloorDiv(" + s0 +
                             ", Integer(2)))")) == "Max(1, s0//2)");
}

TEST_CASE("evaluation errors") {
  CHECK(evaluationError("Symbol('zz')") == "symbolic size 'zz' has no value");
  CHECK(evaluationError("FloorDiv(" + s0 + ", Integer(0))") ==
        "division by zero in a symbolic size");
  CHECK(evaluationError("Mod(" + s0 + ", Integer(0))") ==
        "division by zero in a symbolic size");
  CHECK(evaluationError("Pow(Integer(0), Integer(-1))") ==
        "division by zero in a symbolic size");
  CHECK_THAT(evaluationError("Pow(Integer(10), Integer(64))"),
             Contains("overflows"));
  CHECK_THAT(evaluationError("Pow(Float('1e300', precision=53), Integer(9))"),
             Contains("overflows"));
  CHECK_THAT(evaluationError("Mul(Integer(9223372036854775807), Integer(2))"),
             Contains("overflows"));
  CHECK_THAT(evaluationError("Rational(1, 2)"), Contains("not an integer"));
}

TEST_CASE("malformed text") {
  for (const char *text : {"",
                           "(",
                           "Integer",
                           "Integer(",
                           "Integer()",
                           "Integer(x)",
                           "Integer(99999999999999999999)",
                           "Integer(1",
                           "Integer(1) x",
                           "Symbol(s0)",
                           "Symbol('s0'",
                           "Symbol('s0",
                           "Symbol('')",
                           "Symbol('s0', positive)",
                           "Symbol('s0', positive=)",
                           "Add()",
                           "Add(,)",
                           "Add(Integer(1),)",
                           "Mod(Integer(1))",
                           "Rational(1)",
                           "Rational(1, 0)",
                           "Float('x')",
                           "__import__('os')",
                           "Add(Integer(1), evaluate=)"})
    CHECK(parseError(text) != "ok");
  CHECK_THAT(parseError("Foo(Integer(1))"),
             Contains("function 'Foo' is not supported"));
  std::string deep;
  for (int i = 0; i < 1000; ++i)
    deep += "Abs(";
  CHECK_THAT(parseError(deep), Contains("nesting deeper"));
  CHECK_THAT(parseError(std::string(100000, 'A')), Contains("too long"));
}
