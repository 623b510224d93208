//===- TrainAttrs.td - Enumerations and attributes ---------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINATTRS_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINATTRS_TD

include "dialects/train/TrainDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Train_I32Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::lockstep::train";
}

def Train_Role : Train_I32Enum<"Role", "what an argument or result of the program is", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"State", 1, "state">,
    I32EnumAttrCase<"Buffer", 2, "buffer">,
    I32EnumAttrCase<"Input", 3, "input">,
    I32EnumAttrCase<"Label", 4, "label">,
    I32EnumAttrCase<"Hyperparameter", 5, "hyperparameter">,
    I32EnumAttrCase<"Rng", 6, "rng">,
    I32EnumAttrCase<"Output", 7, "output">,
    I32EnumAttrCase<"Metric", 8, "metric">]>;
def Train_RoleAttr : EnumAttr<TrainDialect, Train_Role, "role"> { let assemblyFormat = "`<` $value `>`"; }

def Train_ReduceKind : Train_I32Enum<"ReduceKind", "how elements are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Product", 1, "product">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"And", 4, "and">, I32EnumAttrCase<"Or", 5, "or">]>;
def Train_ReduceKindAttr : EnumAttr<TrainDialect, Train_ReduceKind, "reduce_kind"> { let assemblyFormat = "$value"; }

def Train_ScatterKind : Train_I32Enum<"ScatterKind", "what a scatter does with an element that is there already", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Replace", 1, "replace">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"Multiply", 4, "multiply">]>;
def Train_ScatterKindAttr : EnumAttr<TrainDialect, Train_ScatterKind, "scatter_kind"> { let assemblyFormat = "$value"; }

def Train_CompareDirection : Train_I32Enum<"CompareDirection", "a comparison", [
    I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">, I32EnumAttrCase<"LT", 2, "lt">,
    I32EnumAttrCase<"LE", 3, "le">, I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]>;
def Train_CompareDirectionAttr : EnumAttr<TrainDialect, Train_CompareDirection, "compare_direction"> { let assemblyFormat = "$value"; }

#endif
