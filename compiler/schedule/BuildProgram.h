//===- BuildProgram.h - Steps become a plan.program -------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_BUILDPROGRAM_H
#define LOCKSTEP_COMPILER_SCHEDULE_BUILDPROGRAM_H

#include "compiler/schedule/Memory.h"

namespace lockstep::schedule {

/// Writes the program of `function` before it. `offsets` are those of the
/// planner's own storages, relative to the end of the shared buffers.
plan::ProgramOp buildProgram(mlir::func::FuncOp function,
                             const SharedLayout &shared, MemoryPlanner &planner,
                             llvm::ArrayRef<int64_t> offsets,
                             int64_t arenaBytes);

} // namespace lockstep::schedule

#endif
