//===- ReverseMode.h - Gradients by one walk backward -----------*- C++ -*-===//
//
// Reverse-mode differentiation of a straight line of operations: one walk from
// the loss to the beginning that asks each operation's
// DifferentiableOpInterface for the gradients of its operands and adds up what
// several users of a value say. It takes time linear in the number of
// operations. Gradients are built only where they lead to a wanted value (the
// activity analysis), so integer tensors, masks, frozen parameters and
// everything computed from them alone cost nothing.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_REVERSEMODE_H
#define LOCKSTEP_COMPILER_AUTODIFF_REVERSEMODE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace lockstep::autodiff {

/// Builds the gradients of a function of `operations` (in execution order, each
/// before its users) with respect to `wanted`, at `builder`'s insertion point,
/// which comes after all of them. `cotangents` belong to `results`; null ones
/// are zero. Returns one gradient per wanted value, of its type; null where it
/// is zero. Fails, with an error at the operation, where an operation in
/// between has no derivative.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildReverseMode(mlir::OpBuilder &builder,
                 llvm::ArrayRef<mlir::Operation *> operations,
                 mlir::ValueRange results, mlir::ValueRange cotangents,
                 mlir::ValueRange wanted);

/// What DifferentiableOpInterface::buildGradients returns, from the operation's
/// decomposition. The decomposition is recomputed at the insertion point, so
/// that the operation itself stays whole and keeps nothing more.
llvm::SmallVector<mlir::Value>
buildGradientsOfDecomposition(mlir::Operation *op, mlir::OpBuilder &builder,
                              mlir::ValueRange cotangents,
                              llvm::ArrayRef<bool> needed);

} // namespace lockstep::autodiff

#endif
