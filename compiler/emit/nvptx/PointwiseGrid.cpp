//===- PointwiseGrid.cpp - Loop kernels that reduce nothing ---------------===//
//
// A thread takes one vector of neighbouring elements, and neighbouring threads
// neighbouring vectors.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/LoopGrid.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

KernelShape emit::emitPointwiseGrid(GridFunction &grid,
                                    const LoopAnalysis &domain) {
  ElementEmitter &e = grid.emitter;
  int64_t lanes = getLanes(domain, domain.domainSize),
          count = domain.domainSize / lanes;
  return grid.forEachItem(count, [&](Value item) {
    Digit vector = e.makeDigit(item, count);
    llvm::SmallVector<Index> indices;
    for (int64_t lane = 0; lane < lanes; ++lane)
      indices.push_back(getLaneIndex(e, vector, lane, lanes));
    storeElements(grid, domain, domain.elementResults, indices);
    emitOtherResults(grid, domain, item, count);
  });
}
