//===- Decision.h - How one operation is divided ----------------*- C++ -*-===//
//
// An operation's factor rule (dialects/train/ShardingRule.h) and the shardings
// of its operands decide how it is divided. The axes of each operand's
// dimensions are assigned to factors, major factor first, splitting an axis
// where a factor is smaller. Where operands disagree, the larger tensor wins,
// and an axis divides one factor only. Then
//   - axes on a Replicate factor are dropped, and on a Decompose factor ask for
//   the operation to be expanded;
//   - axes on a minor factor are dropped unless every factor before it in each
//   dimension is divided completely, because blocks
//     of a dimension are contiguous;
//   - Reduction factors make the results that lack them partial.
// What was dropped must be gathered: the operand's required sharding then lacks
// axes that the operand has.
//
// A partial operand is passed through an operation that is linear in it (so
// that its reduction can come later, once, on less data); everywhere else the
// required sharding asks for the reduction.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_SHARDING_DECISION_H
#define LOCKSTEP_COMPILER_SHARDING_DECISION_H

#include "compiler/sharding/Sharding.h"

namespace lockstep::sharding {

struct Decision {
  /// What each operand must be resharded to, and what each result then is.
  llvm::SmallVector<ShardingAttr> operands;
  llvm::SmallVector<ShardingAttr> results;
  /// A Decompose factor is divided: the operation must be replaced by simpler
  /// ones (expandOp) before it can be decided.
  bool expand = false;
};

/// Decides from the operands' shardings. With `temporal`, the axis is that of
/// micro batches: batch statistics stay per micro batch.
Decision decide(mlir::Operation *op, llvm::ArrayRef<ShardingAttr> operands,
                MeshOp mesh, bool temporal);

/// Decides again so that result 0 is `wanted`, which divides dimensions that
/// `current` leaves whole. Nothing where that cannot be.
std::optional<Decision> decideForResult(mlir::Operation *op,
                                        const Decision &current,
                                        ShardingAttr wanted, MeshOp mesh);

/// Replaces the operation by its decomposition. Scatters are split into one
/// with a neutral base and a combination.
void expandOp(mlir::Operation *op);

/// A batch norm whose statistics are those of each rank's (or micro batch's)
/// part.
bool hasLocalStatistics(mlir::Operation *op);

} // namespace lockstep::sharding

#endif
