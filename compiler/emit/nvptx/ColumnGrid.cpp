//===- ColumnGrid.cpp - Loop kernels that reduce along columns ------------===//
//
// The innermost run of the domain is kept: neighbouring threads take
// neighbouring columns, and groups of threads share the elements of a column,
// whose partial results meet in shared memory, as a tree. A tall column is cut
// before, into several reductions (fuse's split-reductions), so that there are
// blocks enough.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/LoopGrid.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

namespace {

class ColumnGrid {
public:
  ColumnGrid(GridFunction &grid, const LoopAnalysis &domain)
      : grid(grid), e(grid.emitter), domain(domain) {}
  KernelShape run();

private:
  void placeThread();
  void emitStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  /// The whole of a column from its groups' partial results, for all groups.
  Value combineGroups(train::ReduceOp reduce, Value partial);
  /// `body` with the index of each of this thread's elements.
  GridFunction::Values
  forElements(llvm::ArrayRef<Value> init,
              llvm::function_ref<GridFunction::Values(const Index &,
                                                      llvm::ArrayRef<Value>)>
                  body);
  void ifValid(llvm::function_ref<void()> body) {
    exact ? body() : e.branch(valid, body);
  }

  GridFunction &grid;
  ElementEmitter &e;
  const LoopAnalysis &domain;
  int64_t columns, groups; ///< of a block
  bool exact;              ///< all blocks have all their columns
  Value group, valid;
  Digit place; ///< this thread in its block
  llvm::SmallVector<Index> kept;
  Index row; ///< this thread's column, in the order of the row-level results
};

} // namespace

void ColumnGrid::placeThread() {
  int64_t width = domain.runs.back().size, outer = domain.rowCount / width,
          height = domain.domainSize / domain.rowCount;
  columns = std::min<int64_t>(kWarpSize, llvm::PowerOf2Ceil(width));
  groups =
      std::min<int64_t>(kBlockThreads / columns, llvm::PowerOf2Ceil(height));
  groups = std::max(groups, kWarpSize / columns);
  exact = width % columns == 0;
  int64_t blocksPerRow = llvm::divideCeil(width, columns);
  grid.setGrid(outer * blocksPerRow, columns * groups);
  place = e.makeDigit(grid.thread, columns * groups);
  group = grid.divide(grid.thread, columns);
  Value column =
      grid.addProduct(grid.remainder(grid.thread, columns),
                      grid.remainder(grid.block, blocksPerRow), columns);
  if (!exact && !e.isPlanning()) {
    valid = grid.less(column, e.number(width));
    column = e.scalars().select(valid, column, e.number(width - 1));
  }
  Index digits;
  if (outer != 1)
    digits.push_back(e.makeDigit(grid.divide(grid.block, blocksPerRow), outer));
  digits.push_back(e.makeDigit(column, width));
  kept = splitRuns(e, domain, /*reduced=*/false, digits);
  for (const Index &part : kept)
    row.append(part.begin(), part.end());
}

GridFunction::Values ColumnGrid::forElements(
    llvm::ArrayRef<Value> init,
    llvm::function_ref<GridFunction::Values(const Index &,
                                            llvm::ArrayRef<Value>)>
        body) {
  int64_t height = domain.domainSize / domain.rowCount;
  return e.loop(
      group, e.number(height), init,
      [&](Value i, llvm::ArrayRef<Value> carried) {
        return body(joinRuns(domain, kept,
                             splitRuns(e, domain, /*reduced=*/true,
                                       {e.makeDigit(i, height)})),
                    carried);
      },
      /*parallel=*/true, e.number(groups));
}

Value ColumnGrid::combineGroups(train::ReduceOp reduce, Value partial) {
  if (groups == 1)
    return partial;
  Type element = getReducedElement(reduce), type = getComputeType(element);
  int64_t size = columns * groups;
  Buffer partials = grid.sharedBuffer(type, size);
  e.store(partials, partial, {place});
  grid.barrier();
  for (int64_t half = groups / 2; half > 0; half /= 2) {
    e.branch(grid.less(group, e.number(half)), [&] {
      Digit other = e.makeDigit(
          grid.addProduct(place.value, e.number(half), columns), size);
      Value x = e.load(partials, {place}), y = e.load(partials, {other});
      e.store(partials,
              e.isPlanning() ? Value()
                             : combine(e.scalars(), reduce.getKind(), x, y,
                                       element, false),
              {place});
    });
    grid.barrier();
  }
  return e.load(partials,
                {e.makeDigit(grid.remainder(grid.thread, columns), size)});
}

void ColumnGrid::emitStage(const Stage &stage,
                           llvm::ArrayRef<unsigned> results) {
  GridFunction::Values sums(stage.size());
  if (!e.isPlanning())
    for (auto [sum, op] : llvm::zip(sums, stage)) {
      train::ReduceOp reduce = op;
      sum =
          getNeutral(e.scalars(), reduce.getKind(), getReducedElement(reduce));
    }
  sums = forElements(sums, [&](const Index &index,
                               llvm::ArrayRef<Value> carried) {
    GridFunction::Values next;
    for (auto [op, sum] : llvm::zip(stage, carried)) {
      train::ReduceOp reduce = op;
      Value element = e.emit(reduce.getOperand(), index);
      next.push_back(e.isPlanning()
                         ? Value()
                         : combine(e.scalars(), reduce.getKind(), sum, element,
                                   getReducedElement(reduce), false));
    }
    if (!results.empty())
      ifValid([&] { storeElements(grid, domain, results, {index}); });
    return next;
  });
  for (auto [op, sum] : llvm::zip(stage, sums)) {
    train::ReduceOp reduce = op;
    Value whole = combineGroups(reduce, sum);
    e.remember(reduce.getResult(), row,
               e.isPlanning()
                   ? Value()
                   : roundTo(e.scalars(), whole, getReducedElement(reduce)));
  }
}

KernelShape ColumnGrid::run() {
  placeThread();
  for (const Stage &stage : domain.stages) {
    llvm::ArrayRef<unsigned> results;
    if (&stage == &domain.stages.front())
      results = domain.earlyResults;
    emitStage(stage, results);
  }
  if (!domain.rowResults.empty()) {
    Value stores;
    if (!e.isPlanning()) {
      stores = e.scalars().compare(IP::eq, group, e.number(0));
      if (!exact)
        stores = e.scalars().both(stores, valid);
    }
    e.branch(stores, [&] {
      storeResults(grid, domain.rowResults, [&](Value) { return row; });
    });
  }
  if (llvm::SmallVector<unsigned> late = domain.getLateResults(); !late.empty())
    forElements({}, [&](const Index &index, llvm::ArrayRef<Value>) {
      ifValid([&] { storeElements(grid, domain, late, {index}); });
      return GridFunction::Values();
    });
  emitOtherResults(grid, domain,
                   grid.addProduct(grid.thread, grid.block, grid.threads),
                   grid.blocks * grid.threads);
  return grid.getBlockShape();
}

KernelShape emit::emitColumnGrid(GridFunction &grid,
                                 const LoopAnalysis &domain) {
  return ColumnGrid(grid, domain).run();
}
