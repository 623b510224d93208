//===- Passes.h - The stage precision ---------------------------*- C++ -*-===//
//
// Decides in which element types the program computes, between import (which
// keeps the graph's) and autodiff (which derives gradients in the types it
// finds).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_PRECISION_PASSES_H
#define LOCKSTEP_COMPILER_PRECISION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace lockstep {

#define GEN_PASS_DECL
#include "compiler/precision/Passes.h.inc"

/// Full precision: checks that nothing else is asked for.
void buildPrecisionPipeline(mlir::OpPassManager &manager);

/// Registers the passes and `lockstep-precision-pipeline`.
void registerPrecisionPasses();

} // namespace lockstep

#endif
