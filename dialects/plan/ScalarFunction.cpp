//===- ScalarFunction.cpp - Pointwise work as a function ------------------===//
#include "dialects/plan/ScalarFunction.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

static std::optional<double> getSplat(train::ConstantOp constant) {
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getSplatValue<APInt>().getSExtValue();
}

static double compare(train::CompareDirection direction, double x, double y) {
  switch (direction) {
  case train::CompareDirection::EQ:
    return x == y;
  case train::CompareDirection::NE:
    return x != y;
  case train::CompareDirection::LT:
    return x < y;
  case train::CompareDirection::LE:
    return x <= y;
  case train::CompareDirection::GT:
    return x > y;
  case train::CompareDirection::GE:
    return x >= y;
  }
  llvm_unreachable("all directions are handled");
}

using Numbers = llvm::ArrayRef<double>;

static std::optional<double> evaluate(Operation *op, Numbers x) {
  using Result = std::optional<double>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<train::ReshapeOp, train::ConvertOp, train::StopGradientOp,
            train::BroadcastInDimOp>([&](auto) { return x[0]; })
      .Case([&](train::NegateOp) { return -x[0]; })
      .Case([&](train::AbsOp) { return std::abs(x[0]); })
      .Case([&](train::SignOp) { return double((x[0] > 0) - (x[0] < 0)); })
      .Case([&](train::ExponentialOp) { return std::exp(x[0]); })
      .Case([&](train::TanhOp) { return std::tanh(x[0]); })
      .Case([&](train::LogisticOp) { return 1 / (1 + std::exp(-x[0])); })
      .Case([&](train::ErfOp) { return std::erf(x[0]); })
      .Case([&](train::SqrtOp) { return std::sqrt(x[0]); })
      .Case([&](train::RsqrtOp) { return 1 / std::sqrt(x[0]); })
      .Case([&](train::AddOp) { return x[0] + x[1]; })
      .Case([&](train::SubtractOp) { return x[0] - x[1]; })
      .Case([&](train::MultiplyOp) { return x[0] * x[1]; })
      .Case([&](train::DivideOp) { return x[0] / x[1]; })
      .Case([&](train::PowerOp) { return std::pow(x[0], x[1]); })
      .Case([&](train::MaximumOp) { return std::max(x[0], x[1]); })
      .Case([&](train::MinimumOp) { return std::min(x[0], x[1]); })
      .Case([&](train::CompareOp compared) {
        return compare(compared.getDirection(), x[0], x[1]);
      })
      .Case([&](train::SelectOp) { return x[0] != 0 ? x[1] : x[2]; })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<double> plan::evaluateElement(Value value,
                                            llvm::DenseMap<Value, double> &at) {
  if (auto known = at.find(value); known != at.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return std::nullopt;
  std::optional<double> result;
  if (auto constant = dyn_cast<train::ConstantOp>(op)) {
    result = getSplat(constant);
  } else {
    // Broadcasts keep the elements' places only where all elements are equal.
    if (isa<train::BroadcastInDimOp>(op) &&
        !op->getOperand(0).getDefiningOp<train::ConstantOp>())
      return std::nullopt;
    llvm::SmallVector<double, 3> operands;
    for (Value operand : op->getOperands()) {
      std::optional<double> number = evaluateElement(operand, at);
      if (!number)
        return std::nullopt;
      operands.push_back(*number);
    }
    result = evaluate(op, operands);
  }
  if (result)
    at[value] = *result;
  return result;
}
