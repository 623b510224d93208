//===- Pipelines.cpp - The stage precision --------------------------------===//
#include "compiler/precision/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace lockstep {
#define GEN_PASS_REGISTRATION
#include "compiler/precision/Passes.h.inc"
} // namespace lockstep

void lockstep::buildPrecisionPipeline(OpPassManager &manager,
                                      const PrecisionOptions &options) {
  manager.addPass(createVerifyFullPrecisionPass());
  if (options.policy != "bf16-mixed")
    return;
  manager.addNestedPass<func::FuncOp>(createNarrowProductsPass());
  buildJoinConversions(manager);
}

void lockstep::buildJoinConversions(OpPassManager &manager) {
  manager.addNestedPass<func::FuncOp>(createJoinConversionsPass());
  manager.addNestedPass<func::FuncOp>(createCSEPass());
}

void lockstep::registerPrecisionPasses() {
  registerVerifyFullPrecisionPass();
  registerNarrowProductsPass();
  registerJoinConversionsPass();
  PassPipelineRegistration<PrecisionOptions>(
      "lockstep-precision-pipeline",
      "Decides element types: full precision, or bf16 products",
      buildPrecisionPipeline);
}
