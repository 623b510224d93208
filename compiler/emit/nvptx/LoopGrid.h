//===- LoopGrid.h - Grids of loop kernels ----------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_LOOPGRID_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_LOOPGRID_H

#include "compiler/emit/loops/LoopAnalysis.h"
#include "compiler/emit/nvptx/GridFunction.h"

namespace lockstep::emit {

// One per form of a loop kernel (LoopAnalysis.h).
KernelShape emitPointwiseGrid(GridFunction &grid, const LoopAnalysis &domain);
KernelShape emitRowGrid(GridFunction &grid, const LoopAnalysis &domain);
KernelShape emitColumnGrid(GridFunction &grid, const LoopAnalysis &domain);

/// How many neighbouring elements a thread takes at once, so that its widest
/// access has kVectorBytes; a divisor of `size`, the innermost run's.
int64_t getLanes(const LoopAnalysis &domain, int64_t size);

/// The index `major`, `lane`: element `lane` of a vector of `lanes` elements.
Index getLaneIndex(ElementEmitter &e, Digit vector, int64_t lane,
                   int64_t lanes);

/// Computes element results at several indices of the domain, then stores all,
/// so that the loads may become wide ones, and a result may lie over an
/// argument.
void storeElements(GridFunction &grid, const LoopAnalysis &domain,
                   llvm::ArrayRef<unsigned> which,
                   llvm::ArrayRef<Index> indices);

/// The runs of one kind as digits, of a number of row or of an element in it.
llvm::SmallVector<Index> splitRuns(ElementEmitter &e,
                                   const LoopAnalysis &domain, bool reduced,
                                   llvm::ArrayRef<Digit> number);
/// The index in the domain, from its kept and reduced runs.
Index joinRuns(const LoopAnalysis &domain, llvm::ArrayRef<Index> kept,
               llvm::ArrayRef<Index> reduced);

/// Results that have neither the domain's size nor the rows': `thread` of
/// `count` takes every count-th element.
void emitOtherResults(GridFunction &grid, const LoopAnalysis &domain,
                      mlir::Value thread, int64_t count);

} // namespace lockstep::emit

#endif
