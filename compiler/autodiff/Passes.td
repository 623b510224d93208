//===- Passes.td - Passes of the stage autodiff ------------*- tablegen -*-===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_PASSES_TD
#define LOCKSTEP_COMPILER_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildStepPass : Pass<"lockstep-autodiff-build-step", "::mlir::ModuleOp"> {
  let summary = "Builds the training step and the evaluation program from the forward program";
  let description = [{
    Replaces `@forward` by `@step` (loss, backward pass, gradient norm, optimizer update) and `@eval` (the loss without dropout, with batch norm's
    running statistics). Arguments and results are grouped by role: parameters, optimizer state, buffers, inputs, labels,
    hyperparameters, rng; new parameters, new state, new buffers, `loss`, `grad_norm`. Frozen parameters, and those that the loss
    does not depend on, are not updated and have no state.

    Example: test/autodiff/build-step.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::dist::DistDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross_entropy\"", "cross_entropy or mse of the first output and the labels, or output:I">,
    Option<"labels", "labels", "std::string", "\"labels\"", "Name of the labels in the data, or next-token">,
    Option<"classDim", "class-dim", "int64_t", "-1", "Dimension of the classes in the logits">,
    Option<"labelSmoothing", "label-smoothing", "double", "0.0", "As torch.nn.CrossEntropyLoss">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "-100", "Labels that do not count">,
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "sgd, adam or adamw">,
    Option<"lr", "lr", "double", "1e-3", "Learning rate">,
    Option<"momentum", "momentum", "double", "0.0", "Momentum of sgd">,
    Option<"nesterov", "nesterov", "bool", "false", "Nesterov momentum">,
    Option<"beta1", "beta1", "double", "0.9", "Of adam and adamw">,
    Option<"beta2", "beta2", "double", "0.999", "Of adam and adamw">,
    Option<"eps", "eps", "double", "1e-8", "Of adam and adamw">,
    Option<"weightDecay", "weight-decay", "double", "0.0", "Weight decay">,
    ListOption<"weightDecayExclude", "weight-decay-exclude", "std::string",
               "Parameters without weight decay: 'ndim<N' or name patterns with * and ?">,
    Option<"gradClip", "grad-clip", "double", "0.0", "Bound of the global gradient norm; 0: none">,
    Option<"accumulationSteps", "accumulation-steps", "int64_t", "1", "Micro batches per step">,
    Option<"localBatchNorm", "local-batch-norm", "bool", "false", "Batch statistics of each rank, not of the global batch">,
    Option<"lrSchedule", "lr-schedule", "std::string", "\"constant\"", "constant, linear or cosine">,
    Option<"warmupSteps", "warmup-steps", "int64_t", "0", "Steps of linear warm-up">,
    Option<"totalSteps", "total-steps", "int64_t", "0", "Steps until min-lr is reached">,
    Option<"minLr", "min-lr", "double", "0.0", "Learning rate at the end and after it">];
}

def JoinSliceGradientsPass : Pass<"lockstep-autodiff-join-slice-gradients", "::mlir::func::FuncOp"> {
  let summary = "Writes the sum of gradients of disjoint slices as one concatenation";
  let description = [{
    A value that the forward pass takes apart (query, key and value of one product; the halves of a rotary embedding) has as its gradient a sum of
    zero-padded parts. Where the parts do not overlap, the sum only puts them side by side, and a `concatenate` says so: every element
    is written once, and none is added to zero.

    Example: test/autodiff/join-slice-gradients.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
}

def VerifyAutodiffOutputPass : Pass<"lockstep-autodiff-verify-output", "::mlir::ModuleOp"> {
  let summary = "Checks that @step and @eval say what every argument and result is";
  let description = [{
    The boundary of the stage: both programs exist, `@forward` is gone, every argument and result has a role and a name, every new value has the type of
    what it replaces, and `@step` returns `loss` and `grad_norm`.

    Example: test/autodiff/verify-output.mlir.
  }];
}

#endif
