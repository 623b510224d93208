//===- RowGrid.cpp - Loop kernels that reduce along rows ------------------===//
//
// The innermost run of the domain is reduced. A row belongs to a part of a
// warp, a warp or a block, whichever keeps its threads busy; each thread takes
// every n-th vector of the row, in every pass the same ones, so that an element
// may be stored over an argument by the thread that read it. Partial results
// meet in a butterfly of shuffles, and through shared memory between warps.
//
// One pass per stage of reduces, and one that stores. Passes after the first
// find the row in the caches, or in registers where the loops are short.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/LoopGrid.h"
#include "dialects/plan/KernelModel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

/// Vectors of a row that one thread takes where there are rows enough.
static constexpr int64_t kVectorsPerThread = 8;

namespace {

class RowGrid {
public:
  RowGrid(GridFunction &grid, const LoopAnalysis &domain)
      : grid(grid), e(grid.emitter), domain(domain) {}
  KernelShape run();

private:
  void chooseThreads();
  void placeThread();
  void emitStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  void emitResults();
  /// `body` with the indices of a vector's elements, for each vector of this
  /// thread.
  GridFunction::Values
  forVectors(llvm::ArrayRef<Value> init,
             llvm::function_ref<GridFunction::Values(llvm::ArrayRef<Index>,
                                                     llvm::ArrayRef<Value>)>
                 body);
  /// Stores are for threads whose row is there.
  void ifValid(llvm::function_ref<void()> body) {
    exact ? body() : e.branch(valid, body);
  }
  bool mayOverwriteRows();

  GridFunction &grid;
  ElementEmitter &e;
  const LoopAnalysis &domain;
  int64_t lanes, vectors;        ///< elements of a vector, vectors of a row
  int64_t threads, rows;         ///< of a row, of a block
  bool exact;                    ///< all blocks have all their rows
  Value lane, valid;             ///< this thread's place in its row
  llvm::SmallVector<Index> kept; ///< this thread's row
  Index row;
};

} // namespace

void RowGrid::chooseThreads() {
  int64_t size = domain.domainSize / domain.rowCount;
  lanes = getLanes(domain, domain.runs.back().size);
  vectors = size / lanes;
  int64_t busy = llvm::PowerOf2Ceil(vectors);
  bool manyRows = domain.rowCount * kWarpSize >= kManyBlocks * kBlockThreads;
  if (vectors <= kWarpSize)
    threads = busy;
  else if (vectors <= kWarpSize * kVectorsPerThread && manyRows)
    threads = kWarpSize;
  else
    threads = std::clamp<int64_t>(
        llvm::PowerOf2Ceil(llvm::divideCeil(vectors, kVectorsPerThread / 2)),
        kWarpSize, kMaxThreads);
  rows = threads > kWarpSize
             ? 1
             : std::min<int64_t>(kBlockThreads / threads,
                                 llvm::PowerOf2Ceil(domain.rowCount));
  // At least a warp.
  rows = std::max(rows, kWarpSize / threads);
  exact = domain.rowCount % rows == 0;
}

void RowGrid::placeThread() {
  grid.setGrid(llvm::divideCeil(domain.rowCount, rows), threads * rows);
  lane = grid.remainder(grid.thread, threads);
  Value number =
      grid.addProduct(grid.divide(grid.thread, threads), grid.block, rows);
  if (!exact && !e.isPlanning()) {
    // All threads take part in shuffles: those without a row read the last.
    Value count = e.number(domain.rowCount);
    valid = grid.less(number, count);
    number = e.scalars().select(valid, number, e.number(domain.rowCount - 1));
  }
  Index digits;
  if (domain.rowCount != 1)
    digits.push_back(e.makeDigit(number, domain.rowCount));
  kept = splitRuns(e, domain, /*reduced=*/false, digits);
  for (const Index &group : kept)
    row.append(group.begin(), group.end());
}

GridFunction::Values RowGrid::forVectors(
    llvm::ArrayRef<Value> init,
    llvm::function_ref<GridFunction::Values(llvm::ArrayRef<Index>,
                                            llvm::ArrayRef<Value>)>
        body) {
  return e.loop(
      lane, e.number(vectors), init,
      [&](Value i, llvm::ArrayRef<Value> carried) {
        Digit vector = e.makeDigit(i, vectors);
        llvm::SmallVector<Index> indices;
        for (int64_t k = 0; k < lanes; ++k)
          indices.push_back(
              joinRuns(domain, kept,
                       splitRuns(e, domain, /*reduced=*/true,
                                 getLaneIndex(e, vector, k, lanes))));
        return body(indices, carried);
      },
      /*parallel=*/true, e.number(threads));
}

void RowGrid::emitStage(const Stage &stage, llvm::ArrayRef<unsigned> results) {
  auto combineAll = [&](llvm::ArrayRef<Value> x, llvm::ArrayRef<Value> y) {
    GridFunction::Values combined;
    for (auto [reduce, a, b] : llvm::zip(stage, x, y)) {
      train::ReduceOp op = reduce;
      combined.push_back(combine(e.scalars(), op.getKind(), a, b,
                                 getReducedElement(op), true));
    }
    return combined;
  };
  GridFunction::Values values(stage.size());
  if (!e.isPlanning())
    for (auto [value, op] : llvm::zip(values, stage)) {
      train::ReduceOp reduce = op;
      value =
          getNeutral(e.scalars(), reduce.getKind(), getReducedElement(reduce));
    }
  values = forVectors(values, [&](llvm::ArrayRef<Index> indices,
                                  llvm::ArrayRef<Value> carried) {
    GridFunction::Values next(carried);
    for (const Index &index : indices) {
      GridFunction::Values elements;
      for (train::ReduceOp reduce : stage)
        elements.push_back(e.emit(reduce.getOperand(), index));
      if (!e.isPlanning())
        next = combineAll(next, elements);
    }
    if (!results.empty())
      ifValid([&] { storeElements(grid, domain, results, indices); });
    return next;
  });
  values = grid.reduceThreads(values, threads, combineAll);
  for (auto [op, value] : llvm::zip(stage, values)) {
    train::ReduceOp reduce = op;
    e.remember(reduce.getResult(), row,
               e.isPlanning()
                   ? Value()
                   : roundTo(e.scalars(), value, getReducedElement(reduce)));
  }
}

/// True if a row-level result may lie over an argument, of which every thread
/// of the row reads the element that one of them overwrites.
bool RowGrid::mayOverwriteRows() {
  plan::KernelOp kernel = grid.kernel;
  for (unsigned i = 0; i < kernel.getArgumentTypes().size(); ++i)
    for (unsigned result : domain.rowResults)
      if (plan::canWriteOver(kernel, i, result))
        return true;
  return false;
}

void RowGrid::emitResults() {
  // Row-level values are computed before anything is stored.
  for (unsigned i : domain.rowResults)
    e.emit(domain.getResults()[i], row);
  if (llvm::SmallVector<unsigned> late = domain.getLateResults(); !late.empty())
    forVectors({}, [&](llvm::ArrayRef<Index> indices, llvm::ArrayRef<Value>) {
      ifValid([&] { storeElements(grid, domain, late, indices); });
      return GridFunction::Values();
    });
  if (domain.rowResults.empty())
    return;
  if (threads > 1 && mayOverwriteRows())
    threads > kWarpSize ? grid.barrier() : grid.syncWarp();
  Value stores;
  if (!e.isPlanning()) {
    stores = e.scalars().compare(IP::eq, lane, e.number(0));
    if (!exact)
      stores = e.scalars().both(stores, valid);
  }
  e.branch(stores, [&] {
    storeResults(grid, domain.rowResults, [&](Value) { return row; });
  });
}

KernelShape RowGrid::run() {
  chooseThreads();
  placeThread();
  for (const Stage &stage : domain.stages) {
    llvm::ArrayRef<unsigned> results;
    if (&stage == &domain.stages.front())
      results = domain.earlyResults;
    emitStage(stage, results);
  }
  emitResults();
  emitOtherResults(grid, domain,
                   grid.addProduct(grid.thread, grid.block, grid.threads),
                   grid.blocks * grid.threads);
  KernelShape shape = grid.getBlockShape();
  shape.workItems = domain.rowCount;
  shape.itemsPerBlock = rows;
  return shape;
}

KernelShape emit::emitRowGrid(GridFunction &grid, const LoopAnalysis &domain) {
  return RowGrid(grid, domain).run();
}
