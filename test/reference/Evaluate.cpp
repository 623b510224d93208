//===- Evaluate.cpp - Runs one operation in a test
//--------------------------------===//
#include "test/reference/Evaluate.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/Registration.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "dialects/train/Train.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace lockstep::test {

static MLIRContext *getContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, train::TrainDialect, dist::DistDialect,
                    plan::PlanDialect>();
    registerEvaluableExternalModels(registry);
    auto *context = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
    return context;
  }();
  return context;
}

static HostTensor toHost(const Tensor &tensor) {
  auto type = cast<RankedTensorType>(parseType(tensor.type, getContext()));
  if (isa<FloatType>(type.getElementType()))
    return HostTensor::fromDoubles(type, tensor.values);
  std::vector<int64_t> values(tensor.values.begin(), tensor.values.end());
  return HostTensor::fromInts(type, values);
}

static Tensor fromHost(const HostTensor &tensor) {
  Tensor result;
  llvm::raw_string_ostream(result.type) << tensor.getType();
  result.values = tensor.toDoubles();
  return result;
}

/// @f with the operands as arguments, returning the results of the body's last
/// operation.
static OwningOpRef<ModuleOp>
buildFunction(const std::string &body, const std::vector<Tensor> &operands) {
  std::string text = "func.func @f(";
  for (size_t i = 0; i < operands.size(); ++i)
    text += (i ? ", %" : "%") + std::string(1, char('a' + i)) + ": " +
            operands[i].type;
  text += ") {\n" + body + "\nreturn\n}\n";
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, getContext());
  if (!module)
    return module;
  auto function = *module->getOps<func::FuncOp>().begin();
  Operation *terminator = function.getBody().front().getTerminator();
  Operation *last = terminator->getPrevNode();
  terminator->setOperands(last->getResults());
  function.setFunctionType(FunctionType::get(
      getContext(), function.getArgumentTypes(), last->getResultTypes()));
  return module;
}

static std::vector<Tensor> run(ModuleOp module,
                               const std::vector<Tensor> &operands) {
  auto function = *module.getOps<func::FuncOp>().begin();
  SmallVector<HostTensor> arguments;
  for (const Tensor &operand : operands)
    arguments.push_back(toHost(operand));
  FailureOr<SmallVector<HostTensor>> results = interpret(function, arguments);
  std::vector<Tensor> tensors;
  if (succeeded(results))
    for (const HostTensor &result : *results)
      tensors.push_back(fromHost(result));
  return tensors;
}

std::vector<Tensor> evaluate(const std::string &body,
                             const std::vector<Tensor> &operands) {
  OwningOpRef<ModuleOp> module = buildFunction(body, operands);
  return module ? run(*module, operands) : std::vector<Tensor>();
}

std::vector<Tensor> evaluateDecomposed(const std::string &body,
                                       const std::vector<Tensor> &operands) {
  OwningOpRef<ModuleOp> module = buildFunction(body, operands);
  if (!module)
    return {};
  SmallVector<Operation *> composites;
  module->walk(
      [&](train::DecomposableOpInterface op) { composites.push_back(op); });
  for (Operation *op : composites) {
    OpBuilder builder(op);
    SmallVector<Value> results =
        cast<train::DecomposableOpInterface>(op).decompose(builder);
    if (results.size() != op->getNumResults())
      return {};
    for (auto [old, value] : llvm::zip_equal(op->getResults(), results)) {
      if (value ? value.getType() != old.getType() : !old.use_empty())
        return {};
      if (value)
        old.replaceAllUsesWith(value);
    }
    op->erase();
  }
  WalkResult left = module->walk(
      [](train::DecomposableOpInterface) { return WalkResult::interrupt(); });
  if (left.wasInterrupted() || failed(verify(*module)))
    return {};
  return run(*module, operands);
}

std::vector<std::vector<Tensor>>
runRanks(const std::string &text, int64_t ranks,
         const std::vector<std::vector<Tensor>> &arguments) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, getContext());
  if (!module)
    return {};
  SmallVector<RankTensors> inputs;
  for (const std::vector<Tensor> &argument : arguments) {
    inputs.emplace_back();
    for (const Tensor &tensor : argument)
      inputs.back().push_back(toHost(tensor));
  }
  FailureOr<SmallVector<RankTensors>> results =
      interpretRanks(module->lookupSymbol<func::FuncOp>("main"), ranks, inputs);
  std::vector<std::vector<Tensor>> outputs;
  if (succeeded(results))
    for (const RankTensors &result : *results) {
      outputs.emplace_back();
      for (const HostTensor &tensor : result)
        outputs.back().push_back(fromHost(tensor));
    }
  return outputs;
}

} // namespace lockstep::test
