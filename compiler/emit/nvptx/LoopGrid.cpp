//===- LoopGrid.cpp - What the grids of loop kernels share ----------------===//
#include "compiler/emit/nvptx/LoopGrid.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

int64_t emit::getLanes(const LoopAnalysis &domain, int64_t size) {
  int64_t bytes = 1;
  auto look = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getNumElements() != domain.domainSize)
      return;
    Type storage = getStorageType(tensor.getElementType());
    bytes = std::max<int64_t>(bytes, storage.getIntOrFloatBitWidth() / 8);
  };
  plan::KernelOp kernel = domain.kernel;
  for (Type type : kernel.getArgumentTypes())
    look(type);
  for (Type type : kernel.getResultTypes())
    look(type);
  int64_t lanes = kVectorBytes / std::max<int64_t>(bytes, 2);
  while (size % lanes != 0)
    lanes /= 2;
  return lanes;
}

Index emit::getLaneIndex(ElementEmitter &e, Digit vector, int64_t lane,
                         int64_t lanes) {
  Index index;
  if (vector.size != 1)
    index.push_back(vector);
  if (lanes != 1)
    index.push_back(e.constantDigit(lane, lanes));
  return index;
}

void emit::storeElements(GridFunction &grid, const LoopAnalysis &domain,
                         llvm::ArrayRef<unsigned> which,
                         llvm::ArrayRef<Index> indices) {
  ElementEmitter &e = grid.emitter;
  struct Element {
    unsigned result;
    Index index;
    Value value;
  };
  llvm::SmallVector<Element> elements;
  for (const Index &index : indices)
    for (unsigned i : which) {
      Value result = domain.getResults()[i];
      Index place = domain.getResultIndex(e, result, index);
      elements.push_back({i, place, e.emit(result, place)});
    }
  // Each result's lanes in one piece, so that they become one vector: results
  // may overlap for all that LLVM knows, so it moves no store over another's.
  for (unsigned i : which)
    for (const Element &element : elements)
      if (element.result == i)
        e.store(grid.results[i], element.value, element.index);
}

llvm::SmallVector<Index> emit::splitRuns(ElementEmitter &e,
                                         const LoopAnalysis &domain,
                                         bool reduced,
                                         llvm::ArrayRef<Digit> number) {
  llvm::SmallVector<int64_t> sizes;
  for (const Run &run : domain.runs)
    if (run.reduced == reduced)
      sizes.push_back(run.size);
  return e.splitGroups(number, sizes);
}

Index emit::joinRuns(const LoopAnalysis &domain, llvm::ArrayRef<Index> kept,
                     llvm::ArrayRef<Index> reduced) {
  Index index;
  for (const Run &run : domain.runs) {
    llvm::ArrayRef<Index> &from = run.reduced ? reduced : kept;
    index.append(from.front().begin(), from.front().end());
    from = from.drop_front();
  }
  return index;
}

void emit::emitOtherResults(GridFunction &grid, const LoopAnalysis &domain,
                            Value thread, int64_t count) {
  ElementEmitter &e = grid.emitter;
  for (unsigned i : domain.otherResults) {
    int64_t size = getNumElements(domain.getResults()[i]);
    e.loop(
        thread, e.number(size), {},
        [&](Value number, llvm::ArrayRef<Value>) {
          Index index;
          if (size != 1)
            index.push_back(e.makeDigit(number, size));
          storeResults(grid, {i}, [&](Value) { return index; });
          return GridFunction::Values();
        },
        /*parallel=*/true, e.number(count));
  }
}

FailureOr<KernelShape> emit::emitLoopThreads(GridFunction &grid) {
  LoopAnalysis domain(grid.kernel);
  switch (domain.form) {
  case LoopForm::Pointwise:
    return emitPointwiseGrid(grid, domain);
  case LoopForm::Rows:
    return emitRowGrid(grid, domain);
  case LoopForm::Columns:
    return emitColumnGrid(grid, domain);
  }
  llvm_unreachable("all forms are handled");
}
