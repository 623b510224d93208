//===- Passes.td - Passes of the stage precision -----------*- tablegen -*-===//
#ifndef LOCKSTEP_COMPILER_PRECISION_PASSES_TD
#define LOCKSTEP_COMPILER_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyFullPrecisionPass : Pass<"lockstep-precision-verify-full", "::mlir::ModuleOp"> {
  let summary = "Checks that the program computes in f32 (or f64) throughout";
  let description = [{
    The policy `f32`: every floating-point tensor is f32 or f64, so that sums and products accumulate in the type that they have and nothing
    needs rewriting. A graph exported in half precision is refused with the first place that has it. Policies that rewrite
    (bf16-mixed) are passes beside this one.

    Example: test/precision/full.mlir.
  }];
}

#endif
