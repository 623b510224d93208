//===- Pipelines.cpp - The stage precision --------------------------------===//
#include "compiler/precision/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace lockstep {
#define GEN_PASS_REGISTRATION
#include "compiler/precision/Passes.h.inc"
} // namespace lockstep

void lockstep::buildPrecisionPipeline(OpPassManager &manager) {
  manager.addPass(createVerifyFullPrecisionPass());
}

void lockstep::registerPrecisionPasses() {
  registerVerifyFullPrecisionPass();
  PassPipelineRegistration<>("lockstep-precision-pipeline",
                             "Decides element types: full precision",
                             buildPrecisionPipeline);
}
