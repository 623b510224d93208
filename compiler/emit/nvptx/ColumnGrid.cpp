//===- ColumnGrid.cpp - Loop kernels that reduce along columns ------------===//
//
// The innermost run of the domain is kept: a thread takes a vector of columns,
// neighbouring threads neighbouring vectors, and groups of threads share the
// elements of a column, whose partial results meet in shared memory, as a tree.
// What belongs to a row is computed once for a vector. A tall column is cut
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
  void chooseThreads();
  void placeThread();
  void emitStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  /// The whole of this thread's columns from the groups' partial results, for
  /// all groups.
  void combineGroups(train::ReduceOp reduce,
                     llvm::MutableArrayRef<Value> partials);
  /// `body` with the indices of this thread's columns in each of its rows.
  GridFunction::Values
  forRows(llvm::ArrayRef<Value> init,
          llvm::function_ref<GridFunction::Values(llvm::ArrayRef<Index>,
                                                  llvm::ArrayRef<Value>)>
              body);
  void ifValid(llvm::function_ref<void()> body) {
    exact ? body() : e.branch(valid, body);
  }

  GridFunction &grid;
  ElementEmitter &e;
  const LoopAnalysis &domain;
  int64_t lanes, vectors;  ///< columns of a vector, vectors of a row
  int64_t threads, groups; ///< of a block: side by side, below one another
  bool exact;              ///< all blocks have all their columns
  Value group, valid;
  Digit place;                               ///< this thread in its block
  llvm::SmallDenseMap<Type, Buffer> buffers; ///< shared memory
  /// This thread's columns: as runs of the domain, and as the index of
  /// row-level results.
  llvm::SmallVector<llvm::SmallVector<Index>> kept;
  llvm::SmallVector<Index> columns;
};

} // namespace

void ColumnGrid::chooseThreads() {
  int64_t width = domain.runs.back().size,
          height = domain.domainSize / domain.rowCount;
  lanes = getLanes(domain, width);
  vectors = width / lanes;
  threads = std::min<int64_t>(kWarpSize, llvm::PowerOf2Ceil(vectors));
  groups =
      std::min<int64_t>(kBlockThreads / threads, llvm::PowerOf2Ceil(height));
  groups = std::max(groups, kWarpSize / threads);
  exact = vectors % threads == 0;
}

void ColumnGrid::placeThread() {
  int64_t outer = domain.rowCount / domain.runs.back().size,
          blocksPerRow = llvm::divideCeil(vectors, threads);
  grid.setGrid(outer * blocksPerRow, threads * groups);
  place = e.makeDigit(grid.thread, threads * groups);
  group = grid.divide(grid.thread, threads);
  Value vector =
      grid.addProduct(grid.remainder(grid.thread, threads),
                      grid.remainder(grid.block, blocksPerRow), threads);
  if (!exact && !e.isPlanning()) {
    valid = grid.less(vector, e.number(vectors));
    vector = e.scalars().select(valid, vector, e.number(vectors - 1));
  }
  Index outerDigits;
  if (outer != 1)
    outerDigits.push_back(
        e.makeDigit(grid.divide(grid.block, blocksPerRow), outer));
  Digit vectorDigit = e.makeDigit(vector, vectors);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Index digits = outerDigits;
    digits.append(getLaneIndex(e, vectorDigit, lane, lanes));
    kept.push_back(splitRuns(e, domain, /*reduced=*/false, digits));
    columns.emplace_back();
    for (const Index &part : kept.back())
      columns.back().append(part.begin(), part.end());
  }
}

GridFunction::Values ColumnGrid::forRows(
    llvm::ArrayRef<Value> init,
    llvm::function_ref<GridFunction::Values(llvm::ArrayRef<Index>,
                                            llvm::ArrayRef<Value>)>
        body) {
  int64_t height = domain.domainSize / domain.rowCount;
  return e.loop(
      group, e.number(height), init,
      [&](Value i, llvm::ArrayRef<Value> carried) {
        auto reduced =
            splitRuns(e, domain, /*reduced=*/true, {e.makeDigit(i, height)});
        llvm::SmallVector<Index> indices;
        for (const auto &column : kept)
          indices.push_back(joinRuns(domain, column, reduced));
        return body(indices, carried);
      },
      /*parallel=*/true, e.number(groups));
}

void ColumnGrid::combineGroups(train::ReduceOp reduce,
                               llvm::MutableArrayRef<Value> partials) {
  if (groups == 1)
    return;
  Type element = getReducedElement(reduce), type = getComputeType(element);
  int64_t size = threads * groups;
  // One buffer for all reduces of a type; the one before has been read when all
  // threads are here.
  auto [entry, isNew] = buffers.try_emplace(type);
  if (isNew)
    entry->second = grid.sharedBuffer(type, lanes * size);
  else
    grid.barrier();
  Buffer shared = entry->second;
  // Lane by lane, so that neighbouring threads have neighbouring addresses.
  auto at = [&](int64_t lane, Digit thread) {
    Index index{thread};
    if (lanes != 1)
      index.insert(index.begin(), e.constantDigit(lane, lanes));
    return index;
  };
  for (int64_t lane = 0; lane < lanes; ++lane)
    e.store(shared, partials[lane], at(lane, place));
  grid.barrier();
  for (int64_t half = groups / 2; half > 0; half /= 2) {
    e.branch(grid.less(group, e.number(half)), [&] {
      Digit other = e.makeDigit(
          grid.addProduct(place.value, e.number(half), threads), size);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        Value x = e.load(shared, at(lane, place)),
              y = e.load(shared, at(lane, other));
        e.store(shared,
                e.isPlanning() ? Value()
                               : combine(e.scalars(), reduce.getKind(), x, y,
                                         element, false),
                at(lane, place));
      }
    });
    grid.barrier();
  }
  Digit first = e.makeDigit(grid.remainder(grid.thread, threads), size);
  for (int64_t lane = 0; lane < lanes; ++lane)
    partials[lane] = e.load(shared, at(lane, first));
}

void ColumnGrid::emitStage(const Stage &stage,
                           llvm::ArrayRef<unsigned> results) {
  // Per reduce, one sum for each lane.
  GridFunction::Values sums(stage.size() * lanes);
  if (!e.isPlanning())
    for (auto [i, sum] : llvm::enumerate(sums)) {
      train::ReduceOp reduce = stage[i / lanes];
      sum =
          getNeutral(e.scalars(), reduce.getKind(), getReducedElement(reduce));
    }
  sums = forRows(
      sums, [&](llvm::ArrayRef<Index> indices, llvm::ArrayRef<Value> carried) {
        GridFunction::Values elements, next;
        for (train::ReduceOp reduce : stage)
          for (const Index &index : indices)
            elements.push_back(e.emit(reduce.getOperand(), index));
        for (auto [i, sum] : llvm::enumerate(carried)) {
          train::ReduceOp reduce = stage[i / lanes];
          next.push_back(e.isPlanning()
                             ? Value()
                             : combine(e.scalars(), reduce.getKind(), sum,
                                       elements[i], getReducedElement(reduce),
                                       false));
        }
        if (!results.empty())
          ifValid([&] { storeElements(grid, domain, results, indices); });
        return next;
      });
  for (auto [i, op] : llvm::enumerate(stage)) {
    train::ReduceOp reduce = op;
    llvm::MutableArrayRef<Value> whole(sums.data() + i * lanes, lanes);
    combineGroups(reduce, whole);
    for (auto [column, value] : llvm::zip(columns, whole))
      e.remember(reduce.getResult(), column,
                 e.isPlanning()
                     ? Value()
                     : roundTo(e.scalars(), value, getReducedElement(reduce)));
  }
}

KernelShape ColumnGrid::run() {
  chooseThreads();
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
      for (const Index &column : columns)
        storeResults(grid, domain.rowResults, [&](Value) { return column; });
    });
  }
  if (llvm::SmallVector<unsigned> late = domain.getLateResults(); !late.empty())
    forRows({}, [&](llvm::ArrayRef<Index> indices, llvm::ArrayRef<Value>) {
      ifValid([&] { storeElements(grid, domain, late, indices); });
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
