//===- Pipelines.cpp - The schedule stage in order ------------------------===//
#include "compiler/schedule/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace lockstep;

void schedule::buildSchedulePipeline(OpPassManager &manager,
                                     const SchedulePipelineOptions &options) {
  // Where the plan would be larger than the limit.
  manager.addPass(
      createScheduleRecomputePass({options.memoryLimit, options.gpu}));
  manager.addPass(createScheduleProgramsPass({options.memoryLimit}));
  // A plan that could deadlock does not compile.
  manager.addPass(createScheduleVerifyCollectiveOrderPass());
  manager.addPass(createScheduleVerifyOutputPass());
}

void schedule::registerSchedule() {
  registerSchedulePasses();
  PassPipelineRegistration<SchedulePipelineOptions>(
      "lockstep-schedule-pipeline",
      "Orders kernel calls and places values in the arena",
      buildSchedulePipeline);
}
