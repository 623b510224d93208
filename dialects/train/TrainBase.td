//===- TrainBase.td - Base classes of the operations -------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINBASE_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINBASE_TD

include "dialects/train/TrainAttrs.td"
include "dialects/train/TrainInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Train_Float : AnyTypeOf<[F64, F32, F16, BF16]>;
def Train_Int : AnyTypeOf<[I64, I32, I16, I8, UI8, I1]>;
def Train_Element : AnyTypeOf<[F64, F32, F16, BF16, I64, I32, I16, I8, UI8, I1]>;
def Train_Tensor : StaticShapeTensorOf<[Train_Element]>;
def Train_FloatTensor : StaticShapeTensorOf<[Train_Float]>;
def Train_IntTensor : StaticShapeTensorOf<[Train_Int]>;
def Train_BoolTensor : StaticShapeTensorOf<[I1]>;

class Train_Op<string mnemonic, list<Trait> traits = []> : Op<TrainDialect, mnemonic, !listconcat([Pure], traits)>;

/// The result type follows from operands and attributes; inference is the verification.
class Train_InferredOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([InferTypeOpAdaptor], traits)>;

/// Marks the operations that compute each element from the same element of the operands.
def Train_Pointwise : NativeOpTrait<"Pointwise"> { let cppNamespace = "::lockstep::train"; }

class Train_Unary<string mnemonic, Type type, string text, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([SameOperandsAndResultType, Train_Pointwise], traits)> {
  let summary = text;
  let description = "Elementwise `" # mnemonic # "`: " # text # ". Created by import and autodiff, removed by emit.";
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class Train_Binary<string mnemonic, Type type, string text, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([SameOperandsAndResultType, Train_Pointwise], traits)> {
  let summary = text;
  let description = "Elementwise `" # mnemonic # "`: " # text # ". Operands have one shape. Created by import and autodiff, removed by emit.";
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

#endif
