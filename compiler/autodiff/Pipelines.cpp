//===- Pipelines.cpp - The stage autodiff as a pipeline
//--------------------===//
#include "compiler/autodiff/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace lockstep;

namespace {
#define GEN_PASS_REGISTRATION
#include "compiler/autodiff/Passes.h.inc"
} // namespace

/// Everything after the one pass that does the work.
static void addCleanup(OpPassManager &pm) {
  // One pipeline of functions: they go through it side by side.
  OpPassManager &functions = pm.nest<func::FuncOp>();
  // Values of the forward pass that derivatives compute again (masks,
  // broadcasts) become one.
  functions.addPass(createCSEPass());
  // What the forward pass sliced is put together again.
  functions.addPass(createJoinSliceGradientsPass());
  // Zeros, ones and the parts of the graph that the loss does not need go.
  // Functions have one block, whose dead operations the patterns' driver
  // erases: regions need no look of their own.
  functions.addPass(createCanonicalizerPass(
      GreedyRewriteConfig().setRegionSimplificationLevel(
          GreedySimplifyRegionLevel::Disabled)));
  // Folding made more values alike.
  functions.addPass(createCSEPass());
  pm.addPass(createVerifyAutodiffOutputPass());
}

void lockstep::buildAutodiffPipeline(OpPassManager &pm,
                                     const StepOptions &options) {
  pm.addPass(createBuildStepPass(options));
  addCleanup(pm);
}

void lockstep::registerAutodiffPasses() {
  registerBuildStepPass();
  registerJoinSliceGradientsPass();
  registerVerifyAutodiffOutputPass();
  // The pipeline takes the options of the pass that has them all.
  registerPassPipeline(
      "lockstep-autodiff-pipeline",
      "Builds @step and @eval from @forward, and cleans up",
      [](OpPassManager &pm, StringRef options,
         function_ref<LogicalResult(const Twine &)> errorHandler) {
        std::unique_ptr<Pass> buildStep = createBuildStepPass();
        if (failed(buildStep->initializeOptions(options, errorHandler)))
          return failure();
        pm.addPass(std::move(buildStep));
        addCleanup(pm);
        return success();
      },
      [](function_ref<void(const detail::PassOptions &)>) {});
}
