// What import finds in the exported models: roles and names of arguments, tied
// weights, recognised operations, masks folded away. That the numbers are
// PyTorch's is shown by test/autodiff/training_test.cpp and operators_test.cpp.
#include "compiler/driver/Registration.h"
#include "compiler/import/Import.h"
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Weights.h"
#include "dialects/train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include <catch2/catch.hpp>

using namespace mlir;
using namespace lockstep;

namespace {
class Model {
public:
  explicit Model(const std::string &name, const ImportOptions &options = {})
      : context(makeRegistry()) {
    auto file =
        pt2::readPt2(std::string(LOCKSTEP_SOURCE_DIR) + "/test/models/" + name);
    REQUIRE(file.ok());
    auto store = pt2::buildWeightStore(*file, {});
    REQUIRE(store.ok());
    ScopedDiagnosticHandler handler(
        &context, [&](Diagnostic &d) { diagnostics += d.str(); });
    auto imported = importProgram(context, file->program, options, *store);
    if (succeeded(imported)) {
      module = std::move(*imported);
      forward = module->lookupSymbol<func::FuncOp>("forward");
    }
  }

  template <typename OpTy> int64_t count() {
    int64_t found = 0;
    forward.walk([&](OpTy) { ++found; });
    return found;
  }
  int64_t arguments(train::Role role) {
    int64_t found = 0;
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      found += forward
                   .getArgAttrOfType<train::RoleAttr>(
                       i, train::TrainDialect::kRoleAttr)
                   .getValue() == role;
    return found;
  }
  int64_t results(train::Role role) {
    int64_t found = 0;
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      found += forward
                   .getResultAttrOfType<train::RoleAttr>(
                       i, train::TrainDialect::kRoleAttr)
                   .getValue() == role;
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp forward;
  std::string diagnostics;

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }
};
} // namespace

static void checkCausal(const std::string &name) {
  INFO(name);
  Model model(name);
  REQUIRE(model.module);
  CHECK(model.count<train::AttentionOp>() == 2);
  CHECK(model.count<train::SoftmaxOp>() == 0);
  CHECK(model.count<train::CumulativeOp>() == 0);
  model.forward.walk([](train::AttentionOp op) {
    CHECK(op.getCausal());
    CHECK(!op.getMask());
    CHECK(op.getScale().convertToDouble() == Approx(0.25));
  });
}

TEST_CASE("the causal mask of decoders is folded, however the graph says it") {
  checkCausal("gpt2.pt2");
  checkCausal("gpt2_dynamic.pt2");
  checkCausal("gpt2_eager.pt2");
  checkCausal("gpt2_eager.core.pt2");
  checkCausal("llama.pt2");
  checkCausal("llama.core.pt2");
}

TEST_CASE(
    "a padding mask stays a condition, not expanded over heads or queries") {
  for (const char *name : {"bert.pt2", "bert.core.pt2"}) {
    Model model(name);
    REQUIRE(model.module);
    CHECK(model.count<train::AttentionOp>() == 2);
    model.forward.walk([](train::AttentionOp op) {
      REQUIRE(op.getMask());
      auto mask = cast<RankedTensorType>(op.getMask().getType());
      CHECK(mask.getDimSize(0) == 8);
      CHECK(mask.getDimSize(1) == 1);
      CHECK(mask.getDimSize(3) == 32);
      CHECK(mask.getDimSize(2) == 1);
      CHECK(mask.getElementType().isInteger(1));
      CHECK(!op.getCausal());
    });
  }
}

TEST_CASE("sequence numbers of whole sequences are no data") {
  // A window with a mask that stays: nothing of it counts sequences.
  Model model("public/gpt_neo.pt2");
  REQUIRE(model.module);
  CHECK(model.count<train::CumulativeOp>() == 0);
}

TEST_CASE("norms and losses are recognised, keys stay grouped") {
  for (const char *name : {"llama.pt2", "llama.core.pt2"}) {
    Model model(name);
    REQUIRE(model.module);
    CHECK(model.count<train::RmsNormOp>() == 5);
    CHECK(model.count<train::CrossEntropyOp>() == 1);
    CHECK(model.count<train::LabelCountOp>() == 1);
    model.forward.walk([](train::AttentionOp op) {
      CHECK(cast<RankedTensorType>(op.getKey().getType()).getDimSize(1) == 2);
    });
    model.forward.walk([](train::RmsNormOp op) { CHECK(op.getWeight()); });
  }
  Model vit("vit.core.pt2");
  REQUIRE(vit.module);
  CHECK(vit.count<train::AttentionOp>() == 2);
  CHECK(vit.count<train::LayerNormOp>() == 5);
}

TEST_CASE("tied weights are one argument with both names") {
  Model model("gpt2.pt2");
  REQUIRE(model.module);
  CHECK(model.arguments(train::Role::Parameter) == 28);
  auto tied = model.forward.getArgAttrOfType<ArrayAttr>(
      0, train::TrainDialect::kTiedAttr);
  REQUIRE(tied);
  CHECK(tied.size() == 1);
}

TEST_CASE("batch norm's statistics are results, in both forms") {
  for (const char *name : {"resnet18.pt2", "resnet18.core.pt2"}) {
    Model model(name);
    REQUIRE(model.module);
    CHECK(model.count<train::BatchNormOp>() == 21);
    CHECK(model.arguments(train::Role::Buffer) == 63);
    CHECK(model.results(train::Role::Buffer) == 63);
    CHECK(model.results(train::Role::Output) == 1);
  }
}

TEST_CASE("a symbolic batch is bound, a fixed one is not changed") {
  ImportOptions options;
  options.globalBatchSize = 24;
  Model dynamic("gpt2_dynamic.pt2", options);
  REQUIRE(dynamic.module);
  CHECK(cast<RankedTensorType>(dynamic.forward.getResultTypes()[0])
            .getDimSize(0) == 24);
  Model fixed("gpt2.pt2", options);
  CHECK(!fixed.module);
  CHECK(fixed.diagnostics.find("fixed batch of 8") != std::string::npos);
}

TEST_CASE("wrong names of inputs are refused with the right ones") {
  ImportOptions options;
  options.wholeInputs = {"nothing"};
  Model model("bert.pt2", options);
  CHECK(!model.module);
  CHECK(model.diagnostics.find("input_ids, attention_mask") !=
        std::string::npos);
}

TEST_CASE(
    "all unsupported operators are listed at once, with the source line") {
  auto file =
      pt2::readPt2(std::string(LOCKSTEP_SOURCE_DIR) + "/test/models/mlp.pt2");
  REQUIRE(file.ok());
  REQUIRE(file->program.graph.nodes.size() >= 2);
  file->program.graph.nodes[0].target = "torch.ops.aten.frobnicate.default";
  file->program.graph.nodes[1].target = "torch.ops.mine.special.default";
  auto found = findUnsupportedTargets(file->program);
  REQUIRE(found.size() == 2);
  CHECK(found[0].target == "torch.ops.aten.frobnicate.default");
  CHECK(found[0].count == 1);
  CHECK(found[0].place.find(".py:") != std::string::npos);
  CHECK(found[1].target == "torch.ops.mine.special.default");
}

TEST_CASE("the table of operators is large") {
  std::vector<std::string> names = supportedAtenTargets();
  CHECK(names.size() > 400);
  for (const char *name :
       {"aten.add", "aten.scaled_dot_product_attention", "aten.lstm",
        "aten.scatter_reduce", "aten.upsample_bilinear2d"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}
