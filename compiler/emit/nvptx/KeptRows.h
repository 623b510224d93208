//===- KeptRows.h - Rows in shared memory ----------------------*- C++ -*-===//
//
// A block whose kernel passes several times over a row too long for registers
// keeps its elements in shared memory, as they lie in the arguments. A thread
// reads back what it has written itself, so that nothing waits.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_KEPTROWS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_KEPTROWS_H

#include "compiler/emit/loops/LoopAnalysis.h"
#include "compiler/emit/nvptx/GridFunction.h"

namespace lockstep::emit {

class KeptRows {
public:
  explicit KeptRows(GridFunction &grid) : grid(grid), e(grid.emitter) {}

  /// Keeps the rows of the domain's arguments, `vectors` times `lanes` elements
  /// each, if there are several passes over them and two blocks of a
  /// multiprocessor have room for theirs. Before anything is emitted.
  bool tryKeep(const LoopAnalysis &domain, int64_t vectors, int64_t lanes);

  /// Makes the elements of vectors known, whose indices in the domain are
  /// given: in the first pass from memory, whence they are kept.
  void load(llvm::ArrayRef<Digit> vectors, llvm::ArrayRef<Index> indices);
  void finishPass() { isLoaded = true; }

private:
  GridFunction::Values loadAndKeep(mlir::Value argument, const Buffer &buffer,
                                   llvm::ArrayRef<Digit> vectors,
                                   llvm::ArrayRef<Index> indices);
  GridFunction::Values loadKept(const Buffer &buffer,
                                llvm::ArrayRef<Digit> vectors);

  GridFunction &grid;
  ElementEmitter &e;
  int64_t lanes = 1;
  llvm::SmallVector<std::pair<mlir::Value, Buffer>> rows;
  bool isLoaded = false;
};

} // namespace lockstep::emit

#endif
