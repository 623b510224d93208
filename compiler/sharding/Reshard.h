//===- Reshard.h - From one sharding to another -----------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_RESHARD_H
#define LOCKSTEP_COMPILER_SHARDING_RESHARD_H

#include "compiler/sharding/Sharding.h"
#include "llvm/ADT/DenseMap.h"

namespace lockstep::sharding {

/// Builds the collectives that turn a local value of one sharding into that of
/// another, and remembers them per value.
///
///   partial → divided over the same axes   reduce_scatter
///   partial → whole                        all_reduce
///   an axis moves between dimensions       all_to_all
///   divided → whole                        all_gather
///   whole → divided                        local_slice (no communication)
class Resharder {
public:
  Resharder(MeshOp mesh, bool temporal) : mesh(mesh), temporal(temporal) {}

  /// `value` is local, of sharding `from`; `user` is what needs it. Null after
  /// an error (temporal only).
  mlir::Value reshard(mlir::Value value, ShardingAttr from, ShardingAttr to,
                      mlir::Operation *user);

private:
  mlir::Value build(mlir::Value value, ShardingAttr from, ShardingAttr to,
                    mlir::Operation *user);
  mlir::Value reduce(mlir::OpBuilder &builder, mlir::Value value,
                     llvm::SmallVector<AxisList> &dims, ShardingAttr from,
                     ShardingAttr to);
  mlir::Value move(mlir::OpBuilder &builder, mlir::Value value,
                   llvm::SmallVector<AxisList> &dims, ShardingAttr to,
                   mlir::Operation *user);

  MeshOp mesh;
  bool temporal;
  llvm::DenseMap<std::pair<mlir::Value, ShardingAttr>, mlir::Value> cache;
};

} // namespace lockstep::sharding

#endif
