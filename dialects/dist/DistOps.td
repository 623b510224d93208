//===- DistOps.td - Mesh, collectives, start and wait ------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_DIST_DISTOPS_TD
#define LOCKSTEP_DIALECTS_DIST_DISTOPS_TD

include "dialects/dist/DistAttrs.td"
include "dialects/dist/DistInterfaces.td"
include "dialects/train/TrainBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<DistDialect, mnemonic, traits>;

/// Uses a mesh; the sizes that depend on it are verified where the mesh can be looked up.
class Dist_MeshUser<string mnemonic, list<Trait> traits = []>
    : Dist_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)>;

class Dist_Collective<string mnemonic, list<Trait> traits = []>
    : Dist_MeshUser<mnemonic, !listconcat([CollectiveOpInterface], traits)>;

def MeshOp : Dist_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "The ranks, arranged along named axes";
  let description = [{
    Ranks are numbered row-major, the first axis slowest. Created by the strategy at the start of partition, removed by schedule.

    - (C1) names are distinct and not empty.
    - (C2) sizes are at least 1.

    ```mlir
    dist.mesh @mesh ["data" = 4, "model" = 2]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axis_names, DenseI64ArrayAttr:$axis_sizes);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axis_names, $axis_sizes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Ranks of the mesh.
    int64_t getNumRanks();
    /// Position of the axis, or -1.
    int64_t getAxisIndex(::llvm::StringRef name);
    /// Ranks along the axis or sub-axis (which must exist).
    int64_t getSize(::lockstep::dist::AxisAttr axis);
    /// Ranks along all of the axes together.
    int64_t getSize(::lockstep::dist::AxesAttr axes);
    /// The place of `rank` along `axes`: the row-major number of its coordinates, first listed slowest.
    int64_t getCoordinate(int64_t rank, ::lockstep::dist::AxesAttr axes);
    /// The ranks of each group of a collective over `axes`, in their order in the group; groups ordered by first rank.
    ::llvm::SmallVector<::llvm::SmallVector<int64_t>> getGroups(::lockstep::dist::AxesAttr axes);
  }];
}

def AllReduceOp : Dist_Collective<"all_reduce"> {
  let summary = "Combines a value over the ranks of a group; every rank gets the result";
  let description = [{
    result_i = kind over the group's ranks of input_i. Several inputs are one bucket: one message on the wire. Created by partition, bucketed by
    lockstep-partition-bucket, turned into a start and a wait by schedule.

    - (C1) there is at least one input, and all have one element type.
    - (C2) results have the inputs' types.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0:2 = dist.all_reduce sum %a, %b on @mesh ["data"] : tensor<4xf32>, tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Variadic<Train_Tensor>:$inputs, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Variadic<Train_Tensor>:$outputs);
  let assemblyFormat = "$kind $inputs `on` $mesh custom<AxisList>($axes) attr-dict `:` custom<SameTypes>(type($inputs), type($outputs))";
  let hasVerifier = 1;
}

def AllGatherOp : Dist_Collective<"all_gather"> {
  let summary = "Joins the parts of the ranks of a group along one dimension; every rank gets the whole";
  let description = [{
    Parts are joined in the order of the group. Several inputs are one bucket, and all use `dim`. Created by partition (a reshard that is reported by
    a remark), turned into a start and a wait by schedule.

    - (C1) there is at least one input, and all have one element type.
    - (C2) each result is its input with dimension `dim` multiplied by the ranks of the group.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.all_gather %a dim 0 on @mesh ["data"] : (tensor<2x4xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Variadic<Train_Tensor>:$inputs, I64Attr:$dim, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Variadic<Train_Tensor>:$outputs);
  let assemblyFormat = "$inputs `dim` $dim `on` $mesh custom<AxisList>($axes) attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

def ReduceScatterOp : Dist_Collective<"reduce_scatter"> {
  let summary = "Combines a value over the ranks of a group; each rank gets its part along one dimension";
  let description = [{
    The rank at place i of the group gets block i of kind over the group's inputs. Several inputs are one bucket, and all use `dim`. Created by partition, turned
    into a start and a wait by schedule.

    - (C1) there is at least one input, and all have one element type.
    - (C2) each result is its input with dimension `dim` divided by the ranks of the group.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.reduce_scatter sum %a dim 0 on @mesh ["data"] : (tensor<8x4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Train_ReduceKindAttr:$kind, Variadic<Train_Tensor>:$inputs, I64Attr:$dim, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Variadic<Train_Tensor>:$outputs);
  let assemblyFormat = "$kind $inputs `dim` $dim `on` $mesh custom<AxisList>($axes) attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

def AllToAllOp : Dist_Collective<"all_to_all"> {
  let summary = "Each rank of a group sends block j of one dimension to rank j, and joins what it gets along another";
  let description = [{
    The rank at place j gets, in the order of the group, every rank's block j along `split_dim`, joined along `concat_dim`. Created by partition where an axis moves
    from one dimension to another, turned into a start and a wait by schedule.

    - (C1) the result is the input with `split_dim` divided and then `concat_dim` multiplied by the ranks of the group (they may be one dimension).
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.all_to_all %a split 1 concat 0 on @mesh ["data"] : tensor<2x8xf32> -> tensor<8x2xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$input, I64Attr:$split_dim, I64Attr:$concat_dim, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Train_Tensor:$output);
  let assemblyFormat = "$input `split` $split_dim `concat` $concat_dim `on` $mesh custom<AxisList>($axes) attr-dict `:` type($input) `->` type($output)";
  let hasVerifier = 1;
}

def BroadcastOp : Dist_Collective<"broadcast", [AllTypesMatch<["input", "output"]>]> {
  let summary = "Every rank of a group gets the value of one of them";
  let description = [{
    `root` is a place in the group. Created by partition, turned into a start and a wait by schedule.

    - (C1) `root` is a place in the group.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.broadcast %a root 0 on @mesh ["data"] : tensor<4xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$input, I64Attr:$root, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Train_Tensor:$output);
  let assemblyFormat = "$input `root` $root `on` $mesh custom<AxisList>($axes) attr-dict `:` type($input)";
}

def CollectivePermuteOp : Dist_Collective<"collective_permute", [AllTypesMatch<["input", "output"]>]> {
  let summary = "Ranks of a group send to one another, each at most one message each way";
  let description = [{
    `pairs` lists source and target places in the group, alternating. A rank that is no target gets zeros. Pipelines and rings are made of it.
    Created by partition, turned into a start and a wait by schedule.

    - (C1) `pairs` has an even number of entries, each a place in the group.
    - (C2) no place is a source twice, or a target twice.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.collective_permute %a pairs [0, 1, 1, 0] on @mesh ["data"] : tensor<4xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$input, DenseI64ArrayAttr:$pairs, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Train_Tensor:$output);
  let assemblyFormat = "$input `pairs` $pairs `on` $mesh custom<AxisList>($axes) attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def CoordinateOp : Dist_MeshUser<"coordinate"> {
  let summary = "This rank's place along some axes";
  let description = [{
    The row-major number of the rank's coordinates along `axes`, first listed slowest: its place in the group of a collective over `axes`. Created by partition,
    a scalar that the runtime fills in once after schedule.

    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.coordinate on @mesh ["data"] : tensor<i64>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "`on` $mesh custom<AxisList>($axes) attr-dict `:` type($result)";
}

def LocalSliceOp : Dist_MeshUser<"local_slice"> {
  let summary = "This rank's block of a value that all ranks of the group hold whole";
  let description = [{
    Dimension `dim` is cut into as many equal blocks as the group has ranks; the result is the block of this rank's place along `axes`. No communication. Created by
    partition where a whole value meets a divided one, a copy kernel after fuse.

    - (C1) `dim` is a dimension of the input.
    - (C2) the result is the input with dimension `dim` divided by the ranks of the group.
    - (C3) the mesh exists, and has every axis in `axes`.

    ```mlir
    %0 = dist.local_slice %a dim 0 on @mesh ["data"] : tensor<8x4xf32> -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Train_Tensor:$input, I64Attr:$dim, FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes);
  let results = (outs Train_Tensor:$output);
  let assemblyFormat = "$input `dim` $dim `on` $mesh custom<AxisList>($axes) attr-dict `:` type($input) `->` type($output)";
  let hasVerifier = 1;
}

def YieldOp : Dist_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"StartOp">]> {
  let summary = "Ends the body of start with the collective's results";
  let description = "Created by schedule together with `dist.start`, and removed with it.";
  let arguments = (ins Variadic<Train_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def StartOp : Dist_Op<"start", [SingleBlock]> {
  let summary = "Starts a collective and does not wait for it";
  let description = [{
    The body holds one collective and yields all its results; its operands come from outside, and must not be overwritten before the wait. Every rank
    starts the collectives of one communicator in the same order. Created by schedule, removed when it builds the plan.

    - (C1) the body is one collective whose results are yielded in order.
    - (C2) the token lists the types of the yielded values.

    ```mlir
    %t = dist.start {
      %0 = dist.all_reduce sum %a on @mesh ["data"] : tensor<4xf32>
      dist.yield %0 : tensor<4xf32>
    } : !dist.token<tensor<4xf32>>
    ```
  }];
  let results = (outs Dist_TokenType:$token);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict `:` type($token)";
  let hasVerifier = 1;
}

def WaitOp : Dist_Op<"wait"> {
  let summary = "Waits for a started collective and gives its results";
  let description = [{
    Created by schedule as late as the first use allows, removed when it builds the plan.

    - (C1) results have the types that the token lists.
    - (C2) a token is waited for once.

    ```mlir
    %0 = dist.wait %t : !dist.token<tensor<4xf32>> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dist_TokenType:$token);
  let results = (outs Variadic<Train_Tensor>:$outputs);
  let assemblyFormat = "$token attr-dict `:` type($token) `->` type($outputs)";
  let hasVerifier = 1;
}

#endif
