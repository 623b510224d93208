// Small questions that the patterns ask of a value.
#ifndef LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_MATCHING_H
#define LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_MATCHING_H

#include "compiler/import/aten/Emitter.h"
#include <optional>

namespace lockstep::recognize {

/// The number that every element is.
std::optional<double> splatOf(mlir::Value value);

/// For a commutative pair: calls `match(a, b)`, then `match(b, a)`, until one
/// returns true.
bool eitherOrder(mlir::Value a, mlir::Value b,
                 llvm::function_ref<bool(mlir::Value, mlir::Value)> match);

/// Through reshapes that only add or remove sizes of 1, and broadcasts that
/// only repeat: the value that is repeated. `isRow` tells whether each of the
/// repeated value's non-unit dimensions is the same leading dimension of
/// `value`.
mlir::Value repeatedRows(mlir::Value value, int64_t reducedDims);

/// A value that is repeated along all leading dimensions of `value` and has its
/// last `axes` dimensions: a weight. Null otherwise.
mlir::Value repeatedWeight(mlir::Value value, int64_t axes);

/// The operand when `value` is a sum over the last `axes` > 0 dimensions,
/// divided by their count.
mlir::Value meanOperand(mlir::Value value, int64_t &axes);

} // namespace lockstep::recognize

#endif // LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_MATCHING_H
