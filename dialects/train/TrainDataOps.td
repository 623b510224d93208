//===- TrainDataOps.td - Constants and data movement -------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINDATAOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINDATAOPS_TD

include "dialects/train/TrainBase.td"

def ConstantOp : Train_Op<"constant", [ConstantLike, InferTypeOpAdaptor]> {
  let summary = "A constant tensor";
  let description = [{
    Splats and small tables; weights never appear here.

    ```mlir
    %0 = train.constant dense<0.0> : tensor<4xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$splat)>];
}

def IotaOp : Train_Op<"iota"> {
  let summary = "Counts 0, 1, 2, ... along one dimension";
  let description = [{
    - (C1) `dimension` is a dimension of the result.

    ```mlir
    %0 = train.iota dim 1 : tensor<4x8xi64>
    ```
  }];
  let arguments = (ins I64Attr:$dimension);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "`dim` $dimension attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def BroadcastInDimOp : Train_Op<"broadcast_in_dim"> {
  let summary = "Repeats a tensor along new or unit dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dimensions[i]`; it has that size, or size 1 and is repeated.

    - (C1) `dimensions` has one strictly increasing entry per operand dimension.
    - (C2) each operand dimension is 1 or the result's.
    - (C3) element types are equal.

    ```mlir
    %0 = train.broadcast_in_dim %a dims [1] : tensor<4xf32> -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, DenseI64ArrayAttr:$dimensions);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand `dims` $dimensions attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def ReshapeOp : Train_Op<"reshape"> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    - (C1) operand and result have as many elements, and the same element type.

    ```mlir
    %0 = train.reshape %a : tensor<8x64xf32> -> tensor<512xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def TransposeOp : Train_InferredOp<"transpose"> {
  let summary = "Permutes dimensions: result dimension i is operand dimension permutation[i]";
  let description = [{
    - (C1) `permutation` is a permutation of the operand's dimensions.

    ```mlir
    %0 = train.transpose %a perm [1, 0] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand `perm` $permutation attr-dict `:` type($operand)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def SliceOp : Train_InferredOp<"slice"> {
  let summary = "Elements start, start + stride, ... below limit in each dimension";
  let description = [{
    - (C1) the three arrays have one entry per dimension.
    - (C2) 0 <= start <= limit <= size and stride >= 1.

    ```mlir
    %0 = train.slice %a [0, 2] to [4, 8] step [1, 2] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand $starts `to` $limits `step` $strides attr-dict `:` type($operand)";
  let hasFolder = 1;
}

def PadOp : Train_InferredOp<"pad"> {
  let summary = "Surrounds a tensor with a scalar, and spreads its elements";
  let description = [{
    `low` and `high` elements are added at the ends (negative: removed), `interior` between neighbours.

    - (C1) the three arrays have one entry per dimension, and `interior` is not negative.
    - (C2) `value` is a rank-0 tensor of the operand's element type.

    ```mlir
    %0 = train.pad %a, %zero low [0, 1] high [0, 2] interior [0, 0] : tensor<4x8xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, Train_Tensor:$value, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand `,` $value `low` $low `high` $high `interior` $interior attr-dict `:` type($operand) `,` type($value)";
}

def ConcatenateOp : Train_InferredOp<"concatenate"> {
  let summary = "Joins tensors along one dimension";
  let description = [{
    - (C1) all operands agree in everything but the size of `dimension`; there is at least one.

    ```mlir
    %0 = train.concatenate %a, %b dim 0 : tensor<4x8xf32>, tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Train_Tensor>:$inputs, I64Attr:$dimension);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dimension attr-dict `:` type($inputs)";
  let hasFolder = 1;
}

def ReverseOp : Train_Op<"reverse", [SameOperandsAndResultType]> {
  let summary = "Reverses the order of elements in some dimensions";
  let description = [{
    - (C1) `dimensions` are distinct dimensions of the operand.

    ```mlir
    %0 = train.reverse %a dims [1] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, DenseI64ArrayAttr:$dimensions);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand `dims` $dimensions attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def GatherOp : Train_InferredOp<"gather"> {
  let summary = "Elements of a tensor at computed positions";
  let description = [{
    The first `batch_dims` dimensions of operand, indices and result are one another's. Every index tensor has the same shape
    [batch..., I...], and indexes operand dimension `dims[k]`. The result is [batch..., I..., the operand's other dimensions in
    order]. numpy's advanced indexing has `batch_dims` 0; `torch.gather` has the other dimensions as batch. Import makes indices not
    negative; one out of range is clamped to the nearest end.

    - (C1) `dims` has one strictly increasing entry per index tensor, each at least `batch_dims`.
    - (C2) index tensors are integer tensors of one shape whose first `batch_dims` sizes are the operand's.

    ```mlir
    %0 = train.gather %table[%ids] dims [0] batch 0 : tensor<512x64xf32>, tensor<8x32xi64>   // tensor<8x32x64xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, Variadic<Train_IntTensor>:$indices, DenseI64ArrayAttr:$dims, I64Attr:$batch_dims);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand `[` $indices `]` `dims` $dims `batch` $batch_dims attr-dict `:` type($operand) `,` type($indices)";
}

def ScatterOp : Train_Op<"scatter", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "Combines updates into a tensor at computed positions";
  let description = [{
    The counterpart of `gather`: `updates` has the shape that `gather` would give, and each of its elements is combined into
    the operand at that position. Several updates of one position are applied in the row-major order of `updates`. An update
    whose index is out of range is dropped.

    - (C1), (C2) of `gather` hold.
    - (C3) `updates` has the shape of the gather with the same attributes, and the operand's element type.

    ```mlir
    %0 = train.scatter add %base[%ids], %rows dims [0] batch 0 : tensor<512x64xf32>, tensor<8x64xf32>, tensor<8xi64>
    ```
  }];
  let arguments = (ins Train_ScatterKindAttr:$kind, Train_Tensor:$operand, Variadic<Train_IntTensor>:$indices, Train_Tensor:$updates,
                       DenseI64ArrayAttr:$dims, I64Attr:$batch_dims);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$kind $operand `[` $indices `]` `,` $updates `dims` $dims `batch` $batch_dims attr-dict `:` type($operand) `,` type($updates) `,` type($indices)";
  let hasVerifier = 1;
}

def SortOp : Train_InferredOp<"sort"> {
  let summary = "Sorts along one dimension; gives values and where they came from";
  let description = [{
    Stable. NaN counts as the largest number. `indices` is i64.

    - (C1) `dimension` is a dimension of the operand.

    ```mlir
    %v, %i = train.sort %a dim 1 {descending} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand, I64Attr:$dimension, UnitAttr:$descending);
  let results = (outs Train_Tensor:$values, Train_IntTensor:$indices);
  let assemblyFormat = "$operand `dim` $dimension attr-dict `:` type($operand)";
}

def CumulativeOp : Train_Op<"cumulative", [SameOperandsAndResultType]> {
  let summary = "Running reduction along one dimension";
  let description = [{
    Element i of the result reduces elements 0 to i (with `reverse`, i to the last).

    - (C1) `dimension` is a dimension of the operand.

    ```mlir
    %0 = train.cumulative sum %a dim 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Train_Tensor:$operand, I64Attr:$dimension, UnitAttr:$reverse);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$kind $operand `dim` $dimension attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
