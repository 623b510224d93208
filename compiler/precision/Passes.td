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

def NarrowProductsPass : Pass<"lockstep-precision-narrow-products", "::mlir::func::FuncOp"> {
  let summary = "Lets matrix products, convolutions and attention of f32 work on bf16 (the policy bf16-mixed)";
  let description = [{
    Operands are rounded to bf16, results are bf16 and widened behind; sums inside accumulate in f32. Everything else stays f32: parameters,
    norms, softmax, losses, reductions, sums of activations. This is the policy of torch.autocast, but that pointwise operations between
    products compute in f32 where autocast may compute in bf16: fused into one kernel they cost the same.

    ```mlir
    %0 = train.dot_general %a, %b ... : tensor<8x4xf32>, tensor<4x2xf32>
    // becomes
    %1 = train.convert %a : tensor<8x4xf32> -> tensor<8x4xbf16>
    %2 = train.convert %b : tensor<4x2xf32> -> tensor<4x2xbf16>
    %3 = train.dot_general %1, %2 ... : tensor<8x4xbf16>, tensor<4x2xbf16>
    %0 = train.convert %3 : tensor<8x2xbf16> -> tensor<8x2xf32>
    ```
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
}

def JoinConversionsPass : Pass<"lockstep-precision-join-conversions", "::mlir::func::FuncOp"> {
  let summary = "Keeps what is only moved between narrow operations narrow";
  let description = [{
    A rounding moves up through operations that only move elements, so that fewer bytes are moved and the rounding lands in the kernel that
    computes the value; a rounding of what was widened from that type is the value itself. Both are exact.

    ```mlir
    %0 = train.convert %x : tensor<8x4xbf16> -> tensor<8x4xf32>
    %1 = train.transpose %0 perm [1, 0] : tensor<8x4xf32>
    %2 = train.convert %1 : tensor<4x8xf32> -> tensor<4x8xbf16>
    // becomes
    %2 = train.transpose %x perm [1, 0] : tensor<8x4xbf16>
    ```
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
}

#endif
