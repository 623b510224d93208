//===- PlanKernelOps.td - Kernels on values ----------------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLANKERNELOPS_TD
#define LOCKSTEP_DIALECTS_PLAN_PLANKERNELOPS_TD

include "dialects/plan/PlanAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<PlanDialect, mnemonic, traits>;

def Plan_Tensor : StaticShapeTensorOf<[AnyType]>;

def KernelOp : Plan_Op<"kernel", [Symbol, FunctionOpInterface, IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "A group of operations that runs as one kernel";
  let description = [{
    The region computes the results from the arguments with `train` operations. Arguments and results are whole, contiguous, row-major
    buffers when the kernel runs; view-like operations (reshape, transpose, slice, broadcast_in_dim) become index arithmetic or strides.
    What a region may hold depends on `kind`; KernelModel.h has the list. Equal kernels are one symbol, so that a network of equal
    layers compiles each of its kernels once. Made by fuse, removed by emit.

    An `update` kernel is written for one element: arguments and results of type `tensor<1xT>` stand for any number of elements, the
    same for all of one call, and rank-0 arguments for scalars that all elements share.

    - (C1) the region is one block whose arguments are `function_type`'s inputs and which ends in `plan.return`.
    - (C2) arguments and results are statically shaped tensors without encoding.
    - (C3) the region holds only operations of the `train` dialect.
    - (C4) a kernel whose kind names an anchor holds exactly one operation of that name.
    - (C5) arguments and results of an `update` kernel have rank 0 or are `tensor<1xT>`.

    ```mlir
    plan.kernel loop @relu(%x: tensor<8x64xf32>) -> tensor<8x64xf32> cost 512, 4096 {
      %zero = train.constant dense<0.0> : tensor<8x64xf32>
      %y = train.maximum %x, %zero : tensor<8x64xf32>
      plan.return %y : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins Plan_KernelKindAttr:$kind, SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       DefaultValuedAttr<F64Attr, "0.0">:$flops, DefaultValuedAttr<F64Attr, "0.0">:$bytes,
                       OptionalAttr<StrAttr>:$sym_visibility, OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1; // The signature of a function-like operation.
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "KernelKind":$kind, "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// The one operation that the kind names (dot_general, sort, ...), null for loop and update kernels.
    ::mlir::Operation *getAnchor();
  }];
}

def ReturnOp : Plan_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel's region";
  let description = "The kernel's results, one per result of its type.";
  let arguments = (ins Variadic<Plan_Tensor>:$results);
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
  let hasVerifier = 1;
}

def CallOp : Plan_Op<"call", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on tensors";
  let description = [{
    Made by fuse, replaced by `plan.launch` in schedule, which may join several calls of one kernel into one launch.

    - (C1) `kernel` names a `plan.kernel` whose inputs and results are the call's. For an `update` kernel, each `tensor<1xT>` is matched by a tensor of T, all of
      one call having the same number of elements.

    ```mlir
    %y = plan.call @relu(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_Tensor>:$operands_);
  let results = (outs Variadic<Plan_Tensor>:$results_);
  let assemblyFormat = "$kernel `(` $operands_ `)` attr-dict `:` functional-type($operands_, results)";
}

def ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "A row-major part of a tensor under another shape, in the same memory";
  let description = [{
    The elements of the operand from `offset` on, in row-major order, as a tensor of the result's shape: a reshape, or a slice of
    leading dimensions. It costs nothing. Made by fuse, becomes an aliasing buffer in schedule.

    - (C1) 0 <= offset, and offset plus the result's number of elements is at most the operand's.
    - (C2) element types are equal.

    ```mlir
    %1 = plan.view %0 at 64 : tensor<8x64xf32> -> tensor<2x32xf32>
    ```
  }];
  let arguments = (ins Plan_Tensor:$operand, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Plan_Tensor:$result);
  let assemblyFormat = "$operand (`at` $offset^)? attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def JoinOp : Plan_Op<"join", [Pure]> {
  let summary = "Tensors one behind the other in memory";
  let description = [{
    The result is the row-major elements of all operands in order, as one dimension. Schedule gives the operands neighbouring memory where
    it can, so that it costs nothing, and copies where it cannot. Made by fuse (pieces of a sum that is computed in two steps).

    - (C1) the result has rank 1, the operands' element type and their number of elements.

    ```mlir
    %2 = plan.join %0, %1 : tensor<4xf32>, tensor<2x3xf32> -> tensor<10xf32>
    ```
  }];
  let arguments = (ins Variadic<Plan_Tensor>:$inputs);
  let results = (outs Plan_Tensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

#endif
