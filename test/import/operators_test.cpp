// Every ATen operator against PyTorch: one small exported graph per case,
// imported, run in the reference interpreter, and differentiated. Values and
// gradients must be those that make_op_cases.py recorded.
#include "compiler/autodiff/ReverseMode.h"
#include "compiler/driver/Registration.h"
#include "compiler/import/Import.h"
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Weights.h"
#include "compiler/reference/Feeds.h"
#include "compiler/reference/Interpreter.h"
#include "dialects/train/Train.h"
#include "mlir/IR/Diagnostics.h"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace mlir;
using namespace lockstep;

namespace {
class OperatorCase {
public:
  OperatorCase(MLIRContext &context, const std::string &stem)
      : context(context), stem(stem) {}

  /// "" when values and gradients agree.
  std::string run() {
    std::string diagnostics;
    ScopedDiagnosticHandler handler(
        &context, [&](Diagnostic &d) { diagnostics += d.str() + "\n"; });
    std::string problem = runSteps();
    return problem.empty()
               ? ""
               : problem + (diagnostics.empty() ? "" : ": " + diagnostics);
  }

private:
  std::string runSteps() {
    auto file = pt2::readPt2(stem + ".pt2");
    if (!file.ok())
      return file.status().toString();
    auto store = pt2::buildWeightStore(*file, {});
    if (!store.ok())
      return store.status().toString();
    auto feeds = readFeeds(stem + ".safetensors", &context);
    if (!feeds.ok())
      return feeds.status().toString();
    record = std::move(*feeds);
    auto imported = importProgram(context, file->program, {}, *store);
    if (failed(imported))
      return "not imported";
    function = (*imported)->lookupSymbol<func::FuncOp>("forward");
    if (function
            .walk([](train::DotGeneralOp dot) {
              return WalkResult(success(
                  isa<FloatType>(dot.getLhs().getType().getElementType())));
            })
            .wasInterrupted())
      return "has a product of integers, which no target computes";
    if (std::string problem = collectArguments(*store); !problem.empty())
      return problem;
    if (std::string problem = compareValues(); !problem.empty())
      return problem;
    return compareGradients();
  }

  bool isHalf() const {
    return std::filesystem::path(stem).filename() == "half";
  }

  train::Role roleOf(DictionaryAttr attributes) {
    return attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr)
        .getValue();
  }

  std::string collectArguments(const WeightStore &store) {
    for (unsigned i = 0, input = 0; i < function.getNumArguments(); ++i) {
      auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
      DictionaryAttr attributes = function.getArgAttrDict(i);
      if (roleOf(attributes) == train::Role::Input) {
        auto found = record.find("in.x" + std::to_string(input));
        if (found == record.end())
          return "no value of input " + std::to_string(input);
        inputs.push_back({i, "x" + std::to_string(input++)});
        arguments.push_back(found->second.reshape(type.getShape()));
        continue;
      }
      const WeightEntry *entry = store.find(
          attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr)
              .getValue()
              .str());
      auto bytes =
          entry ? store.load(*entry)
                : StatusOr<WeightBytes>(inputError("no value of an argument"));
      if (!bytes.ok())
        return bytes.status().toString();
      arguments.push_back(
          HostTensor::copy(type, {reinterpret_cast<const char *>(bytes->data),
                                  size_t(bytes->bytes)}));
    }
    return "";
  }

  std::string compare(const std::string &name, const HostTensor &actual,
                      const HostTensor &expected) {
    if (actual.getShape() != expected.getShape())
      return name + " has another shape";
    if (actual.getElementType() != expected.getElementType())
      return name + " has another element type";
    std::vector<double> a = actual.toDoubles(), e = expected.toDoubles();
    double scale = 1e-3;
    for (double value : e)
      if (std::isfinite(value))
        scale = std::max(scale, std::abs(value));
    double tolerance = actual.getElementType().isBF16() || isHalf() ? 1e-2
                       : actual.getElementType().isF16()            ? 2e-3
                       : actual.isFloat()                           ? 3e-5
                                                                    : 0;
    for (size_t i = 0; i < a.size(); ++i) {
      bool same = std::isnan(e[i]) ? std::isnan(a[i])
                                   : a[i] == e[i] || std::abs(a[i] - e[i]) <=
                                                         tolerance * scale;
      if (!same)
        return name + "[" + std::to_string(i) + "] is " + std::to_string(a[i]) +
               ", PyTorch's is " + std::to_string(e[i]);
    }
    return "";
  }

  std::string compareValues() {
    FailureOr<SmallVector<HostTensor>> results = interpret(function, arguments);
    if (failed(results))
      return "does not run";
    for (unsigned i = 0; i < results->size(); ++i) {
      DictionaryAttr attributes = function.getResultAttrDict(i);
      StringRef name =
          attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr)
              .getValue();
      if (!name.consume_front("output:"))
        continue;
      auto found = record.find("out." + name.str());
      if (found == record.end())
        return "no record of output " + name.str();
      if (std::string problem =
              compare("output " + name.str(), (*results)[i],
                      found->second.reshape((*results)[i].getShape()));
          !problem.empty())
        return problem;
    }
    return "";
  }

  std::string compareGradients() {
    Block &block = function.getBody().front();
    Operation *end = block.getTerminator();
    SmallVector<Value> results, cotangents, wanted;
    SmallVector<std::string> names;
    for (unsigned i = 0; i < end->getNumOperands(); ++i) {
      StringRef name = function.getResultAttrDict(i)
                           .getAs<StringAttr>(train::TrainDialect::kNameAttr)
                           .getValue();
      auto found = name.consume_front("output:")
                       ? record.find("cot." + name.str())
                       : record.end();
      if (found == record.end())
        continue;
      results.push_back(end->getOperand(i));
      cotangents.push_back(
          block.addArgument(end->getOperand(i).getType(), end->getLoc()));
      arguments.push_back(found->second.reshape(
          cast<RankedTensorType>(end->getOperand(i).getType()).getShape()));
    }
    for (auto &[position, name] : inputs)
      if (record.count("grad." + name)) {
        wanted.push_back(block.getArgument(position));
        names.push_back(name);
      }
    if (wanted.empty())
      return "";
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    OpBuilder builder(end);
    auto gradients = autodiff::buildReverseMode(builder, operations, results,
                                                cotangents, wanted);
    if (failed(gradients))
      return "no derivative";
    SmallVector<Value> returned;
    SmallVector<HostTensor> expected;
    SmallVector<std::string> returnedNames;
    for (auto [gradient, name] : llvm::zip(*gradients, names)) {
      const HostTensor &wantedGradient = record.at("grad." + name);
      std::vector<double> values = wantedGradient.toDoubles();
      if (!gradient && std::any_of(values.begin(), values.end(),
                                   [](double v) { return v != 0; }))
        return "the gradient of " + name + " is missing";
      if (gradient) {
        returned.push_back(gradient);
        expected.push_back(wantedGradient);
        returnedNames.push_back(name);
      }
    }
    end->setOperands(returned);
    function.setFunctionType(builder.getFunctionType(
        block.getArgumentTypes(), ValueRange(returned).getTypes()));
    function.removeArgAttrsAttr();
    function.removeResAttrsAttr();
    FailureOr<SmallVector<HostTensor>> values = interpret(function, arguments);
    if (failed(values))
      return "the gradient does not run";
    for (unsigned i = 0; i < returned.size(); ++i)
      if (std::string problem =
              compare("gradient of " + returnedNames[i], (*values)[i],
                      expected[i].reshape((*values)[i].getShape()));
          !problem.empty())
        return problem;
    return "";
  }

  MLIRContext &context;
  std::string stem;
  Feeds record;
  func::FuncOp function;
  std::vector<std::pair<unsigned, std::string>> inputs;
  std::vector<HostTensor> arguments;
};
} // namespace

TEST_CASE("operators agree with PyTorch in values and gradients") {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  const char *given = std::getenv("LOCKSTEP_OPERATOR_CASES");
  std::vector<std::string> stems;
  for (const auto &entry : std::filesystem::directory_iterator(
           given ? given : LOCKSTEP_OPERATOR_CASES))
    if (entry.path().extension() == ".pt2")
      stems.push_back(entry.path().parent_path() / entry.path().stem());
  std::sort(stems.begin(), stems.end());
  REQUIRE(stems.size() > 150);
  for (const std::string &stem : stems) {
    std::string problem = OperatorCase(context, stem).run();
    if (!problem.empty())
      FAIL_CHECK(std::filesystem::path(stem).filename().string()
                 << ": " << problem);
  }
  SUCCEED();
}
