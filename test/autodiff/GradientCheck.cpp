//===- GradientCheck.cpp - A function's gradients two ways
//-----------------===//
#include "test/autodiff/GradientCheck.h"
#include "compiler/autodiff/Registration.h"
#include "compiler/autodiff/ReverseMode.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/Registration.h"
#include "dialects/train/Train.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <random>
#include <stdexcept>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::testing;

MLIRContext &testing::getContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, train::TrainDialect>();
    registerDifferentiableExternalModels(registry);
    registerEvaluableExternalModels(registry);
    auto *made = new MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

static bool isFloat(Type type) {
  return isa<FloatType>(cast<RankedTensorType>(type).getElementType());
}

static std::mt19937_64 &generator() {
  static std::mt19937_64 engine(7);
  return engine;
}

GradientCheck::GradientCheck(const std::string &text)
    : module(parseSourceString<ModuleOp>(text, &getContext())) {
  if (!module)
    throw std::runtime_error("does not parse: " + text);
  function = *module->getOps<func::FuncOp>().begin();
}

std::vector<HostTensor>
GradientCheck::randomArguments(const Domain &domain) const {
  std::vector<HostTensor> arguments;
  std::uniform_real_distribution<double> size(domain.low, domain.high),
      coin(0, 1);
  for (Type type : func::FuncOp(function).getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    std::vector<double> floats(tensor.getNumElements());
    std::vector<int64_t> integers(tensor.getNumElements());
    for (double &x : floats)
      x = size(generator()) *
          (domain.bothSigns && coin(generator()) < 0.5 ? -1 : 1);
    for (int64_t &i : integers)
      i = std::uniform_int_distribution<int64_t>(
          0, tensor.getElementType().isInteger(1) ? 1 : domain.integers - 1)(
          generator());
    arguments.push_back(isFloat(type) ? HostTensor::fromDoubles(tensor, floats)
                                      : HostTensor::fromInts(tensor, integers));
  }
  return arguments;
}

std::vector<HostTensor> GradientCheck::randomCotangents() const {
  std::vector<HostTensor> cotangents;
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (Type type : func::FuncOp(function).getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    std::vector<double> values(tensor.getNumElements());
    for (double &x : values)
      x = uniform(generator());
    cotangents.push_back(isFloat(type) ? HostTensor::fromDoubles(tensor, values)
                                       : HostTensor());
  }
  return cotangents;
}

std::vector<HostTensor> GradientCheck::unitCotangents() const {
  std::vector<HostTensor> cotangents;
  for (Type type : func::FuncOp(function).getResultTypes())
    cotangents.push_back(
        isFloat(type) ? HostTensor::splat(cast<RankedTensorType>(type), 1)
                      : HostTensor());
  return cotangents;
}

/// A function with the same arguments that returns the gradients of the
/// floating-point ones.
func::FuncOp GradientCheck::buildGradientFunction(
    const std::vector<HostTensor> &cotangents) {
  if (Operation *old = module->lookupSymbol("gradient"))
    old->erase();
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto gradient = cast<func::FuncOp>(builder.clone(*function));
  gradient.setName("gradient");
  Operation *terminator = gradient.getBody().front().getTerminator();
  SmallVector<Operation *> operations;
  for (Operation &op : gradient.getBody().front().without_terminator())
    operations.push_back(&op);

  builder.setInsertionPoint(terminator);
  SmallVector<Value> results(terminator->getOperands()), cotangentValues,
      wanted;
  for (const HostTensor &cotangent : cotangents)
    cotangentValues.push_back(
        cotangent ? Value(train::ConstantOp::create(
                        builder, gradient.getLoc(),
                        cast<ElementsAttr>(Attribute(cotangent.toAttr()))))
                  : Value());
  for (Value argument : gradient.getArguments())
    if (isFloat(argument.getType()))
      wanted.push_back(argument);
  FailureOr<SmallVector<Value>> gradients = autodiff::buildReverseMode(
      builder, operations, results, cotangentValues, wanted);
  if (failed(gradients))
    throw std::runtime_error("no gradient");
  for (auto [value, result] : llvm::zip_equal(wanted, *gradients))
    if (!result)
      result = train::ConstantOp::create(
          builder, gradient.getLoc(), cast<RankedTensorType>(value.getType()),
          0.0);
  terminator->setOperands(*gradients);
  gradient.setFunctionType(builder.getFunctionType(
      gradient.getArgumentTypes(), TypeRange(ValueRange(*gradients))));
  gradient.removeResAttrsAttr();
  if (failed(verify(gradient)))
    throw std::runtime_error("the gradient function does not verify");
  return gradient;
}

std::vector<std::vector<double>>
GradientCheck::builtGradients(const std::vector<HostTensor> &arguments,
                              const std::vector<HostTensor> &cotangents) {
  FailureOr<SmallVector<HostTensor>> results =
      interpret(buildGradientFunction(cotangents), arguments);
  if (failed(results))
    throw std::runtime_error("the gradient function does not run");
  std::vector<std::vector<double>> gradients(arguments.size());
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].isFloat())
      gradients[i] = (*results)[next++].toDoubles();
  return gradients;
}

double GradientCheck::evaluate(const std::vector<HostTensor> &arguments,
                               const std::vector<HostTensor> &cotangents) {
  FailureOr<SmallVector<HostTensor>> results = interpret(function, arguments);
  if (failed(results))
    throw std::runtime_error("the function does not run");
  double sum = 0;
  for (auto [result, cotangent] : llvm::zip_equal(*results, cotangents))
    if (cotangent)
      for (auto [x, y] :
           llvm::zip_equal(result.toDoubles(), cotangent.toDoubles()))
        sum += x * y;
  return sum;
}

std::vector<std::vector<double>>
GradientCheck::finiteDifferences(const std::vector<HostTensor> &arguments,
                                 const std::vector<HostTensor> &cotangents) {
  constexpr double step = 1e-5;
  std::vector<std::vector<double>> gradients(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isFloat())
      continue;
    std::vector<double> values = arguments[i].toDoubles();
    for (size_t k = 0; k < values.size(); ++k) {
      auto at = [&](double x) {
        std::vector<double> moved = values;
        moved[k] = x;
        std::vector<HostTensor> all = arguments;
        all[i] = HostTensor::fromDoubles(arguments[i].getType(), moved);
        return evaluate(all, cotangents);
      };
      gradients[i].push_back((at(values[k] + step) - at(values[k] - step)) /
                             (2 * step));
    }
  }
  return gradients;
}

std::set<std::string> GradientCheck::getOperations() {
  std::set<std::string> names;
  function.walk(
      [&](Operation *op) { names.insert(op->getName().getStringRef().str()); });
  return names;
}
