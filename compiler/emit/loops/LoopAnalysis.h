//===- LoopAnalysis.h - The domain of a loop kernel ------------*- C++ -*-===//
//
// A kernel of kind `loop` has one domain: what its reduces reduce, or its
// largest result. What the host's loops and a GPU's grid both need to know of
// it is here; how it is spread over work items is theirs.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_LOOPANALYSIS_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_LOOPANALYSIS_H

#include "compiler/emit/loops/KernelFunction.h"

namespace lockstep::emit {

/// Pointwise: no reduce. Rows: the innermost run of the domain is reduced.
/// Columns: it is kept.
enum class LoopForm { Pointwise, Rows, Columns };

/// Reduces that run in one loop nest.
using Stage = llvm::SmallVector<train::ReduceOp>;

struct LoopAnalysis {
  explicit LoopAnalysis(plan::KernelOp kernel);

  plan::KernelOp kernel;
  LoopForm form = LoopForm::Pointwise;
  llvm::SmallVector<Run> runs; ///< of the domain, no sizes of 1
  int64_t domainSize = 1;
  int64_t rowCount = 1; ///< combinations of the kept runs

  /// Of reduces that do not depend on one another; each stage may use the
  /// results of those before.
  llvm::SmallVector<Stage> stages;

  // Numbers of the kernel's results, by their size: one element per element of
  // the domain, one per row, anything else.
  llvm::SmallVector<unsigned> elementResults, rowResults, otherResults;
  /// Element results that need no reduce: the first stage, which has them at
  /// hand, may store them. Where they may be stored over an argument (rows), no
  /// other loop may read it afterwards.
  llvm::SmallVector<unsigned> earlyResults;

  mlir::OperandRange getResults() const {
    return plan::KernelOp(kernel).getBlock().getTerminator()->getOperands();
  }
  /// Element results that earlyResults leaves.
  llvm::SmallVector<unsigned> getLateResults() const;
  /// The index at which to store `result`, an element result, for the element
  /// of the domain at `index`: a transposed copy of what the loops visit in
  /// order is stored transposed.
  Index getResultIndex(ElementEmitter &e, mlir::Value result,
                       Index index) const;

private:
  void findDomain();
  void findStages();
  void findEarlyResults();
};

/// The element type of what `reduce` reduces.
mlir::Type getReducedElement(train::ReduceOp reduce);
int64_t getNumElements(mlir::Value tensor);

/// Computes the elements of the results `which` at the index that `indexOf`
/// gives for each, then stores all.
void storeResults(KernelFunction &function, llvm::ArrayRef<unsigned> which,
                  llvm::function_ref<Index(mlir::Value)> indexOf);

} // namespace lockstep::emit

#endif
