// Comparisons, logic, bits, and choices by a condition.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

template <CompareDirection direction> static void lowerCompare(OpCall &op) {
  Type type = op.promote({"self", "other"});
  op.result(op.t.compare(direction, op.operand("self", type),
                         op.operand("other", type)));
}

/// x != 0; a boolean is itself.
static Value truth(Emitter &t, Value x) { return x ? t.convert(x, t.i1()) : x; }

template <typename OpTy> static void lowerLogical(OpCall &op) {
  Value a = truth(op.t, op.tensor("self")), b = truth(op.t, op.tensor("other"));
  op.result(op.t.binary<OpTy>(a, b));
}

static void lowerLogicalNot(OpCall &op) {
  op.result(op.t.logicalNot(truth(op.t, op.tensor("self"))));
}

template <typename OpTy> static void lowerBitwise(OpCall &op) {
  Type type = op.promote({"self", "other"});
  if (isa<FloatType>(type))
    return void(op.t.fail("expected integers or booleans"));
  op.result(
      op.t.binary<OpTy>(op.operand("self", type), op.operand("other", type)));
}

static void lowerBitwiseNot(OpCall &op) {
  Value x = op.tensor("self");
  if (!op.bad() && isFloat(x))
    op.t.fail("expected integers or booleans");
  op.result(op.t.logicalNot(x));
}

static void lowerIsNan(OpCall &op) {
  Value x = op.tensor("self");
  op.result(op.t.compare(CompareDirection::NE, x, x));
}

static void lowerIsInf(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  if (!isFloat(x))
    return op.result(
        op.t.constantInt(shapeOf(x), op.t.i1(), op.base == "isfinite"));
  Value size = op.t.abs(x);
  op.result(op.base == "isfinite"
                ? op.t.lt(size, INFINITY)
                : op.t.compare(CompareDirection::EQ, size, INFINITY));
}

static void lowerIsClose(OpCall &op) {
  double rtol = op.real("rtol", 1e-5), atol = op.real("atol", 1e-8);
  op.ignore({"equal_nan"});
  Value a = op.tensor("self"), b = op.tensor("other");
  if (op.bad())
    return;
  if (!isFloat(a))
    return op.result(op.t.compare(CompareDirection::EQ, a, b));
  op.result(op.t.compare(CompareDirection::LE, op.t.abs(op.t.sub(a, b)),
                         op.t.add(op.t.mul(op.t.abs(b), rtol), atol)));
}

static void lowerWhere(OpCall &op) {
  if (!op.has("self"))
    return op.unsupported(
        "where(condition) alone, whose result's size depends on values");
  Value condition = op.tensor("condition");
  Type type = op.promote({"self", "other"});
  op.result(op.t.select(condition, op.operand("self", type),
                        op.operand("other", type)));
}

static void lowerMaskedFill(OpCall &op) {
  Value x = op.tensor("self"), mask = op.tensor("mask");
  if (op.bad())
    return;
  op.result(op.t.select(mask, op.operand("value", elementOf(x)), x));
}

void addComparisons(OperatorTable &table) {
  constexpr Form pointwise = Form::Pointwise;
  table.add("eq", lowerCompare<CompareDirection::EQ>, pointwise);
  table.add({"ne", "not_equal"}, lowerCompare<CompareDirection::NE>, pointwise);
  table.add({"lt", "less"}, lowerCompare<CompareDirection::LT>, pointwise);
  table.add({"le", "less_equal"}, lowerCompare<CompareDirection::LE>,
            pointwise);
  table.add({"gt", "greater"}, lowerCompare<CompareDirection::GT>, pointwise);
  table.add({"ge", "greater_equal"}, lowerCompare<CompareDirection::GE>,
            pointwise);
  table.add("logical_and", lowerLogical<AndOp>, pointwise);
  table.add("logical_or", lowerLogical<OrOp>, pointwise);
  table.add("logical_xor", lowerLogical<XorOp>, pointwise);
  table.add("logical_not", lowerLogicalNot, pointwise);
  table.add({"bitwise_and", "__and__"}, lowerBitwise<AndOp>, pointwise);
  table.add({"bitwise_or", "__or__"}, lowerBitwise<OrOp>, pointwise);
  table.add({"bitwise_xor", "__xor__"}, lowerBitwise<XorOp>, pointwise);
  table.add({"bitwise_left_shift", "__lshift__"}, lowerBitwise<ShiftLeftOp>,
            pointwise);
  table.add({"bitwise_right_shift", "__rshift__"}, lowerBitwise<ShiftRightOp>,
            pointwise);
  table.add("bitwise_not", lowerBitwiseNot, pointwise);
  table.add("isnan", lowerIsNan, pointwise);
  table.add({"isinf", "isfinite"}, lowerIsInf, pointwise);
  table.add("isclose", lowerIsClose, pointwise);
  table.add("where", lowerWhere, pointwise);
  table.add("masked_fill", lowerMaskedFill, pointwise);
}

} // namespace lockstep::aten
