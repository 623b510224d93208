//===- RowGrid.cpp - Loop kernels that reduce along rows ------------------===//
//
// The innermost run of the domain is reduced. A row belongs to a part of a
// warp, a warp or a block, whichever keeps its threads busy; each thread takes
// every n-th vector of the row, in every pass the same ones, so that an element
// may be stored over an argument by the thread that read it. Partial results
// meet in a butterfly of shuffles, and through shared memory between warps.
//
// One pass per stage of reduces, and one that stores. A row whose elements fit
// in its threads' registers takes no loops: what one pass has loaded or
// computed of an element, the others find (ElementEmitter keeps it). A longer
// one of several passes is kept in shared memory by the first, where two blocks
// of a multiprocessor have room for theirs: one loads while the other computes.
// Else passes after the first find the row in the caches.
//
// A sum that takes but the element at a given position (a label's logit) is no
// pass: every thread reads that element.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/KeptRows.h"
#include "compiler/emit/nvptx/LoopGrid.h"
#include "compiler/emit/nvptx/RowPick.h"
#include "dialects/plan/KernelModel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

/// Vectors of a row that one thread takes where there are rows enough.
static constexpr int64_t kVectorsPerThread = 8;
/// Elements of all operands that one thread holds in registers.
static constexpr int64_t kHeldElements = 96;
/// Threads of a row that is kept in shared memory: two such blocks leave a
/// thread 64 registers.
static constexpr int64_t kKeptThreads = 512;
/// Vectors whose loads overlap in loops over a row, and elements of all their
/// operands.
static constexpr int64_t kVectorsAtOnce = 4, kElementsAtOnce = 64;

namespace {

class RowGrid {
public:
  RowGrid(GridFunction &grid, const LoopAnalysis &domain)
      : grid(grid), e(grid.emitter), domain(domain), keptRows(grid) {}
  KernelShape run();

private:
  void chooseThreads();
  int64_t countOperands();
  bool holds(int64_t threads);
  int64_t chooseVectorsAtOnce();
  void placeThread();
  void emitStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  Stage emitPicks(const Stage &stage);
  void emitResults();
  llvm::SmallVector<Index> getIndices(Digit vector);
  /// `body` with the indices of a vector's elements, for each vector of this
  /// thread; of all its vectors at once where it holds them.
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
  int64_t lanes, vectors; ///< elements of a vector, vectors of a row
  int64_t threads, rows;  ///< of a row, of a block
  bool exact;             ///< all blocks have all their rows
  /// This thread's vectors, where it holds them all; else empty.
  llvm::SmallVector<Digit> held;
  KeptRows keptRows;
  Value lane, valid;             ///< this thread's place in its row
  llvm::SmallVector<Index> kept; ///< this thread's row
  Index row;
};

} // namespace

void RowGrid::chooseThreads() {
  int64_t size = domain.domainSize / domain.rowCount;
  lanes = getLanes(domain, domain.runs.back().size);
  vectors = size / lanes;
  bool manyRows = domain.rowCount * kWarpSize >= kManyBlocks * kBlockThreads;
  if (vectors <= kWarpSize) {
    threads = llvm::PowerOf2Ceil(vectors);
  } else {
    int64_t perThread = manyRows ? kVectorsPerThread : kVectorsPerThread / 2;
    threads = std::clamp<int64_t>(
        llvm::PowerOf2Ceil(llvm::divideCeil(vectors, perThread)), kWarpSize,
        kMaxThreads);
    while (threads < kMaxThreads && !holds(threads) && holds(threads * 2))
      threads *= 2;
    int64_t fewer = std::min(threads, kKeptThreads);
    if (!holds(threads) && threads > kWarpSize &&
        (holds(fewer) || keptRows.tryKeep(domain, vectors, lanes)))
      threads = fewer;
  }
  rows = threads > kWarpSize
             ? 1
             : std::min<int64_t>(kBlockThreads / threads,
                                 llvm::PowerOf2Ceil(domain.rowCount));
  // At least a warp.
  rows = std::max(rows, kWarpSize / threads);
  exact = domain.rowCount % rows == 0;
}

/// Operands that have all elements of the domain.
int64_t RowGrid::countOperands() {
  return domain.elementResults.size() +
         llvm::count_if(grid.kernel.getArgumentTypes(), [&](Type type) {
           return cast<RankedTensorType>(type).getNumElements() ==
                  domain.domainSize;
         });
}

/// Whether so many threads hold a row in registers.
bool RowGrid::holds(int64_t threads) {
  return vectors % threads == 0 &&
         vectors / threads * lanes * countOperands() <= kHeldElements;
}

/// How many vectors a thread takes at once in loops over a row: as many as
/// leave few over, which come one by one.
int64_t RowGrid::chooseVectorsAtOnce() {
  int64_t rounds = vectors / threads, chosen = 1;
  for (int64_t n = 2; n <= std::min(rounds, kVectorsAtOnce); ++n)
    if (rounds % n <= rounds % chosen &&
        n * lanes * countOperands() <= kElementsAtOnce)
      chosen = n;
  return chosen;
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
  for (int64_t i = 0; i < (holds(threads) ? vectors / threads : 0); ++i)
    held.push_back(e.makeDigit(
        e.isPlanning() ? Value()
                       : e.scalars().addInt(lane, e.number(i * threads)),
        vectors));
}

/// The indices of a vector's elements in the domain.
llvm::SmallVector<Index> RowGrid::getIndices(Digit vector) {
  llvm::SmallVector<Index> indices;
  for (int64_t k = 0; k < lanes; ++k)
    indices.push_back(joinRuns(domain, kept,
                               splitRuns(e, domain, /*reduced=*/true,
                                         getLaneIndex(e, vector, k, lanes))));
  return indices;
}

GridFunction::Values RowGrid::forVectors(
    llvm::ArrayRef<Value> init,
    llvm::function_ref<GridFunction::Values(llvm::ArrayRef<Index>,
                                            llvm::ArrayRef<Value>)>
        body) {
  if (!held.empty()) {
    llvm::SmallVector<Index> indices;
    for (const Digit &vector : held)
      indices.append(getIndices(vector));
    return body(indices, init);
  }
  int64_t atOnce = chooseVectorsAtOnce();
  auto visit = [&](Value first, int64_t count, llvm::ArrayRef<Value> carried) {
    llvm::SmallVector<Digit> digits;
    llvm::SmallVector<Index> indices;
    for (int64_t i = 0; i < count; ++i) {
      digits.push_back(e.makeDigit(
          e.isPlanning() ? Value()
                         : e.scalars().addInt(first, e.number(i * threads)),
          vectors));
      indices.append(getIndices(digits.back()));
    }
    keptRows.load(digits, indices);
    return body(indices, carried);
  };
  int64_t whole = vectors / (atOnce * threads) * (atOnce * threads);
  GridFunction::Values values = e.loop(
      lane, e.number(whole), init,
      [&](Value i, llvm::ArrayRef<Value> carried) {
        return visit(i, atOnce, carried);
      },
      /*parallel=*/true, e.number(atOnce * threads));
  if (whole != vectors)
    values = e.loop(
        grid.addProduct(lane, e.number(whole), 1), e.number(vectors), values,
        [&](Value i, llvm::ArrayRef<Value> carried) {
          return visit(i, 1, carried);
        },
        /*parallel=*/true, e.number(threads));
  keptRows.finishPass();
  return values;
}

/// Reads the sums of which one element counts. The others of the stage.
Stage RowGrid::emitPicks(const Stage &stage) {
  Stage others;
  for (train::ReduceOp reduce : stage) {
    if (std::optional<Value> picked = emitRowPick(e, domain, kept, reduce))
      e.remember(reduce.getResult(), row, *picked);
    else
      others.push_back(reduce);
  }
  // The element is another thread's, which may store a result over it: if
  // nothing else makes the threads wait for one another, a barrier does.
  if (others.empty() && threads > 1)
    threads > kWarpSize ? grid.barrier() : grid.syncWarp();
  return others;
}

void RowGrid::emitStage(const Stage &whole, llvm::ArrayRef<unsigned> results) {
  Stage stage = emitPicks(whole);
  if (stage.empty() && results.empty())
    return;
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
    // All loads come before the sums, so that they overlap.
    llvm::SmallVector<GridFunction::Values> elements;
    for (const Index &index : indices) {
      elements.emplace_back();
      for (train::ReduceOp reduce : stage)
        elements.back().push_back(e.emit(reduce.getOperand(), index));
    }
    GridFunction::Values next(carried);
    if (!e.isPlanning())
      for (const GridFunction::Values &element : elements)
        next = combineAll(next, element);
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
