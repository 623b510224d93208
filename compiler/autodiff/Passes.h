//===- Passes.h - The stage autodiff ----------------------------*- C++ -*-===//
//
// @forward becomes @step and @eval. The stage's options are those of its one
// big pass (Passes.td), so that lockstep-opt and the driver name them alike.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_PASSES_H
#define LOCKSTEP_COMPILER_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"

namespace lockstep {

#define GEN_PASS_DECL
#include "compiler/autodiff/Passes.h.inc"

/// Loss, optimizer, schedule, accumulation.
using StepOptions = BuildStepPassOptions;

/// Builds step and eval, cleans up, checks the result.
void buildAutodiffPipeline(mlir::OpPassManager &pm, const StepOptions &options);

/// Registers the passes and `lockstep-autodiff-pipeline` (with the options of
/// lockstep-autodiff-build-step).
void registerAutodiffPasses();

} // namespace lockstep

#endif
