//===- Pipeline.cpp - The stage partition ---------------------------------===//
#include "compiler/partition/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace lockstep;

void lockstep::buildPartitionPipeline(OpPassManager &manager,
                                      const PartitionPipelineOptions &options) {
  // The strategy says how arguments and results are divided, and nothing else.
  manager.addPass(partition::createDataParallelPass({options.ranks}));
  // Every operation follows from there.
  manager.addPass(partition::createPropagatePass());
  manager.addPass(partition::createLocalizePass());
  // Equal collectives become one; what expansion left behind unused goes. One
  // rank has no collectives, and nothing of it is expanded.
  if (options.ranks > 1) {
    manager.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    manager.addNestedPass<func::FuncOp>(createCSEPass());
  }
  // Last, since only now it is known what is reduced and when.
  partition::BucketPassOptions bucket;
  bucket.topology = options.topology;
  manager.addPass(partition::createBucketPass(bucket));
  manager.addPass(partition::createVerifyPartitionOutputPass());
}

void lockstep::registerPartitionPasses() {
  partition::registerPartitionPasses();
  PassPipelineRegistration<PartitionPipelineOptions>(
      "lockstep-partition-pipeline",
      "Divides the step over ranks: local shapes and collectives",
      buildPartitionPipeline);
}
