//===- ScalarFunction.h - Pointwise work as a function ----------*- C++ -*-===//
//
// What a chain of pointwise operations makes of one element, as a number. Two
// spellings of a function (GELU by tanh of a polynomial or of a power, a
// derivative in any order of its terms) give the same numbers.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_PLAN_SCALARFUNCTION_H
#define LOCKSTEP_DIALECTS_PLAN_SCALARFUNCTION_H

#include "dialects/plan/Plan.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace lockstep::plan {

/// An element of `value` where the elements of the map's values that stand at
/// the same row-major position are those numbers. Conversions do not round.
/// Nothing where `value` depends on something else, or on an operation that is
/// not pointwise real arithmetic, a reshape or a constant of equal elements.
std::optional<double> evaluateElement(mlir::Value value,
                                      llvm::DenseMap<mlir::Value, double> &at);

} // namespace lockstep::plan

#endif
