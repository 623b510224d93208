//===- Trial.h - A function with values computed again ----------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_TRIAL_H
#define LOCKSTEP_COMPILER_SCHEDULE_TRIAL_H

#include "compiler/schedule/Memory.h"
#include "compiler/schedule/Recipe.h"
#include "mlir/IR/IRMapping.h"

namespace lockstep::schedule {

/// A value of the original function that is computed again.
struct Choice {
  /// They read the new value; none where only recipes do.
  llvm::SetVector<mlir::Operation *> readers;
  /// Results of the same call that its recipe may read.
  llvm::SmallBitVector kept;
};
using Choices = llvm::MapVector<mlir::Value, Choice>;

/// A copy of the function with some choices carried out, and its memory.
struct Trial {
  mlir::func::FuncOp function;
  /// From the original.
  mlir::IRMapping mapping;
  std::unique_ptr<SharedLayout> shared = std::make_unique<SharedLayout>();
  std::unique_ptr<mlir::SymbolTable> symbols;
  std::unique_ptr<MemoryPlanner> planner;
  llvm::SmallVector<Lifetime> lifetimes;
  int64_t arenaBytes = 0;
  /// Where most is alive.
  int64_t position = 0;
  /// Of the calls that compute something again.
  int64_t calls = 0;
  double seconds = 0;
  /// Values that kernels give besides their own (MergeParts.h).
  int64_t merged = 0;
};

/// A trial beside `original`, one of the functions `all` of a module; the
/// caller erases its function. With `spared`, values are given by kernels that
/// run anyway, but for those of the first so many calls (MergeParts.h); the
/// mapping is then of no use.
mlir::FailureOr<Trial> carryOut(const Choices &choices,
                                mlir::func::FuncOp original,
                                llvm::ArrayRef<mlir::func::FuncOp> all,
                                RecipeBook &book,
                                std::optional<size_t> spared = {});

} // namespace lockstep::schedule

#endif
