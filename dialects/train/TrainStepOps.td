//===- TrainStepOps.td - Loss, update, accumulation --------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINSTEPOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINSTEPOPS_TD

include "dialects/train/TrainModelOps.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def CrossEntropyOp : Train_Composite<"cross_entropy", [InferTypeOpAdaptor]> {
  let summary = "Sum of -log softmax(logits)[label]";
  let description = [{
    Labels have the logits' shape without `dimension` (the classes). Positions whose label is `ignore_index` add nothing. With smoothing e, a position adds
    (1 - e) * (-log p[label]) + e / C * sum of -log p. `loss_sum` is rank 0 in f32 at least; `lse` is log sum exp per position, saved for the backward pass.
    The mean is loss_sum / label_count.

    - (C1) `dimension` is a dimension of the logits; labels match.

    ```mlir
    %sum, %lse = train.cross_entropy %logits, %labels dim 1 ignore -100 smoothing 0.0 : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$logits, Train_IntTensor:$labels, I64Attr:$dimension, I64Attr:$ignore_index, F64Attr:$smoothing);
  let results = (outs Train_FloatTensor:$loss_sum, Train_FloatTensor:$lse);
  let assemblyFormat = "$logits `,` $labels `dim` $dimension `ignore` $ignore_index `smoothing` $smoothing attr-dict `:` functional-type(operands, results)";
}

def CrossEntropyGradientOp : Train_Composite<"cross_entropy_gradient", [InferTypeOpAdaptor]> {
  let summary = "Gradient of cross_entropy's loss_sum with respect to the logits, times a scalar";
  let description = [{
    `scale` is rank 0: the cotangent of loss_sum.

    - (C1) types are those of the matching `cross_entropy`.

    ```mlir
    %d = train.cross_entropy_gradient %logits, %labels, %lse, %scale dim 1 ignore -100 smoothing 0.0 : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<f32>) -> tensor<8x10xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$logits, Train_IntTensor:$labels, Train_FloatTensor:$lse, Train_FloatTensor:$scale, I64Attr:$dimension, I64Attr:$ignore_index, F64Attr:$smoothing);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels `,` $lse `,` $scale `dim` $dimension `ignore` $ignore_index `smoothing` $smoothing attr-dict `:` functional-type(operands, results)";
}

def LabelCountOp : Train_Composite<"label_count"> {
  let summary = "Number of labels that are not ignored, as a float";
  let description = [{
    Depends on labels alone, so it is reduced over ranks and accumulation steps before the backward pass.

    ```mlir
    %n = train.label_count %labels ignore -100 : tensor<8xi64> -> tensor<f32>
    ```
  }];
  let arguments = (ins Train_IntTensor:$labels, I64Attr:$ignore_index);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$labels `ignore` $ignore_index attr-dict `:` type($labels) `->` type($result)";
}

def GlobalNormOp : Train_Composite<"global_norm"> {
  let summary = "Square root of the sum of squares of all elements of all operands";
  let description = [{
    The norm that `--grad-clip` bounds (`torch.nn.utils.clip_grad_norm_`). Created by autodiff, one multi-tensor kernel after fuse.

    ```mlir
    %n = train.global_norm %a, %b : tensor<8xf32>, tensor<4x4xf32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Train_FloatTensor>:$operands_);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operands_ attr-dict `:` type($operands_) `->` type($result)";
}

def SgdOp : Train_Composite<"sgd", [AttrSizedOperandSegments, AllTypesMatch<["parameter", "gradient", "new_parameter"]>]> {
  let summary = "One parameter's step of stochastic gradient descent (torch.optim.SGD)";
  let description = [{
    g = gradient * gradient_scale + weight_decay * parameter. With a momentum buffer: buffer = first ? g : momentum * buffer + g (a buffer of zeros gives the same, since
    dampening is 0), and g = nesterov ? g + momentum * buffer : buffer. parameter -= lr * g. Scalars are rank 0. `schedule` lets the new values replace the old ones.

    - (C1) `momentum_buffer`, `momentum` and the second result come together.

    ```mlir
    %p, %m = train.sgd %param, %grad buffer %buf, %mu scalars %lr, %wd, %scale : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<8xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient, Optional<Train_FloatTensor>:$momentum_buffer, Optional<Train_FloatTensor>:$momentum,
                       Train_FloatTensor:$lr, Train_FloatTensor:$weight_decay, Train_FloatTensor:$gradient_scale, UnitAttr:$nesterov);
  let results = (outs Train_FloatTensor:$new_parameter, Optional<Train_FloatTensor>:$new_momentum_buffer);
  let assemblyFormat = "$parameter `,` $gradient (`buffer` $momentum_buffer^ `,` $momentum)? `scalars` $lr `,` $weight_decay `,` $gradient_scale attr-dict `:` type(operands) `->` type(results)";
  let hasVerifier = 1;
}

def AdamOp : Train_Composite<"adam", [AllTypesMatch<["parameter", "gradient", "new_parameter"]>, AllTypesMatch<["first_moment", "second_moment", "new_first_moment", "new_second_moment"]>]> {
  let summary = "One parameter's step of Adam or AdamW (torch.optim.Adam, AdamW)";
  let description = [{
    g = gradient * gradient_scale. `decoupled` (AdamW): parameter *= 1 - lr * weight_decay; else g += weight_decay * parameter. Then
    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
    parameter -= lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + eps), bias_correction_i = 1 - beta_i^(step + 1), computed by the runtime in double.
    Scalars are rank 0.

    ```mlir
    %p, %m2, %v2 = train.adam %param, %grad, %m, %v scalars %lr, %wd, %b1, %b2, %eps, %c1, %c2, %scale {decoupled} : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient, Train_FloatTensor:$first_moment, Train_FloatTensor:$second_moment,
                       Train_FloatTensor:$lr, Train_FloatTensor:$weight_decay, Train_FloatTensor:$beta1, Train_FloatTensor:$beta2, Train_FloatTensor:$eps,
                       Train_FloatTensor:$bias_correction1, Train_FloatTensor:$bias_correction2, Train_FloatTensor:$gradient_scale, UnitAttr:$decoupled);
  let results = (outs Train_FloatTensor:$new_parameter, Train_FloatTensor:$new_first_moment, Train_FloatTensor:$new_second_moment);
  let assemblyFormat = "$parameter `,` $gradient `,` $first_moment `,` $second_moment `scalars` $lr `,` $weight_decay `,` $beta1 `,` $beta2 `,` $eps `,` $bias_correction1 `,` $bias_correction2 `,` $gradient_scale attr-dict `:` type(operands) `->` type(results)";
}

def YieldOp : Op<TrainDialect, "yield", [Pure, Terminator, ReturnLike, HasParent<"AccumulateOp">]> {
  let summary = "Ends the body of accumulate";
  let description = "Carried values first, then the values to sum.";
  let arguments = (ins Variadic<Train_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def AccumulateOp : Op<TrainDialect, "accumulate", [AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Runs its body once per micro batch and sums the gradients (gradient accumulation)";
  let description = [{
    Body arguments: one micro batch of every value in `batch` (dimension 0 divided by `steps`; iteration k sees rows [k R, (k + 1) R) of the local rows), then the
    carried values (running statistics, the rng), then the iteration number (tensor<i64>). The body yields the new carried values, then the values to sum over iterations.
    Results are the last carried values, then the sums. Values from outside may be used inside. Created by autodiff for
    --gradient-accumulation-steps above 1, turned into a loop by schedule.

    - (C1) `steps` is at least 1 and divides dimension 0 of every batch value.
    - (C2) body arguments, yielded values and results have matching types.
  }];
  let arguments = (ins Variadic<Train_Tensor>:$batch, Variadic<Train_Tensor>:$carried, I64Attr:$steps);
  let results = (outs Variadic<Train_Tensor>:$results_);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$steps `batch` `(` $batch `)` `carried` `(` $carried `)` attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

#endif
