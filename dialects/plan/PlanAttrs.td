//===- PlanAttrs.td - Enumerations and types of the plan ---*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLANATTRS_TD
#define LOCKSTEP_DIALECTS_PLAN_PLANATTRS_TD

include "dialects/plan/PlanDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Plan_I32Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::lockstep::plan";
}

/// What a kernel's region may hold, and so how emit lowers it (KernelModel.h describes each kind).
def Plan_KernelKind : Plan_I32Enum<"KernelKind", "how a kernel is lowered", [
    I32EnumAttrCase<"Loop", 0, "loop">,
    I32EnumAttrCase<"Contraction", 1, "contraction">,
    I32EnumAttrCase<"Attention", 2, "attention">,
    I32EnumAttrCase<"AttentionGradient", 3, "attention_gradient">,
    I32EnumAttrCase<"Convolution", 4, "convolution">,
    I32EnumAttrCase<"ConvolutionInputGradient", 5, "convolution_input_gradient">,
    I32EnumAttrCase<"ConvolutionFilterGradient", 6, "convolution_filter_gradient">,
    I32EnumAttrCase<"Sort", 7, "sort">,
    I32EnumAttrCase<"Scatter", 8, "scatter">,
    I32EnumAttrCase<"Scan", 9, "scan">,
    I32EnumAttrCase<"Window", 10, "window">,
    I32EnumAttrCase<"Update", 11, "update">]>;
def Plan_KernelKindAttr : EnumAttr<PlanDialect, Plan_KernelKind, "kernel_kind"> { let assemblyFormat = "$value"; }

def Plan_BufferKind : Plan_I32Enum<"BufferKind", "how long a buffer's contents live, and who writes them", [
    I32EnumAttrCase<"Persistent", 0, "persistent">,
    I32EnumAttrCase<"Input", 1, "input">,
    I32EnumAttrCase<"Scalar", 2, "scalar">,
    I32EnumAttrCase<"Temporary", 3, "temporary">]>;
def Plan_BufferKindAttr : EnumAttr<PlanDialect, Plan_BufferKind, "buffer_kind"> { let assemblyFormat = "$value"; }

def Plan_CollectiveKind : Plan_I32Enum<"CollectiveKind", "a collective operation", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"Broadcast", 3, "broadcast">,
    I32EnumAttrCase<"Barrier", 4, "barrier">]>;
def Plan_CollectiveKindAttr : EnumAttr<PlanDialect, Plan_CollectiveKind, "collective_kind"> { let assemblyFormat = "$value"; }

def Plan_Buffer : TypeDef<PlanDialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "A range of the arena that holds a row-major tensor";
  let description = [{
    The memory of one whole tensor, contiguous and row-major.

    ```mlir
    !plan.buffer<tensor<8x64xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
  let genVerifyDecl = 1;
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$tensor), "return $_get(tensor.getContext(), tensor);">];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// Size in bytes; i1 takes one byte per element.
    int64_t getBytes() const;
  }];
}

#endif
