//===- Passes.h - From local operations to kernels --------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_PASSES_H
#define LOCKSTEP_COMPILER_FUSE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace lockstep::fuse {

/// The attention that a target has kernels of.
enum class AttentionKernels {
  Library, ///< all
  Tiles,   ///< what plan::suitsAttentionTiles takes
  None,
};

#define GEN_PASS_DECL
#include "compiler/fuse/FusePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/fuse/FusePasses.h.inc"

/// What the stage must know of the target.
struct FusePipelineOptions : mlir::PassPipelineOptions<FusePipelineOptions> {
  Option<bool> gpu{
      *this, "gpu",
      llvm::cl::desc("For GPUs: products stay narrow, tall column sums are cut "
                     "to keep all processors busy, attention without a kernel "
                     "becomes products and softmax"),
      llvm::cl::init(false)};
  Option<bool> epilogues{
      *this, "epilogues",
      llvm::cl::desc("Kernels of bf16 products do pointwise work, too"),
      llvm::cl::init(false)};
  Option<bool> tileAttention{
      *this, "tile-attention",
      llvm::cl::desc("For GPUs: there are kernels of bf16 attention"),
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
