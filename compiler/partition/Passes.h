//===- Passes.h - The stage partition ---------------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_PARTITION_PASSES_H
#define LOCKSTEP_COMPILER_PARTITION_PASSES_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace lockstep {
namespace partition {

#define GEN_PASS_DECL
#include "compiler/partition/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/partition/Passes.h.inc"

} // namespace partition

struct PartitionPipelineOptions
    : mlir::PassPipelineOptions<PartitionPipelineOptions> {
  Option<int64_t> ranks{*this, "ranks", llvm::cl::desc("Ranks to compile for"),
                        llvm::cl::init(1)};
  Option<std::string> topology{
      *this, "topology",
      llvm::cl::desc("Topology file; empty: one box of CPU ranks")};
};

/// From the step with global shapes to local shapes with collectives: strategy,
/// propagation, localization, buckets.
void buildPartitionPipeline(mlir::OpPassManager &manager,
                            const PartitionPipelineOptions &options);

/// Registers the passes and `lockstep-partition-pipeline`.
void registerPartitionPasses();

} // namespace lockstep

#endif
