//===- Passes.h - From kernel calls to programs on memory -------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_PASSES_H
#define LOCKSTEP_COMPILER_SCHEDULE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace lockstep::schedule {

#define GEN_PASS_DECL
#include "compiler/schedule/SchedulePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/schedule/SchedulePasses.h.inc"

struct SchedulePipelineOptions
    : mlir::PassPipelineOptions<SchedulePipelineOptions> {
  Option<int64_t> memoryLimit{
      *this, "memory-limit",
      llvm::cl::desc("Bytes of the arena per rank; 0: no limit"),
      llvm::cl::init(0)};
  Option<bool> gpu{*this, "gpu",
                   llvm::cl::desc("Predict times of a GPU's kernels"),
                   llvm::cl::init(false)};
};

/// Input: functions of plan.call and collectives. Output: plan.program symbols
/// (and the kernels and meshes they use).
void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const SchedulePipelineOptions &options);

/// Registers the passes and `lockstep-schedule-pipeline`.
void registerSchedule();

} // namespace lockstep::schedule

#endif
