//===- FoldConstants.h - Evaluates operations on constants --------------*- C++
//-*-===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_FOLDCONSTANTS_H
#define LOCKSTEP_COMPILER_REFERENCE_FOLDCONSTANTS_H

#include "compiler/reference/HostTensor.h"
#include "mlir/IR/Operation.h"

namespace lockstep {

/// The results of a `train` operation all of whose operands are
/// `train.constant`, or which has none. Fails where they are not, where the
/// operation cannot be evaluated, or where an operand or result has more than
/// `maxElements` elements that are not one splat (broadcasts of one value count
/// nothing).
mlir::FailureOr<llvm::SmallVector<HostTensor>>
evaluateOnConstants(mlir::Operation *op, int64_t maxElements);

/// The value that `value` has in every run: evaluates the operations that lead
/// to it, back to constants. Fails where it depends on an argument, or beyond
/// `maxElements` as above. Serves the recognition of masks.
mlir::FailureOr<HostTensor> evaluateConstantExpression(mlir::Value value,
                                                       int64_t maxElements);

} // namespace lockstep

#endif
