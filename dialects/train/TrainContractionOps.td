//===- TrainContractionOps.td - Reductions and products ----*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINCONTRACTIONOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINCONTRACTIONOPS_TD

include "dialects/train/TrainBase.td"

def ReduceOp : Train_InferredOp<"reduce"> {
  let summary = "Combines the elements of some dimensions";
  let description = [{
    The reduced dimensions disappear. Sums of f16 and bf16 accumulate in f32.

    - (C1) `dimensions` are strictly increasing dimensions of the operand.

    ```mlir
    %0 = train.reduce sum %a dims [1] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_Tensor:$operand, DenseI64ArrayAttr:$dimensions);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$kind $operand `dims` $dimensions attr-dict `:` type($operand)";
  let hasFolder = 1;
}

def ArgReduceOp : Train_InferredOp<"arg_reduce"> {
  let summary = "Position (i64) of the largest or smallest element along one dimension";
  let description = [{
    The first of equals. The dimension disappears.

    - (C1) `dimension` is a dimension of the operand, and `kind` is max or min.

    ```mlir
    %0 = train.arg_reduce max %a dim 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_Tensor:$operand, I64Attr:$dimension);
  let results = (outs Train_IntTensor:$result);
  let assemblyFormat = "$kind $operand `dim` $dimension attr-dict `:` type($operand)";
}

def DotGeneralOp : Train_InferredOp<"dot_general"> {
  let summary = "Batched matrix product";
  let description = [{
    The result's dimensions are the batching dimensions in the order of `lhs_batch`, then lhs's free dimensions, then rhs's, each in
    operand order. Accumulates in f32 at least.

    - (C1) batching and contracting dimensions are distinct, pairwise of equal size.
    - (C2) element types are equal.

    ```mlir
    %0 = train.dot_general %a, %b batch [0] x [0] contract [2] x [1] : tensor<8x4x16xf32>, tensor<8x16x32xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$lhs, Train_Tensor:$rhs, DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                       DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `batch` $lhs_batch `x` $rhs_batch `contract` $lhs_contract `x` $rhs_contract attr-dict `:` type($lhs) `,` type($rhs)";
  let extraClassDeclaration = [{
    /// Dimensions that are neither batching nor contracting, in order.
    ::llvm::SmallVector<int64_t> getLhsFree();
    ::llvm::SmallVector<int64_t> getRhsFree();
  }];
}


def ConvolutionOp : Train_InferredOp<"convolution"> {
  let summary = "Convolution of images with filters";
  let description = [{
    Layouts are fixed: input [N, C, spatial...], filter [O, C / groups, spatial...], result [N, O, spatial...], one to three spatial dimensions.
    `dilation` spreads the filter. As in frameworks, the filter is not flipped.

    - (C1) `strides`, `padding_low`, `padding_high`, `dilation` have one entry per spatial dimension; strides and dilation at least 1.
    - (C2) input and filter agree in rank and channels; `groups` divides O.

    ```mlir
    %0 = train.convolution %x, %w strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] groups 1 : tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$input, Train_FloatTensor:$filter, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding_low,
                       DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input `,` $filter `strides` $strides `padding` $padding_low `to` $padding_high `dilation` $dilation `groups` $groups attr-dict `:` type($input) `,` type($filter)";
}

def ConvolutionInputGradientOp : Train_Op<"convolution_input_gradient"> {
  let summary = "Gradient of a convolution with respect to its input (also: transposed convolution)";
  let description = [{
    - (C1) the result's type is an input for which `convolution` with the same attributes has the type of `cotangent`.

    ```mlir
    %0 = train.convolution_input_gradient %dy, %w strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] groups 1 : tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32> -> tensor<8x3x32x32xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$cotangent, Train_FloatTensor:$filter, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding_low,
                       DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $filter `strides` $strides `padding` $padding_low `to` $padding_high `dilation` $dilation `groups` $groups attr-dict `:` type($cotangent) `,` type($filter) `->` type($result)";
  let hasVerifier = 1;
}

def ConvolutionFilterGradientOp : Train_Op<"convolution_filter_gradient"> {
  let summary = "Gradient of a convolution with respect to its filter";
  let description = [{
    - (C1) the result's type is a filter for which `convolution` with the same attributes has the type of `cotangent`.

    ```mlir
    %0 = train.convolution_filter_gradient %x, %dy strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] groups 1 : tensor<8x3x32x32xf32>, tensor<8x16x16x16xf32> -> tensor<16x3x3x3xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$input, Train_FloatTensor:$cotangent, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding_low,
                       DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cotangent `strides` $strides `padding` $padding_low `to` $padding_high `dilation` $dilation `groups` $groups attr-dict `:` type($input) `,` type($cotangent) `->` type($result)";
  let hasVerifier = 1;
}

def ReduceWindowOp : Train_InferredOp<"reduce_window"> {
  let summary = "Reduces windows of the trailing dimensions (pooling)";
  let description = [{
    The window slides over the last k dimensions, k the number of entries of `window`. Padding counts as the neutral element: -inf (max) or 0 (sum).

    - (C1) the arrays have k entries, `kind` is max or sum.

    ```mlir
    %0 = train.reduce_window max %x window [3, 3] strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] : tensor<8x16x32x32xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_FloatTensor:$operand, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding_low, DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilation);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$kind $operand `window` $window `strides` $strides `padding` $padding_low `to` $padding_high `dilation` $dilation attr-dict `:` type($operand)";
}

def ReduceWindowGradientOp : Train_Op<"reduce_window_gradient", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "Gradient of a pooling with respect to its operand";
  let description = [{
    sum: each element receives the cotangents of the windows that hold it. max: only from windows where it is the first largest element.

    - (C1) `cotangent` has the type of `reduce_window` with the same attributes.

    ```mlir
    %0 = train.reduce_window_gradient max %x, %dy window [3, 3] strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] : tensor<8x16x32x32xf32>, tensor<8x16x16x16xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_FloatTensor:$operand, Train_FloatTensor:$cotangent, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding_low, DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilation);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$kind $operand `,` $cotangent `window` $window `strides` $strides `padding` $padding_low `to` $padding_high `dilation` $dilation attr-dict `:` type($operand) `,` type($cotangent)";
  let hasVerifier = 1;
}

#endif
