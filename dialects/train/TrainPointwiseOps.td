//===- TrainPointwiseOps.td - Elementwise operations -------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINPOINTWISEOPS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINPOINTWISEOPS_TD

include "dialects/train/TrainBase.td"

def NegateOp : Train_Unary<"negate", Train_Tensor, "-x">;
def AbsOp : Train_Unary<"abs", Train_Tensor, "|x|">;
def SignOp : Train_Unary<"sign", Train_Tensor, "-1, 0 or 1; NaN stays NaN">;
def ExponentialOp : Train_Unary<"exponential", Train_FloatTensor, "e^x">;
def ExponentialMinusOneOp : Train_Unary<"exponential_minus_one", Train_FloatTensor, "e^x - 1, precise near 0">;
def LogOp : Train_Unary<"log", Train_FloatTensor, "natural logarithm">;
def LogPlusOneOp : Train_Unary<"log_plus_one", Train_FloatTensor, "ln(1 + x), precise near 0">;
def TanhOp : Train_Unary<"tanh", Train_FloatTensor, "hyperbolic tangent">;
def LogisticOp : Train_Unary<"logistic", Train_FloatTensor, "1 / (1 + e^-x)">;
def SqrtOp : Train_Unary<"sqrt", Train_FloatTensor, "square root">;
def RsqrtOp : Train_Unary<"rsqrt", Train_FloatTensor, "1 / square root">;
def SineOp : Train_Unary<"sine", Train_FloatTensor, "sine">;
def CosineOp : Train_Unary<"cosine", Train_FloatTensor, "cosine">;
def TanOp : Train_Unary<"tan", Train_FloatTensor, "tangent">;
def AtanOp : Train_Unary<"atan", Train_FloatTensor, "arc tangent">;
def ErfOp : Train_Unary<"erf", Train_FloatTensor, "error function">;
def FloorOp : Train_Unary<"floor", Train_FloatTensor, "largest integer not above x">;
def CeilOp : Train_Unary<"ceil", Train_FloatTensor, "smallest integer not below x">;
def RoundNearestEvenOp : Train_Unary<"round_nearest_even", Train_FloatTensor, "nearest integer, ties to even">;
def TruncateOp : Train_Unary<"truncate", Train_FloatTensor, "integer part, toward zero">;
def NotOp : Train_Unary<"not", Train_IntTensor, "bitwise (for i1: logical) complement">;

def AddOp : Train_Binary<"add", Train_Tensor, "x + y", [Commutative]> { let hasFolder = 1; }
def SubtractOp : Train_Binary<"subtract", Train_Tensor, "x - y"> { let hasFolder = 1; }
def MultiplyOp : Train_Binary<"multiply", Train_Tensor, "x * y", [Commutative]> { let hasFolder = 1; }
def DivideOp : Train_Binary<"divide", Train_Tensor, "x / y; integers divide toward zero"> { let hasFolder = 1; }
def FloorDivideOp : Train_Binary<"floor_divide", Train_Tensor, "floor(x / y)">;
def RemainderOp : Train_Binary<"remainder", Train_Tensor, "x - y * trunc(x / y): the sign of x">;
def ModuloOp : Train_Binary<"modulo", Train_Tensor, "x - y * floor(x / y): the sign of y">;
def PowerOp : Train_Binary<"power", Train_Tensor, "x ^ y">;
def MaximumOp : Train_Binary<"maximum", Train_Tensor, "larger of x and y; NaN wins", [Commutative]>;
def MinimumOp : Train_Binary<"minimum", Train_Tensor, "smaller of x and y; NaN wins", [Commutative]>;
def Atan2Op : Train_Binary<"atan2", Train_FloatTensor, "angle of the point (y = lhs, x = rhs)">;
def AndOp : Train_Binary<"and", Train_IntTensor, "bitwise and", [Commutative]> { let hasFolder = 1; }
def OrOp : Train_Binary<"or", Train_IntTensor, "bitwise or", [Commutative]> { let hasFolder = 1; }
def XorOp : Train_Binary<"xor", Train_IntTensor, "bitwise exclusive or", [Commutative]>;
def ShiftLeftOp : Train_Binary<"shift_left", Train_IntTensor, "x * 2^y">;
def ShiftRightOp : Train_Binary<"shift_right", Train_IntTensor, "arithmetic shift of x by y bits">;

def CompareOp : Train_InferredOp<"compare", [SameTypeOperands, SameOperandsAndResultShape, Train_Pointwise]> {
  let summary = "Elementwise comparison";
  let description = [{
    Comparisons with NaN are false, except `ne`. Created by import, removed by emit.

    ```mlir
    %0 = train.compare lt %a, %b : tensor<4xf32>
    ```
  }];
  let arguments = (ins Train_CompareDirectionAttr:$direction, Train_Tensor:$lhs, Train_Tensor:$rhs);
  let results = (outs Train_BoolTensor:$result);
  let assemblyFormat = "$direction $lhs `,` $rhs attr-dict `:` type($lhs)";
}

def StopGradientOp : Train_Unary<"stop_gradient", Train_Tensor, "x itself; no gradient flows back through it (`detach`, `no_grad`)">;

def SelectOp : Train_Op<"select", [SameOperandsAndResultShape, Train_Pointwise, AllTypesMatch<["on_true", "on_false", "result"]>]> {
  let summary = "Elementwise choice";
  let description = [{
    Created by import and autodiff, removed by emit.

    ```mlir
    %0 = train.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Train_BoolTensor:$pred, Train_Tensor:$on_true, Train_Tensor:$on_false);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$pred `,` $on_true `,` $on_false attr-dict `:` type($pred) `,` type($result)";
  let hasFolder = 1;
}

def ConvertOp : Train_Op<"convert", [SameOperandsAndResultShape, Train_Pointwise]> {
  let summary = "Elementwise conversion to another element type";
  let description = [{
    Float to integer truncates toward zero; anything to i1 is `x != 0`. Created by import and precision, removed by emit.

    ```mlir
    %0 = train.convert %a : tensor<4xi64> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$operand);
  let results = (outs Train_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def DropoutOp : Train_Op<"dropout", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "Zeroes elements at random and scales the rest";
  let description = [{
    An element is kept where the uniform number u in [0, 1) of its **global** index is at least `rate`, and is then multiplied by
    1 / (1 - rate). u comes from Philox4x32-10 with key (seed of `rng`, `id`) and counter (global element index / 4, `rng`'s second
    number), word index % 4, so it does not depend on the layout. `rng` is tensor<2xi64>: seed, step times accumulation
    steps plus accumulation index. `offsets` (tensor<rank x i64>), added by partition, is the first global index per dimension of the local
    part, and `global_shape` the global shape. The derivative is the same operation on the cotangent.

    - (C1) 0 <= rate < 1.
    - (C2) `offsets` and `global_shape` come together and have the operand's rank.

    ```mlir
    %0 = train.dropout %x, %rng {rate = 0.1 : f64, id = 3 : i64} : tensor<8x64xf32>, tensor<2xi64>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$operand, Train_IntTensor:$rng, Optional<Train_IntTensor>:$offsets,
                       F64Attr:$rate, I64Attr:$id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $rng (`offsets` $offsets^)? attr-dict `:` type($operand) `,` type($rng) (`,` type($offsets)^)?";
  let hasVerifier = 1;
}

#endif
