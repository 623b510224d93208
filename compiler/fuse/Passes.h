//===- Passes.h - From local operations to kernels --------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_PASSES_H
#define LOCKSTEP_COMPILER_FUSE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace lockstep::fuse {

#define GEN_PASS_DECL
#include "compiler/fuse/FusePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/fuse/FusePasses.h.inc"

/// What the stage must know of the target.
struct FusePipelineOptions : mlir::PassPipelineOptions<FusePipelineOptions> {
  Option<bool> gpu{
      *this, "gpu",
      llvm::cl::desc("For GPUs: attention is made of products and softmax, "
                     "tall column sums are cut to keep all processors busy"),
      llvm::cl::init(false)};
  Option<bool> epilogues{
      *this, "epilogues",
      llvm::cl::desc("Kernels of bf16 products do pointwise work, too"),
      llvm::cl::init(false)};
};

/// Input: functions of `train` operations on local shapes and `dist`
/// collectives. Output: plan.kernel symbols, and functions of calls.
void buildFusePipeline(mlir::OpPassManager &manager,
                       const FusePipelineOptions &options);

/// Registers the passes and `lockstep-fuse-pipeline`.
void registerFuse();

} // namespace lockstep::fuse

#endif
