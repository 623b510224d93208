//===- DistAttrs.td - Axes, shardings, the token type ------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_DIST_DISTATTRS_TD
#define LOCKSTEP_DIALECTS_DIST_DISTATTRS_TD

include "dialects/dist/DistDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"

class Dist_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<DistDialect, name, traits> {
  let mnemonic = attrMnemonic;
  let hasCustomAssemblyFormat = 1;
}

def Dist_AxisAttr : Dist_Attr<"Axis", "axis"> {
  let summary = "A mesh axis, or a sub-axis of one";
  let description = [{
    `"data"` is a whole axis. `"data":(2)4` is a sub-axis: the axis seen as [2, 4, rest], and of it the middle factor. Partition uses
    sub-axes where a divided dimension is split by a reshape into pieces smaller than the axis.
  }];
  /// preSize and size are 0 for a whole axis.
  let parameters = (ins StringRefParameter<"name of the axis">:$name, "int64_t":$preSize, "int64_t":$size);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$name), [{ return $_get($_ctxt, name, 0, 0); }]>];
  let extraClassDeclaration = [{
    bool isWhole() const { return getSize() == 0; }
    /// Ranks that differ along this axis may differ along the other: same axis, and not disjoint sub-axes.
    bool overlaps(AxisAttr other) const;
  }];
}

def Dist_AxesAttr : Dist_Attr<"Axes", "axes"> {
  let summary = "A list of axes, slowest first";
  let description = [{
    The axes over which a collective runs, or over which one dimension of a tensor is divided.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::lockstep::dist::AxisAttr">:$axes);
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<::llvm::StringRef>":$names)>];
  let extraClassDeclaration = [{
    bool empty() const { return getAxes().empty(); }
    auto begin() const { return getAxes().begin(); }
    auto end() const { return getAxes().end(); }
  }];
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Which part of a tensor each rank holds";
  let description = [{
    One list of axes per dimension: the dimension is cut into as many equal blocks as its axes have ranks, and the rank's place along
    the axes is its block. Along an axis named in no list every rank holds the same. Two exceptions:

    - `partial<kind, axes>`: ranks along the axes hold values that must still be combined by `kind` to give the tensor.
    - `varying<axes>`: ranks along the axes hold values of their own, and no combination of them is meant (batch statistics with
      `local_statistics`).

    ```mlir
    #dist.sharding<[["data"], []]>                          // rows divided
    #dist.sharding<[[], []], partial<sum, ["data"]>>        // a gradient before its all-reduce
    #dist.sharding<[["data":(1)2], ["data":(2)2]]>          // one axis over two dimensions
    ```

    May stand as the encoding of a tensor type, where

    - (C1) there is one list per dimension of the tensor.
    - (C2) no axis, or overlapping sub-axis, is named twice.

    Created by partition from the strategy, carried on arguments and operations between its passes, and gone after it.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::lockstep::dist::AxesAttr">:$dims, "::lockstep::train::ReduceKind":$kind,
                        "::lockstep::dist::AxesAttr":$partial, "::lockstep::dist::AxesAttr":$varying);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The sharding of a tensor of which every rank holds all.
    static ShardingAttr getReplicated(::mlir::MLIRContext *context, int64_t rank);
    /// No dimension is divided, nothing partial or varying.
    bool isReplicated() const;
    bool isPartial() const { return !getPartial().empty(); }
    bool isVarying() const { return !getVarying().empty(); }
    bool isDivided() const;
  }];
}

def Dist_TokenType : TypeDef<DistDialect, "Token"> {
  let mnemonic = "token";
  let summary = "A collective under way, which will give these values";
  let description = [{
    Made by `dist.start`, consumed by exactly one `dist.wait`.

    ```mlir
    !dist.token<tensor<4xf32>, tensor<8xf32>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$types);
  let assemblyFormat = "`<` $types `>`";
}

#endif
