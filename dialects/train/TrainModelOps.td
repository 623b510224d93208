//===- TrainModelOps.td - Layers with kernels of their own -*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINMODELOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINMODELOPS_TD

include "dialects/train/TrainBase.td"

/// An operation with a decomposition into simpler ones (dialects/train/Decompositions*.cpp).
class Train_Composite<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<DecomposableOpInterface>], traits)>;

def SoftmaxOp : Train_Composite<"softmax", [SameOperandsAndResultType]> {
  let summary = "e^(x - max) / sum along one dimension";
  let description = [{
    A row whose elements are all -inf gives NaN, as in PyTorch.

    - (C1) `dimension` is a dimension of the operand.

    ```mlir
    %0 = train.softmax %x dim 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, I64Attr:$dimension);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `dim` $dimension attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def LogSoftmaxOp : Train_Composite<"log_softmax", [SameOperandsAndResultType]> {
  let summary = "Logarithm of softmax along one dimension";
  let description = [{
    - (C1) `dimension` is a dimension of the operand.

    ```mlir
    %0 = train.log_softmax %x dim 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, I64Attr:$dimension);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `dim` $dimension attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def LayerNormOp : Train_Composite<"layer_norm", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "Normalises the last dimensions to mean 0 and variance 1, then scales and shifts";
  let description = [{
    y = (x - mean) * rstd * weight + bias over the last `axes` dimensions, rstd = 1 / sqrt(variance + eps), variance biased.
    `mean` and `rstd` have x's leading dimensions and are saved for the backward pass (f32 for f16 and bf16).

    - (C1) 1 <= axes <= rank; `weight` and `bias`, where present, have the shape of x's last `axes` dimensions.

    ```mlir
    %y, %mean, %rstd = train.layer_norm %x weight %w bias %b axes 1 eps 1.0e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, Optional<Train_FloatTensor>:$weight, Optional<Train_FloatTensor>:$bias, I64Attr:$axes, F64Attr:$eps);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$mean, Train_FloatTensor:$rstd);
  let assemblyFormat = "$operand (`weight` $weight^)? (`bias` $bias^)? `axes` $axes `eps` $eps attr-dict `:` functional-type(operands, results)";
}

def LayerNormGradientOp : Train_Composite<"layer_norm_gradient", [InferTypeOpAdaptor]> {
  let summary = "Gradients of layer_norm with respect to operand, weight and bias";
  let description = [{
    `dweight` and `dbias` have the shape of the last `axes` dimensions, with or without weights in the forward operation.

    - (C1) shapes are those of the matching `layer_norm`.

    ```mlir
    %dx, %dw, %db = train.layer_norm_gradient %dy, %x, %mean, %rstd weight %w axes 1 : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_FloatTensor:$operand, Train_FloatTensor:$mean, Train_FloatTensor:$rstd, Optional<Train_FloatTensor>:$weight, I64Attr:$axes);
  let results = (outs Train_FloatTensor:$doperand, Train_FloatTensor:$dweight, Train_FloatTensor:$dbias);
  let assemblyFormat = "$cotangent `,` $operand `,` $mean `,` $rstd (`weight` $weight^)? `axes` $axes attr-dict `:` functional-type(operands, results)";
}

def RmsNormOp : Train_Composite<"rms_norm", [InferTypeOpAdaptor]> {
  let summary = "Divides the last dimensions by their root mean square, then scales";
  let description = [{
    y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) over the last `axes` dimensions.

    - (C1) 1 <= axes <= rank; `weight`, where present, has the shape of x's last `axes` dimensions.

    ```mlir
    %y, %rstd = train.rms_norm %x weight %w axes 1 eps 1.0e-05 : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, Optional<Train_FloatTensor>:$weight, I64Attr:$axes, F64Attr:$eps);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$rstd);
  let assemblyFormat = "$operand (`weight` $weight^)? `axes` $axes `eps` $eps attr-dict `:` functional-type(operands, results)";
}

def RmsNormGradientOp : Train_Composite<"rms_norm_gradient", [InferTypeOpAdaptor]> {
  let summary = "Gradients of rms_norm with respect to operand and weight";
  let description = [{
    - (C1) shapes are those of the matching `rms_norm`.

    ```mlir
    %dx, %dw = train.rms_norm_gradient %dy, %x, %rstd weight %w axes 1 : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_FloatTensor:$operand, Train_FloatTensor:$rstd, Optional<Train_FloatTensor>:$weight, I64Attr:$axes);
  let results = (outs Train_FloatTensor:$doperand, Train_FloatTensor:$dweight);
  let assemblyFormat = "$cotangent `,` $operand `,` $rstd (`weight` $weight^)? `axes` $axes attr-dict `:` functional-type(operands, results)";
}

def BatchNormOp : Train_Composite<"batch_norm", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "Normalises each channel (dimension 1) over batch and space";
  let description = [{
    Training: mean and biased variance of the (global) batch normalise; the running statistics move by `momentum` (as in PyTorch: new = (1 - momentum) old +
    momentum batch, with the unbiased variance). With `inference` the running statistics normalise and stay.
    `mean` and `rstd` are what was used. With `local_statistics`, set by --batch-norm local, partition leaves the statistics to each rank.

    - (C1) rank at least 2; the optional operands have shape [C].
    - (C2) running statistics come together, and `inference` needs them. Without them the last two results repeat the batch statistics.

    ```mlir
    %y, %mean, %rstd, %rm, %rv = train.batch_norm %x weight %w bias %b running %m, %v momentum 1.0e-01 eps 1.0e-05 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, Optional<Train_FloatTensor>:$weight, Optional<Train_FloatTensor>:$bias,
                       Optional<Train_FloatTensor>:$running_mean, Optional<Train_FloatTensor>:$running_var, F64Attr:$momentum, F64Attr:$eps, UnitAttr:$inference, UnitAttr:$local_statistics);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$mean, Train_FloatTensor:$rstd, Train_FloatTensor:$new_running_mean, Train_FloatTensor:$new_running_var);
  let assemblyFormat = "$operand (`weight` $weight^)? (`bias` $bias^)? (`running` $running_mean^ `,` $running_var)? `momentum` $momentum `eps` $eps attr-dict `:` functional-type(operands, results)";
}

def BatchNormGradientOp : Train_Composite<"batch_norm_gradient", [InferTypeOpAdaptor]> {
  let summary = "Gradients of batch_norm with respect to operand, weight and bias";
  let description = [{
    With `inference`, mean and rstd are constants.

    - (C1) shapes are those of the matching `batch_norm`.

    ```mlir
    %dx, %dw, %db = train.batch_norm_gradient %dy, %x, %mean, %rstd weight %w : (tensor<8x16x4x4xf32>, tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_FloatTensor:$operand, Train_FloatTensor:$mean, Train_FloatTensor:$rstd, Optional<Train_FloatTensor>:$weight, UnitAttr:$inference, UnitAttr:$local_statistics);
  let results = (outs Train_FloatTensor:$doperand, Train_FloatTensor:$dweight, Train_FloatTensor:$dbias);
  let assemblyFormat = "$cotangent `,` $operand `,` $mean `,` $rstd (`weight` $weight^)? attr-dict `:` functional-type(operands, results)";
}

def EmbeddingOp : Train_Composite<"embedding", [InferTypeOpAdaptor]> {
  let summary = "Rows of a table";
  let description = [{
    Result is [ids..., width]. The row `padding_idx`, where given, gets no gradient.

    - (C1) table [rows, width]; ids an integer tensor.

    ```mlir
    %0 = train.embedding %table, %ids : tensor<512x64xf32>, tensor<8x32xi64>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$table, Train_IntTensor:$ids, OptionalAttr<I64Attr>:$padding_idx);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` type($table) `,` type($ids)";
}

def EmbeddingGradientOp : Train_Composite<"embedding_gradient"> {
  let summary = "Gradient of embedding with respect to its table";
  let description = [{
    Sums the cotangent's rows by id, in row-major order of ids.

    - (C1) types are those of the matching `embedding`.

    ```mlir
    %0 = train.embedding_gradient %dy, %ids : tensor<8x32x64xf32>, tensor<8x32xi64> -> tensor<512x64xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_IntTensor:$ids, OptionalAttr<I64Attr>:$padding_idx);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $ids attr-dict `:` type($cotangent) `,` type($ids) `->` type($result)";
  let hasVerifier = 1;
}

def AttentionOp : Train_Composite<"attention", [InferTypeOpAdaptor]> {
  let summary = "softmax(scale q k^T + mask) v for every head";
  let description = [{
    q [B, H, T, D], k [B, G, S, D], v [B, G, S, E], result [B, H, T, E]; G divides H, and head h uses group h / (H / G). `lse` [B, H, T] (f32 at least) is
    the logarithm of each row's sum, saved for the backward pass. With `causal`, query t sees keys s <= t (upper left aligned, as PyTorch). `window` w > 0: only keys s > t - w.
    `mask`, broadcastable to [B, H, T, S] (unit dimensions unexpanded), is boolean (true: seen) or added to the scores. A row that sees no
    key gives 0 and lse -inf. The mask gets no gradient: where one is needed, autodiff decomposes first.

    - (C1) ranks 4, matching sizes, G divides H.
    - (C2) mask has rank 4 and sizes 1 or full.

    ```mlir
    %o, %lse = train.attention %q, %k, %v scale 1.25e-01 {causal} : (tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>) -> (tensor<8x4x64x16xf32>, tensor<8x4x64xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$query, Train_FloatTensor:$key, Train_FloatTensor:$value, Optional<Train_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$lse);
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? `scale` $scale attr-dict `:` functional-type(operands, results)";
}

def AttentionGradientOp : Train_Composite<"attention_gradient", [InferTypeOpAdaptor]> {
  let summary = "Gradients of attention with respect to query, key and value";
  let description = [{
    - (C1) types are those of the matching `attention`.

    ```mlir
    %dq, %dk, %dv = train.attention_gradient %do, %q, %k, %v, %o, %lse scale 1.25e-01 {causal} : (tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64xf32>) -> (tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>, tensor<8x4x64x16xf32>)
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_FloatTensor:$query, Train_FloatTensor:$key, Train_FloatTensor:$value, Train_FloatTensor:$output, Train_FloatTensor:$lse,
                       Optional<Train_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs Train_FloatTensor:$dquery, Train_FloatTensor:$dkey, Train_FloatTensor:$dvalue);
  let assemblyFormat = "$cotangent `,` $query `,` $key `,` $value `,` $output `,` $lse (`mask` $mask^)? `scale` $scale attr-dict `:` functional-type(operands, results)";
}

#endif
