//===- Summary.h - What a schedule amounts to -------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_SUMMARY_H
#define LOCKSTEP_COMPILER_SCHEDULE_SUMMARY_H

#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::schedule {

/// Counts of one program (loops multiply) and its memory per rank.
struct ScheduleSummary {
  /// Different kernels of the module.
  int64_t kernels = 0;
  int64_t launches = 0, collectives = 0;
  /// Bytes that this rank contributes to collectives.
  int64_t collectiveBytes = 0;
  /// The arena, which is what a run allocates; persistent tensors in it; the
  /// most that is alive at once.
  int64_t arenaBytes = 0, persistentBytes = 0, aliveBytes = 0;
  double flops = 0, bytes = 0;
  /// What is computed again to fit the memory limit: kernel calls, and values
  /// that kernels give besides their own, bytes that the arena is smaller for
  /// it, seconds that they are predicted to take.
  int64_t recomputedCalls = 0, recomputedResults = 0, recomputedBytes = 0;
  double recomputedSeconds = 0;
};

/// Of the program whose entry is `entry` ("step" or "eval"), after schedule;
/// all zeros where there is none.
ScheduleSummary summarize(mlir::ModuleOp module, llvm::StringRef entry);

} // namespace lockstep::schedule

#endif
