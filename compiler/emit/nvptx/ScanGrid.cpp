//===- ScanGrid.cpp - Running reductions, positions of extremes -----------===//
//
// A row belongs to a warp. A running reduction takes 32 elements at a time: the
// warp scans them (Hillis and Steele, five shuffles) and carries the total on.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScanRows.h"
#include "compiler/emit/nvptx/GridFunction.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

static constexpr int64_t kRowsPerBlock = 4;

/// The running reduction of a warp's elements.
static Value scanWarp(GridFunction &grid, train::CumulativeOp op, Value lane,
                      Value x) {
  ElementEmitter &e = grid.emitter;
  if (e.isPlanning())
    return {};
  ScalarBuilder &b = e.scalars();
  Type element = getElementTypeOrSelf(op.getType());
  for (int64_t delta = 1; delta < kWarpSize; delta *= 2) {
    Value before = grid.shuffleUp(x, delta);
    Value sum = combine(b, op.getKind(), before, x, element, false);
    x = b.select(grid.less(lane, e.number(delta)), x, sum);
  }
  return x;
}

static void emitCumulativeRow(GridFunction &grid, train::CumulativeOp op,
                              Digit outer, Digit inner, int64_t size,
                              Value lane) {
  ElementEmitter &e = grid.emitter;
  bool planning = e.isPlanning();
  Type element = getElementTypeOrSelf(op.getType());
  Value neutral =
      planning ? Value() : getNeutral(e.scalars(), op.getKind(), element);
  e.loop(
      e.number(0), e.number(size), {neutral},
      [&](Value first, llvm::ArrayRef<Value> carried) -> GridFunction::Values {
        Value position, inside;
        if (!planning) {
          ScalarBuilder &b = e.scalars();
          Value i = b.addInt(first, lane);
          inside = grid.less(i, e.number(size));
          if (op.getReverse())
            i = b.subInt(e.number(size - 1), i);
          position = b.select(inside, i, e.number(0));
        }
        Index index = makeIndex({outer, e.makeDigit(position, size), inner});
        Value x = e.emit(op.getOperand(), index), total, last;
        if (!planning) {
          x = e.scalars().select(inside, x, neutral);
          x = scanWarp(grid, op, lane, x);
          total =
              combine(e.scalars(), op.getKind(), carried[0], x, element, false);
          last = grid.broadcastLane(total, kWarpSize - 1);
        }
        e.remember(op.getResult(), index,
                   planning ? Value() : roundTo(e.scalars(), total, element));
        e.branch(inside, [&] { storeScanResults(grid, index); });
        return {last};
      },
      /*parallel=*/false, e.number(kWarpSize));
}

static void emitArgReduceRow(GridFunction &grid, train::ArgReduceOp op,
                             Digit outer, Digit inner, int64_t size,
                             Value lane) {
  ElementEmitter &e = grid.emitter;
  bool planning = e.isPlanning();
  Type element = getElementTypeOrSelf(op.getOperand().getType());
  Value neutral =
      planning ? Value() : getNeutral(e.scalars(), op.getKind(), element);
  // A lane starts at its first position, so that the first of a row without a
  // better one than the neutral wins; a lane without elements loses all ties.
  GridFunction::Values best = e.loop(
      lane, e.number(size), {neutral, lane},
      [&](Value i, llvm::ArrayRef<Value> carried) -> GridFunction::Values {
        Value x = e.emit(op.getOperand(),
                         makeIndex({outer, e.makeDigit(i, size), inner}));
        if (planning)
          return {Value(), Value()};
        ScalarBuilder &b = e.scalars();
        Value better = isBetter(b, op.getKind(), x, carried[0], element);
        return {b.select(better, x, carried[0]),
                b.select(better, i, carried[1])};
      },
      /*parallel=*/true, e.number(kWarpSize));
  best = grid.reduceThreads(
      best, kWarpSize,
      [&](llvm::ArrayRef<Value> x,
          llvm::ArrayRef<Value> y) -> GridFunction::Values {
        ScalarBuilder &b = e.scalars();
        Value better = isBetter(b, op.getKind(), y[0], x[0], element),
              worse = isBetter(b, op.getKind(), x[0], y[0], element);
        // Not worse and earlier: y is the first of equals.
        Value earlier = b.select(worse, b.integer(b.builder.getI1Type(), 0),
                                 grid.less(y[1], x[1]));
        Value chosen = b.either(better, earlier);
        return {b.select(chosen, y[0], x[0]), b.select(chosen, y[1], x[1])};
      });
  Index row = makeIndex({outer, inner});
  e.remember(op.getResult(), row, e.toI64(best[1]));
  Value isFirst;
  if (!planning)
    isFirst = e.scalars().compare(IP::eq, lane, e.number(0));
  e.branch(isFirst, [&] { storeScanResults(grid, row); });
}

FailureOr<KernelShape> emit::emitScanThreads(GridFunction &grid) {
  ElementEmitter &e = grid.emitter;
  Operation *anchor = grid.kernel.getAnchor();
  ScanRows rows(anchor);
  int64_t count = rows.count();
  grid.setGrid(llvm::divideCeil(count, kRowsPerBlock),
               kRowsPerBlock * kWarpSize);
  Value lane = grid.remainder(grid.thread, kWarpSize),
        row = grid.addProduct(grid.divide(grid.thread, kWarpSize), grid.block,
                              kRowsPerBlock);
  // The same for all lanes of a warp.
  e.branch(grid.less(row, e.number(count)), [&] {
    auto [outer, inner] = rows.split(e, row);
    if (auto cumulative = dyn_cast<train::CumulativeOp>(anchor))
      emitCumulativeRow(grid, cumulative, outer, inner, rows.size, lane);
    else
      emitArgReduceRow(grid, cast<train::ArgReduceOp>(anchor), outer, inner,
                       rows.size, lane);
  });
  KernelShape shape = grid.getBlockShape();
  shape.workItems = count;
  shape.itemsPerBlock = kRowsPerBlock;
  return shape;
}
