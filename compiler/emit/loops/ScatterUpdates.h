//===- ScatterUpdates.h - What scatters share ------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_SCATTERUPDATES_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_SCATTERUPDATES_H

#include "compiler/emit/loops/KernelFunction.h"

namespace lockstep::emit {

/// What an element becomes under an update.
mlir::Value combineUpdate(ScalarBuilder &b, train::ScatterOp op,
                          mlir::Value old, mlir::Value update);

/// Whether the scatter's operand lies elsewhere than its result, so that it
/// must be copied; null where that is known, or while planning.
mlir::Value liesApart(ElementEmitter &e, mlir::Value operand, Buffer result);

} // namespace lockstep::emit

#endif
