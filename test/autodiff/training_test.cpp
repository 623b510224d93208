//===- training_test.cpp - @step trains every model as PyTorch does
//--------===//
//
// Imports the exported models, builds @step with the recorded recipe, and runs
// it in the reference interpreter for the first steps, feeding new parameters,
// state and buffers back as the runtime does. Losses and gradient norms must be
// PyTorch's. So import, derivatives, loss, optimizer and interpreter are right
// together, before any other stage touches the program.
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/Passes.h"
#include "compiler/driver/Registration.h"
#include "compiler/import/Import.h"
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Weights.h"
#include "compiler/reference/Feeds.h"
#include "dialects/train/StepAttributes.h"
#include "dialects/train/Train.h"
#include "mlir/Pass/PassManager.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace lockstep;
using Json = nlohmann::json;

static const std::string kModels = LOCKSTEP_SOURCE_DIR "/test/models/";

namespace {

class Training {
public:
  Training(const std::string &file, const std::string &record,
           const std::string &batches, int64_t accumulationSteps)
      : context(makeRegistry()),
        recipe(
            Json::parse(std::ifstream(kModels + record + ".expected.json"))) {
    context.loadAllAvailableDialects();
    importModel(kModels + file);
    buildStep(accumulationSteps);
    auto feeds =
        readFeeds(kModels + batches + ".batches.safetensors", &context);
    if (!feeds.ok())
      throw std::runtime_error(feeds.status().toString());
    data = std::move(*feeds);
  }

  /// Loss and gradient norm.
  std::pair<double, double> run(int64_t number, int64_t accumulationSteps) {
    SmallVector<HostTensor> arguments;
    for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
      arguments.push_back(argument(i, number, accumulationSteps));
    FailureOr<SmallVector<HostTensor>> results = interpret(step, arguments);
    if (failed(results))
      throw std::runtime_error("the step does not run");
    std::pair<double, double> metrics;
    for (unsigned i = 0, e = step.getNumResults(); i < e; ++i) {
      std::string key = keyOf(step.getResultAttrDict(i));
      if (key == "metric:loss")
        metrics.first = (*results)[i].getDouble(0);
      else if (key == "metric:grad_norm")
        metrics.second = (*results)[i].getDouble(0);
      else
        kept[key] = (*results)[i];
    }
    return metrics;
  }

  const Json &getRecipe() const { return recipe; }

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  void importModel(const std::string &path) {
    auto file = pt2::readPt2(path);
    if (!file.ok())
      throw std::runtime_error(file.status().toString());
    auto store = pt2::buildWeightStore(*file, {});
    if (!store.ok())
      throw std::runtime_error(store.status().toString());
    weights = std::move(*store);
    auto imported = importProgram(context, file->program, {}, weights);
    if (failed(imported))
      throw std::runtime_error("not imported: " + path);
    module = std::move(*imported);
  }

  void buildStep(int64_t accumulationSteps) {
    const Json &optimizer = recipe["optimizer"];
    StepOptions options;
    options.loss = recipe["loss"];
    options.labels = recipe.value("target", "labels");
    options.labelSmoothing = recipe.value("label_smoothing", 0.0);
    options.optimizer = optimizer["kind"];
    options.lr = optimizer["lr"];
    options.weightDecay = optimizer["weight_decay"];
    options.momentum = optimizer.value("momentum", 0.0);
    options.nesterov = optimizer.value("nesterov", false);
    if (optimizer.contains("betas")) {
      options.beta1 = optimizer["betas"][0];
      options.beta2 = optimizer["betas"][1];
      options.eps = optimizer["eps"];
    }
    if (recipe.contains("no_decay"))
      options.weightDecayExclude = {recipe["no_decay"]};
    options.gradClip = recipe.value("grad_clip", 0.0);
    options.accumulationSteps = accumulationSteps;
    PassManager passes(&context);
    buildAutodiffPipeline(passes, options);
    if (failed(passes.run(*module)))
      throw std::runtime_error("no step");
    step = module->lookupSymbol<func::FuncOp>(train::kStepName);
  }

  static std::string keyOf(DictionaryAttr attributes) {
    auto role =
        attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr)
            .getValue();
    return (train::stringifyRole(role) + ":" + nameOf(attributes)).str();
  }
  static StringRef nameOf(DictionaryAttr attributes) {
    return attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr)
        .getValue();
  }

  HostTensor argument(unsigned i, int64_t number, int64_t accumulationSteps) {
    DictionaryAttr attributes = step.getArgAttrDict(i);
    auto type = cast<RankedTensorType>(step.getArgumentTypes()[i]);
    if (auto found = kept.find(keyOf(attributes)); found != kept.end())
      return found->second;
    switch (attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr)
                .getValue()) {
    case train::Role::Parameter:
    case train::Role::Buffer:
      return initial(nameOf(attributes).str(), type);
    case train::Role::State:
      return HostTensor::splat(type, 0);
    case train::Role::Rng:
      return HostTensor::fromInts(type, {0, number * accumulationSteps});
    case train::Role::Hyperparameter:
      return HostTensor::splat(
          type, hyperparameter(nameOf(attributes), attributes, number));
    default:
      return data
          .at("step" + std::to_string(number) + "." + nameOf(attributes).str())
          .reshape(type.getShape());
    }
  }

  HostTensor initial(const std::string &name, RankedTensorType type) {
    const WeightEntry *entry = weights.find(name);
    if (!entry)
      throw std::runtime_error("no value of " + name);
    auto bytes = weights.load(*entry);
    if (!bytes.ok())
      throw std::runtime_error(bytes.status().toString());
    return HostTensor::copy(type, {reinterpret_cast<const char *>(bytes->data),
                                   size_t(bytes->bytes)});
  }

  double hyperparameter(StringRef name, DictionaryAttr attributes,
                        int64_t number) {
    if (name == "lr")
      return recipe["f32"]["learning_rates"][number];
    if (name == "bias_correction1")
      return 1 - std::pow(recipe["optimizer"]["betas"][0].get<double>(),
                          number + 1);
    if (name == "bias_correction2")
      return 1 - std::pow(recipe["optimizer"]["betas"][1].get<double>(),
                          number + 1);
    return attributes.getAs<FloatAttr>(train::kDefaultAttr).getValueAsDouble();
  }

  MLIRContext context;
  Json recipe;
  WeightStore weights;
  OwningOpRef<ModuleOp> module;
  func::FuncOp step;
  Feeds data;
  /// New parameters, state and buffers of the last step, by role and name.
  std::map<std::string, HostTensor> kept;
};

} // namespace

static void check(const std::string &file, const std::string &record,
                  const std::string &batches, int64_t accumulationSteps = 1) {
  INFO(file << ", accumulation " << accumulationSteps);
  Training training(file, record, batches, accumulationSteps);
  const Json &expected = training.getRecipe()["f32"];
  for (int64_t number = 0; number < 3; ++number) {
    auto [loss, norm] = training.run(number, accumulationSteps);
    INFO("step " << number);
    CHECK(loss ==
          Approx(expected["losses"][number].get<double>()).epsilon(1e-5));
    CHECK(norm ==
          Approx(expected["grad_norms"][number].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("mlp") {
  check("mlp.pt2", "mlp", "mlp");
  check("mlp.core.pt2", "mlp", "mlp");
  check("mlp.pt2", "mlp", "mlp", 2);
}
TEST_CASE("gpt2") {
  check("gpt2.pt2", "gpt2", "gpt2");
  check("gpt2.pt2", "gpt2", "gpt2", 2);
}
TEST_CASE("gpt2_eager") {
  check("gpt2_eager.pt2", "gpt2_eager", "gpt2");
  check("gpt2_eager.core.pt2", "gpt2_eager", "gpt2");
}
TEST_CASE("gpt2_dynamic") { check("gpt2_dynamic.pt2", "gpt2_dynamic", "gpt2"); }
TEST_CASE("llama") {
  check("llama.pt2", "llama", "llama");
  check("llama.core.pt2", "llama", "llama");
  check("llama.pt2", "llama", "llama", 2);
}
TEST_CASE("bert") {
  check("bert.pt2", "bert", "bert");
  check("bert.core.pt2", "bert", "bert");
  check("bert.pt2", "bert", "bert", 2);
}
TEST_CASE("resnet18") {
  check("resnet18.pt2", "resnet18", "resnet18");
  check("resnet18.core.pt2", "resnet18", "resnet18");
}
TEST_CASE("vit") {
  check("vit.pt2", "vit", "vit");
  check("vit.core.pt2", "vit", "vit");
  check("vit.pt2", "vit", "vit", 2);
}
TEST_CASE("gcn") {
  check("gcn.pt2", "gcn", "gcn");
  check("gcn.core.pt2", "gcn", "gcn");
}
TEST_CASE("moe") {
  check("moe.pt2", "moe", "moe");
  check("moe.core.pt2", "moe", "moe");
  check("moe.pt2", "moe", "moe", 2);
}
