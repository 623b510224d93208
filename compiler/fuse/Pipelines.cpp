//===- Pipelines.cpp - The fuse stage in order ----------------------------===//
#include "compiler/fuse/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace lockstep;

void fuse::buildFusePipeline(OpPassManager &manager) {
  manager.addPass(createFuseDecomposePass());
  manager.addPass(createFuseSplitReductionsPass());
  // Decompositions of several operations share masks, converted operands and
  // statistics.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createFuseLayoutsPass());
  manager.addPass(createFuseKernelsPass());
  manager.addPass(createFuseVerifyOutputPass());
}

void fuse::registerFuse() {
  registerFusePasses();
  PassPipelineRegistration<>(
      "lockstep-fuse-pipeline", "Fuses local operations into kernels",
      [](OpPassManager &manager) { buildFusePipeline(manager); });
}
