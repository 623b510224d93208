//===- Passes.h - The stage precision ---------------------------*- C++ -*-===//
//
// Decides in which element types the program computes, between import (which
// keeps the graph's) and autodiff (which derives gradients in the types it
// finds).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_PRECISION_PASSES_H
#define LOCKSTEP_COMPILER_PRECISION_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace lockstep {

#define GEN_PASS_DECL
#include "compiler/precision/Passes.h.inc"

struct PrecisionOptions : mlir::PassPipelineOptions<PrecisionOptions> {
  Option<std::string> policy{
      *this, "policy", llvm::cl::init("f32"),
      llvm::cl::desc("f32: all of it; bf16-mixed: products in bf16")};
};

/// Checks that the graph computes in f32, then applies the policy.
void buildPrecisionPipeline(mlir::OpPassManager &manager,
                            const PrecisionOptions &options);
/// Brings conversions that autodiff added to where they cost least.
void buildJoinConversions(mlir::OpPassManager &manager);

/// Registers the passes and `lockstep-precision-pipeline`.
void registerPrecisionPasses();

} // namespace lockstep

#endif
