//===- DistDialect.td - Meshes, shardings, collectives -----*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_DIST_DISTDIALECT_TD
#define LOCKSTEP_DIALECTS_DIST_DISTDIALECT_TD

include "mlir/IR/OpBase.td"

def DistDialect : Dialect {
  let name = "dist";
  let summary = "Meshes, shardings and collectives as values";
  let description = [{
    The `dist` dialect says how a program is spread over ranks. A `dist.mesh` names the axes along which ranks are arranged, a
    `#dist.sharding` says which part of a tensor a rank holds, and collectives are pure operations on tensors: every rank of a group
    gives its operands and gets its results. Partition creates all of it, with local shapes; schedule turns the collectives into starts
    and waits of the plan.

    Ranks are numbered row-major by their coordinates, the mesh's first axis being the slowest. A collective over `axes` runs in
    groups: ranks that agree in the coordinate of every other axis are one group, and a rank's place in the group is the row-major
    number of its coordinates along `axes` in the order in which they are listed, the first listed being the slowest. A sub-axis
    `"data":(p)s` is the part of an axis seen as [p, s, size / (p s)] that runs over the middle factor.
  }];
  let cppNamespace = "::lockstep::dist";
  // Reduction kinds are those of `train`.
  let dependentDialects = ["::lockstep::train::TrainDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Argument attribute (a ShardingAttr): the part of the argument that each rank holds. Input of propagation.
    static constexpr llvm::StringLiteral kShardingAttr = "dist.sharding";
    /// Attributes that propagation leaves on operations for localization (arrays of ShardingAttr).
    static constexpr llvm::StringLiteral kOperandShardingsAttr = "dist.operand_shardings";
    static constexpr llvm::StringLiteral kResultShardingsAttr = "dist.result_shardings";
  }];
}

#endif
