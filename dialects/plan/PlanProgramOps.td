//===- PlanProgramOps.td - Programs on memory --------------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLANPROGRAMOPS_TD
#define LOCKSTEP_DIALECTS_PLAN_PLANPROGRAMOPS_TD

include "dialects/plan/PlanKernelOps.td"
include "dialects/train/TrainAttrs.td"

def ProgramOp : Plan_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments, HasParent<"::mlir::ModuleOp">]> {
  let summary = "What the ranks of one role do in a step or an evaluation, in order";
  let description = [{
    Buffers are ranges of one arena of `arena_bytes` bytes per rank; operations run in the order in which they stand. Persistent buffers of the same name have the same
    offset in all programs. `role` names the ranks that run it (`all` in data parallelism), `entry` the program ("step", "eval"). Made by schedule, removed by emit.

    - (C1) every buffer lies inside the arena.
    - (C2) every collective is waited for exactly once, after its start, in the same block, and ids are distinct.

    ```mlir
    plan.program @eval entry "eval" role "all" arena_bytes 4096 {
      %x = plan.buffer input "x" offset 0 : !plan.buffer<tensor<8x64xf32>>
      %y = plan.buffer temporary offset 2048 : !plan.buffer<tensor<8x64xf32>>
      plan.launch @relu ins(%x : !plan.buffer<tensor<8x64xf32>>) outs(%y : !plan.buffer<tensor<8x64xf32>>)
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$entry, StrAttr:$role, I64Attr:$arena_bytes,
                       DefaultValuedAttr<I64Attr, "1">:$accumulation_steps, DefaultValuedAttr<I64Attr, "0">:$persistent_bytes, DefaultValuedAttr<I64Attr, "0">:$peak_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `entry` $entry `role` $role `arena_bytes` $arena_bytes (`accumulation_steps` $accumulation_steps^)?
    (`persistent_bytes` $persistent_bytes^)? (`peak_bytes` $peak_bytes^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def BufferOp : Plan_Op<"buffer", [Pure]> {
  let summary = "A range of the arena";
  let description = [{
    persistent: parameters, optimizer state, buffers, kept from step to step. input: the batch, written before the program runs. scalar:
    hyperparameters and rng (written before), metrics (read after). temporary: no contents before or after. Several buffers may name overlapping
    ranges: a reshape, a bucket and its members, a value written over a dead one. In a loop, iteration k sees the range k *
    `iteration_stride` bytes further on. Other attributes of the function argument or result (`train.frozen`, ...) are kept as they were.

    - (C1) offset and iteration_stride are not negative; offset is a multiple of the element size.
    - (C2) all kinds but temporary have a name; `role` says which value of the training step it is.
    - (C3) iteration_stride is not 0 only inside `plan.loop`.

    ```mlir
    %w = plan.buffer persistent "fc.weight" role <parameter> offset 0 : !plan.buffer<tensor<64x64xf32>>
    ```
  }];
  let arguments = (ins Plan_BufferKindAttr:$kind, OptionalAttr<StrAttr>:$name, OptionalAttr<Train_RoleAttr>:$role, I64Attr:$offset, DefaultValuedAttr<I64Attr, "0">:$iteration_stride);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = "$kind ($name^)? (`role` $role^)? `offset` $offset (`stride` $iteration_stride^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ int64_t getBytes() { return getType().getBytes(); } }];
}

def LaunchOp : Plan_Op<"launch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Runs a kernel on buffers";
  let description = [{
    Reads `inputs`, writes `outputs`. With several `segments` the operand lists are so many lists of equal length one after another, and the kernel runs on
    each of them; segments are independent. An output may lie exactly on an input of its segment (the value is replaced in place) where KernelModel.h allows it.

    - (C1) `segments` is at least 1 and divides the numbers of inputs and outputs.
    - (C2) `kernel` names a `plan.kernel`, whose arguments are a segment's inputs and whose results its outputs (for `update`: as in `plan.call`).

    ```mlir
    plan.launch @relu ins(%x : !plan.buffer<tensor<8x64xf32>>) outs(%y : !plan.buffer<tensor<8x64xf32>>)
    plan.launch @sgd segments 2 ins(%p0, %g0, %p1, %g1 : ...) outs(%p0, %p1 : ...)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, DefaultValuedAttr<I64Attr, "1">:$segments, Variadic<Plan_Buffer>:$inputs, Variadic<Plan_Buffer>:$outputs);
  let assemblyFormat = "$kernel (`segments` $segments^)? (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` type($outputs) `)`)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::OperandRange getSegmentInputs(int64_t segment);
    ::mlir::OperandRange getSegmentOutputs(int64_t segment);
  }];
}

def CollectiveStartOp : Plan_Op<"collective_start", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Begins a collective operation on buffers";
  let description = [{
    The ranks of `mesh` that differ only along `axes` take part. Input i goes with output i; all of them are one bucket. all_reduce and broadcast:
    equal sizes, in place where the buffers are the same range. all_gather: the output is the inputs of all ranks one after another; reduce_scatter: the
    reverse. The buffers belong to the collective until `plan.collective_wait` with the same id. Collectives of one communicator run in the order of their starts.

    - (C1) as many inputs as outputs, all of one element type, with sizes that the kind asks for.
    - (C2) `reduction` is given exactly for all_reduce and reduce_scatter, and is sum, max or min.

    ```mlir
    plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%g : !plan.buffer<tensor<64xf32>>) outs(%g : !plan.buffer<tensor<64xf32>>)
    ```
  }];
  let arguments = (ins Plan_CollectiveKindAttr:$kind, I64Attr:$id, OptionalAttr<Train_ReduceKindAttr>:$reduction, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       OptionalAttr<I64Attr>:$root, Variadic<Plan_Buffer>:$inputs, Variadic<Plan_Buffer>:$outputs);
  let assemblyFormat = "$kind $id (`reduction` $reduction^)? `on` $mesh $axes (`root` $root^)? (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` type($outputs) `)`)? attr-dict";
  let hasVerifier = 1;
}

def CollectiveWaitOp : Plan_Op<"collective_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a collective is complete";
  let description = "Made by schedule at the latest point: before the first use of an output, or before an input's memory is used again.";
  let arguments = (ins I64Attr:$id);
  let assemblyFormat = "$id attr-dict";
}

def LoopOp : Plan_Op<"loop", [NoTerminator, SingleBlock, NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "Repeats its body (gradient accumulation)";
  let description = [{
    Iteration k adds k times its `iteration_stride` to the offset of each buffer defined inside. Made by schedule from `train.accumulate`.

    - (C1) steps is at least 1.

    ```mlir
    plan.loop 4 {
      %x = plan.buffer input "x" offset 0 stride 512 : !plan.buffer<tensor<2x64xf32>>
      plan.launch @relu ins(%x : !plan.buffer<tensor<2x64xf32>>) outs(%y : !plan.buffer<tensor<2x64xf32>>)
    }
    ```
  }];
  let arguments = (ins I64Attr:$steps);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$steps attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def CopyOp : Plan_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Copies the bytes of one buffer to another";
  let description = [{
    - (C1) both have the same size; they do not overlap.

    ```mlir
    plan.copy %a to %b : !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, Plan_Buffer:$destination);
  let assemblyFormat = "$source `to` $destination attr-dict `:` type($source) `,` type($destination)";
  let hasVerifier = 1;
}

def FillOp : Plan_Op<"fill", [MemoryEffects<[MemWrite]>]> {
  let summary = "Sets a buffer to zeros";
  let description = [{
    What sums of gradient accumulation start from.

    ```mlir
    plan.fill %a : !plan.buffer<tensor<8xf32>>
    ```
  }];
  let arguments = (ins Plan_Buffer:$destination);
  let assemblyFormat = "$destination attr-dict `:` type($destination)";
}

#endif
