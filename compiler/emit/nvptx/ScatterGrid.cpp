//===- ScatterGrid.cpp - Updates at computed positions --------------------===//
//
// A block owns a tile of destinations (combinations of the indexed dimensions,
// for fixed batch dimensions), a thread the same column (of the other
// dimensions) of the same destinations all along. The block looks at all
// indices, a chunk at a time: the positions whose updates fall into its tile
// are listed in their order, then applied in it. So the result does not depend
// on timing, and no thread writes what another one reads.
//
// Cost: each block reads all indices, which come from the caches. Updates are
// read once. A destination that most updates fall on is one block's work.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScanRows.h"
#include "compiler/emit/loops/ScatterUpdates.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

/// Blocks of a scatter with many destinations: enough to spread what falls on
/// frequent ones, few enough that reading all indices in each costs little.
static constexpr int64_t kScatterBlocks = 1536;
/// Listed updates whose loads overlap.
static constexpr int64_t kOverlapping = 8;

namespace {

class ScatterGrid {
public:
  ScatterGrid(GridFunction &grid, train::ScatterOp op)
      : grid(grid), e(grid.emitter), op(op), type(op.getType()) {}
  KernelShape run();

private:
  void findSizes();
  void placeThread();
  void emitBase();
  /// The destination of the update at `position`, relative to the tile, and
  /// whether it is in it.
  std::pair<Value, Value> findDestination(Digit position);
  /// Lists the positions of a chunk; gives their number.
  Value listChunk(Value first);
  void applyByOwner(Value count);
  void applyByAll(Value count);
  /// `body` for this thread's column, if there is one.
  void ifColumn(llvm::function_ref<void(Digit)> body);
  Value loadUpdate(Value position, Digit column);
  void applyUpdate(Value destination, Digit column, Value update);
  /// The index of the result for a destination of the tile and a column.
  Index resultIndex(Value destination, Digit column);
  Index concatenate(llvm::ArrayRef<Digit> digits, const Index &more) {
    Index index = makeIndex(digits);
    index.append(more.begin(), more.end());
    return index;
  }

  GridFunction &grid;
  ElementEmitter &e;
  train::ScatterOp op;
  RankedTensorType type;
  // Sizes per dimension, and their products.
  llvm::SmallVector<int64_t> batchSizes, indexedSizes, otherSizes;
  int64_t batches = 1, destinations = 1, columns = 1, positions = 1;
  int64_t tile = 1, tiles = 1;               ///< destinations of a block
  int64_t columnThreads = 1, rowThreads = 1; ///< of a block
  int64_t columnBlocks = 1;
  llvm::SmallVector<Index> batch; ///< digits per batch dimension
  Value tileStart, column, owner; ///< this thread's first column, and row
  Buffer listedPositions, listedDestinations, warpCounts;
};

} // namespace

void ScatterGrid::findSizes() {
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    bool isBatch = int64_t(dim) < int64_t(op.getBatchDims());
    if (isBatch)
      batchSizes.push_back(size), batches *= size;
    else if (!llvm::is_contained(op.getDims(), int64_t(dim)))
      otherSizes.push_back(size), columns *= size;
  }
  for (int64_t dim : op.getDims())
    indexedSizes.push_back(type.getDimSize(dim)),
        destinations *= type.getDimSize(dim);
  if (!op.getIndices().empty())
    for (int64_t size :
         cast<RankedTensorType>(op.getIndices().front().getType())
             .getShape()
             .drop_front(op.getBatchDims()))
      positions *= size;
  columnThreads = std::min<int64_t>(kBlockThreads, llvm::PowerOf2Ceil(columns));
  rowThreads = kBlockThreads / columnThreads;
  columnBlocks = llvm::divideCeil(columns, columnThreads);
  tile = std::clamp<int64_t>(
      llvm::divideCeil(batches * destinations * columnBlocks, kScatterBlocks),
      1, destinations);
  tiles = llvm::divideCeil(destinations, tile);
}

void ScatterGrid::placeThread() {
  grid.setGrid(batches * tiles * columnBlocks, kBlockThreads);
  Value tileNumber = grid.divide(grid.block, columnBlocks);
  column =
      grid.addProduct(grid.remainder(grid.thread, columnThreads),
                      grid.remainder(grid.block, columnBlocks), columnThreads);
  owner = grid.divide(grid.thread, columnThreads);
  tileStart =
      grid.addProduct(e.number(0), grid.remainder(tileNumber, tiles), tile);
  Index number;
  if (batches != 1)
    number.push_back(e.makeDigit(grid.divide(tileNumber, tiles), batches));
  batch = e.splitGroups(number, batchSizes);
  listedPositions = grid.sharedBuffer(e.getIndexType(), kBlockThreads);
  listedDestinations = grid.sharedBuffer(e.getIndexType(), kBlockThreads);
  warpCounts = grid.sharedBuffer(e.getIndexType(), kBlockThreads / kWarpSize);
}

void ScatterGrid::ifColumn(llvm::function_ref<void(Digit)> body) {
  Digit digit = e.makeDigit(column, columns);
  if (columns % columnThreads == 0)
    return body(digit);
  e.branch(grid.less(column, e.number(columns)), [&] {
    // Known here only, so that nothing of it is hoisted out.
    body(e.makeDigit(column, columns));
  });
}

Index ScatterGrid::resultIndex(Value destination, Digit column) {
  Index number;
  if (destinations != 1) {
    Value whole =
        e.isPlanning() ? Value() : e.scalars().addInt(tileStart, destination);
    number.push_back(e.makeDigit(whole, destinations));
  }
  // The indexed dimensions in the order of `dims`.
  llvm::SmallVector<Index> indexed = e.splitGroups(number, indexedSizes);
  llvm::SmallVector<Index> others =
      e.splitGroups(makeIndex({column}), otherSizes);
  Index index;
  size_t nextBatch = 0, nextOther = 0;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    const auto *found = llvm::find(op.getDims(), dim);
    const Index &part = dim < int64_t(op.getBatchDims()) ? batch[nextBatch++]
                        : found != op.getDims().end()
                            ? indexed[found - op.getDims().begin()]
                            : others[nextOther++];
    index.append(part.begin(), part.end());
  }
  return index;
}

void ScatterGrid::emitBase() {
  auto copy = [&] {
    e.loop(
        owner, e.number(tile), {},
        [&](Value destination, llvm::ArrayRef<Value>) {
          auto copyRow = [&] {
            ifColumn([&](Digit column) {
              Index index = resultIndex(destination, column);
              e.store(grid.results[0], e.emit(op.getOperand(), index), index);
            });
          };
          if (destinations % tile == 0)
            copyRow();
          else
            e.branch(grid.less(grid.addProduct(destination, tileStart, 1),
                               e.number(destinations)),
                     copyRow);
          return GridFunction::Values();
        },
        /*parallel=*/true, e.number(rowThreads));
  };
  // In place, the base is there already.
  Value apart = liesApart(e, op.getOperand(), grid.results[0]);
  apart ? e.branch(apart, copy) : copy();
}

std::pair<Value, Value> ScatterGrid::findDestination(Digit position) {
  Index place;
  for (const Index &part : batch)
    place.append(part.begin(), part.end());
  place = concatenate(place, makeIndex({position}));
  Value inside, destination = e.number(0);
  for (auto [indices, size] : llvm::zip(op.getIndices(), indexedSizes)) {
    Value number = e.emit(indices, place);
    if (e.isPlanning())
      continue;
    ScalarBuilder &b = e.scalars();
    number = convertScalar(b, number, getElementTypeOrSelf(indices.getType()),
                           b.builder.getI64Type());
    Value here = b.compare(IP::ult, number, b.i64(size));
    inside = inside ? b.both(inside, here) : here;
    // 0 in place of what is out of range, so that nothing wraps.
    number = e.toNumber(b.select(here, number, b.i64(0)));
    destination = grid.addProduct(number, destination, size);
  }
  if (e.isPlanning())
    return {};
  ScalarBuilder &b = e.scalars();
  destination = b.subInt(destination, tileStart);
  Value inTile = b.compare(IP::ult, destination, e.number(tile));
  return {destination, inside ? b.both(inside, inTile) : inTile};
}

Value ScatterGrid::listChunk(Value first) {
  Value position, present;
  if (!e.isPlanning()) {
    ScalarBuilder &b = e.scalars();
    position = b.addInt(first, grid.thread);
    present = grid.less(position, e.number(positions));
    position = b.select(present, position, e.number(0));
  }
  auto [destination, inTile] =
      findDestination(e.makeDigit(position, positions));
  int64_t warps = kBlockThreads / kWarpSize;
  Digit warp = e.makeDigit(grid.divide(grid.thread, kWarpSize), warps);
  Value hit, before, total;
  Value lane = grid.remainder(grid.thread, kWarpSize);
  if (!e.isPlanning()) {
    ScalarBuilder &b = e.scalars();
    Type i32 = b.builder.getI32Type();
    hit = b.both(present, inTile);
    Value votes = grid.ballot(hit);
    auto count = [&](Value bits) {
      return e.toNumber(b.create<math::CtPopOp>(bits));
    };
    Value laneBit = b.create<arith::ShLIOp>(
        b.integer(i32, 1),
        lane.getType() == i32 ? lane : b.create<arith::TruncIOp>(i32, lane));
    before = count(
        b.create<arith::AndIOp>(votes, b.subInt(laneBit, b.integer(i32, 1))));
    total = count(votes);
  }
  Value isFirst;
  if (!e.isPlanning())
    isFirst = e.scalars().compare(IP::eq, lane, e.number(0));
  e.branch(isFirst, [&] { e.store(warpCounts, total, {warp}); });
  grid.barrier();
  // Behind what the warps before list; the sum over all is the same for all.
  Value sum = e.number(0);
  for (int64_t other = 0; other < warps; ++other) {
    Value listed = e.load(warpCounts, {e.constantDigit(other, warps)});
    if (e.isPlanning())
      continue;
    ScalarBuilder &b = e.scalars();
    before = b.select(grid.less(e.number(other), warp.value),
                      b.addInt(before, listed), before);
    sum = b.addInt(sum, listed);
  }
  e.branch(hit, [&, destination = destination] {
    Digit entry = e.makeDigit(before, kBlockThreads);
    e.store(listedPositions, position, {entry});
    e.store(listedDestinations, destination, {entry});
  });
  grid.barrier();
  return sum;
}

Value ScatterGrid::loadUpdate(Value position, Digit column) {
  Index index;
  for (const Index &part : batch)
    index.append(part.begin(), part.end());
  return e.emit(op.getUpdates(),
                concatenate(index, makeIndex({e.makeDigit(position, positions),
                                              column})));
}

void ScatterGrid::applyUpdate(Value destination, Digit column, Value update) {
  Index index = resultIndex(destination, column);
  Value old = e.load(grid.results[0], index);
  e.store(grid.results[0],
          e.isPlanning() ? Value()
                         : combineUpdate(e.scalars(), op, old, update),
          index);
}

/// Of several rows of threads, the owner of the destination applies an update.
void ScatterGrid::applyByOwner(Value count) {
  e.loop(
      e.number(0), count,
      [&](Value i) {
        Digit entry = e.makeDigit(i, kBlockThreads);
        Value destination = e.load(listedDestinations, {entry});
        Value mine;
        if (!e.isPlanning())
          mine = e.scalars().compare(
              IP::eq, grid.remainder(destination, rowThreads), owner);
        e.branch(mine, [&] {
          Value position = e.load(listedPositions, {entry});
          ifColumn([&](Digit column) {
            applyUpdate(destination, column, loadUpdate(position, column));
          });
        });
      },
      /*parallel=*/false);
}

/// One row of threads applies all updates; their loads overlap.
void ScatterGrid::applyByAll(Value count) {
  e.loop(
      e.number(0), count, {},
      [&](Value first, llvm::ArrayRef<Value>) {
        ifColumn([&](Digit column) {
          GridFunction::Values present, destinations, updates;
          for (int64_t k = 0; k < kOverlapping; ++k) {
            Value number, here;
            if (!e.isPlanning()) {
              ScalarBuilder &b = e.scalars();
              number = b.addInt(first, e.number(k));
              here = grid.less(number, count);
              number = b.select(here, number, first);
            }
            Digit entry = e.makeDigit(number, kBlockThreads);
            present.push_back(here);
            destinations.push_back(e.load(listedDestinations, {entry}));
            updates.push_back(
                loadUpdate(e.load(listedPositions, {entry}), column));
          }
          for (auto [here, destination, update] :
               llvm::zip(present, destinations, updates))
            e.branch(here, [&, destination = destination, update = update] {
              applyUpdate(destination, column, update);
            });
        });
        return GridFunction::Values();
      },
      /*parallel=*/false, e.number(kOverlapping));
}

KernelShape ScatterGrid::run() {
  findSizes();
  placeThread();
  emitBase();
  e.loop(
      e.number(0), e.number(positions), {},
      [&](Value first, llvm::ArrayRef<Value>) {
        Value count = listChunk(first);
        rowThreads == 1 ? applyByAll(count) : applyByOwner(count);
        // The next chunk's list takes the place of this one.
        grid.barrier();
        return GridFunction::Values();
      },
      /*parallel=*/false, e.number(kBlockThreads));
  return grid.getBlockShape();
}

FailureOr<KernelShape> emit::emitScatterThreads(GridFunction &grid) {
  auto op = cast<train::ScatterOp>(grid.kernel.getAnchor());
  auto results = grid.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 1 || results[0] != op.getResult())
    return grid.kernel.emitOpError("must return its scatter and nothing else");
  return ScatterGrid(grid, op).run();
}
