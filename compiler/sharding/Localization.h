//===- Localization.h - From global to local shapes -------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_LOCALIZATION_H
#define LOCKSTEP_COMPILER_SHARDING_LOCALIZATION_H

#include "compiler/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::sharding {

/// Rewrites a function that `propagate` has annotated to the shapes of one
/// rank. Where an operand's required sharding is not the value's, collectives
/// and local slices are inserted right after the value, once for all its users;
/// every all_gather and all_to_all is reported by a remark that names the
/// operation. Counts along a divided dimension start at the rank's offset, and
/// dropouts learn theirs. Removes all `dist.*shardings` attributes.
///
/// With `temporal` the parts are micro batches, which cannot communicate: an
/// error says what needs the whole batch.
mlir::LogicalResult localize(mlir::func::FuncOp function, MeshOp mesh,
                             bool temporal = false);

} // namespace lockstep::sharding

#endif
