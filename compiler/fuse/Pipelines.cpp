//===- Pipelines.cpp - The fuse stage in order ----------------------------===//
#include "compiler/fuse/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace lockstep;

/// Twice as many as the processors of a large GPU.
static constexpr int64_t kColumnBlocks = 264;

void fuse::buildFusePipeline(OpPassManager &manager,
                             const FusePipelineOptions &options) {
  if (options.epilogues) {
    manager.addPass(createFusePadClassesPass());
    manager.addPass(createCSEPass());
  }
  manager.addPass(createFuseCutLossPass());
  FuseWidenProductsPassOptions widen;
  widen.dots = !options.gpu;
  widen.attention = options.tileAttention;
  manager.addPass(createFuseWidenProductsPass(widen));
  FuseDecomposePassOptions decompose;
  if (options.gpu)
    decompose.attention = options.tileAttention ? AttentionKernels::Tiles
                                                : AttentionKernels::None;
  manager.addPass(createFuseDecomposePass(decompose));
  FuseSplitReductionsPassOptions split;
  split.columnBlocks = options.gpu ? kColumnBlocks : 0;
  manager.addPass(createFuseSplitReductionsPass(split));
  // Decompositions of several operations share masks, converted operands and
  // statistics. Functions have one block, with nothing for the canonicalizer to
  // simplify in its regions.
  OpPassManager &functions = manager.nest<func::FuncOp>();
  functions.addPass(createCanonicalizerPass(
      GreedyRewriteConfig().setRegionSimplificationLevel(
          GreedySimplifyRegionLevel::Disabled)));
  functions.addPass(createCSEPass());
  manager.addPass(createFuseLayoutsPass());
  if (options.epilogues)
    manager.addPass(createFuseEpiloguesPass());
  manager.addPass(createFuseKernelsPass());
  manager.addPass(createFuseVerifyOutputPass());
}

void fuse::registerFuse() {
  registerFusePasses();
  PassPipelineRegistration<FusePipelineOptions>(
      "lockstep-fuse-pipeline", "Fuses local operations into kernels",
      buildFusePipeline);
}
