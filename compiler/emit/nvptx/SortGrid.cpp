//===- SortGrid.cpp - Sorting of rows -------------------------------------===//
//
// A row belongs to a block, which sorts it by a bitonic network (Batcher,
// "Sorting networks and their applications") in the form whose comparisons all
// point one way: a merge begins by comparing mirrored places, so that a row of
// any length behaves as if the largest elements stood behind it. Places decide
// between equals, which makes the sort stable. Short rows are sorted in shared
// memory, longer ones where the results lie.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScanRows.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

namespace {

class SortGrid {
public:
  SortGrid(GridFunction &grid, train::SortOp op)
      : grid(grid), e(grid.emitter), op(op),
        element(getElementTypeOrSelf(op.getOperand().getType())),
        size(cast<RankedTensorType>(op.getOperand().getType())
                 .getShape()
                 .back()),
        rows(
            cast<RankedTensorType>(op.getOperand().getType()).getNumElements() /
            size),
        padded(llvm::PowerOf2Ceil(size)) {}
  KernelShape run();

private:
  void chooseBuffers();
  Index at(Value place) {
    Digit digit = e.makeDigit(place, size);
    return shared ? makeIndex({digit}) : makeIndex({row, digit});
  }
  void forPlaces(int64_t count, llvm::function_ref<void(Value)> body);
  /// Comparisons of one step: `body` gives the two places of comparison number
  /// i, the lower first.
  void emitStep(
      llvm::function_ref<std::pair<Value, Value>(ScalarBuilder &, Value)> body);
  void compareAndSwap(Value low, Value high);
  Value isLess(Value x, Value y);

  GridFunction &grid;
  ElementEmitter &e;
  train::SortOp op;
  Type element;
  int64_t size, rows, padded;
  bool shared = false;
  Buffer values, places; ///< the row at hand
  Digit row;
};

} // namespace

void SortGrid::chooseBuffers() {
  // In the type of computation, which holds every element exactly.
  Type compute = getComputeType(element), place = e.getIndexType();
  int64_t bits = getStorageType(compute).getIntOrFloatBitWidth() +
                 place.getIntOrFloatBitWidth();
  shared = size * bits / 8 <= kSharedBytes;
  values = shared ? grid.sharedBuffer(compute, size) : grid.results[0];
  places = shared ? grid.sharedBuffer(place, size) : grid.results[1];
}

void SortGrid::forPlaces(int64_t count, llvm::function_ref<void(Value)> body) {
  e.loop(
      grid.thread, e.number(count), {},
      [&](Value i, llvm::ArrayRef<Value>) {
        body(i);
        return GridFunction::Values();
      },
      /*parallel=*/true, e.number(grid.threads));
}

/// NaN is the largest number.
Value SortGrid::isLess(Value x, Value y) {
  ScalarBuilder &b = e.scalars();
  if (!isa<FloatType>(x.getType()))
    return b.compare(
        element.isUnsignedInteger() || element.isInteger(1) ? IP::ult : IP::slt,
        x, y);
  Value onlyYIsNaN = b.both(b.isNaN(y), b.compare(FP::ORD, x, x));
  return b.either(b.compare(FP::OLT, x, y), onlyYIsNaN);
}

void SortGrid::compareAndSwap(Value low, Value high) {
  Index lowAt = at(low), highAt = at(high);
  Value x = e.load(values, lowAt), y = e.load(values, highAt),
        xPlace = e.load(places, lowAt), yPlace = e.load(places, highAt);
  Value swap;
  if (!e.isPlanning()) {
    ScalarBuilder &b = e.scalars();
    Value first = op.getDescending() ? isLess(x, y) : isLess(y, x),
          second = op.getDescending() ? isLess(y, x) : isLess(x, y);
    Value yIsEarlier = b.compare(IP::slt, yPlace, xPlace);
    swap = b.either(first, b.select(second, b.integer(b.builder.getI1Type(), 0),
                                    yIsEarlier));
  }
  e.branch(swap, [&] {
    e.store(values, y, lowAt);
    e.store(values, x, highAt);
    e.store(places, yPlace, lowAt);
    e.store(places, xPlace, highAt);
  });
}

void SortGrid::emitStep(
    llvm::function_ref<std::pair<Value, Value>(ScalarBuilder &, Value)> body) {
  forPlaces(padded / 2, [&](Value i) {
    Value low, high;
    if (!e.isPlanning())
      std::tie(low, high) = body(e.scalars(), i);
    e.branch(grid.less(high, e.number(size)),
             [&] { compareAndSwap(low, high); });
  });
  grid.barrier();
}

KernelShape SortGrid::run() {
  grid.setGrid(rows, std::clamp<int64_t>(padded / 2, kWarpSize, kMaxThreads));
  row = e.makeDigit(grid.block, rows);
  chooseBuffers();
  forPlaces(size, [&](Value i) {
    Index index = at(i);
    e.store(values,
            e.emit(op.getOperand(), makeIndex({row, e.makeDigit(i, size)})),
            index);
    bool wide = !e.isPlanning() && places.element.isInteger(64);
    e.store(places, wide ? e.toI64(i) : i, index);
  });
  grid.barrier();
  // Runs of 2^step elements become sorted.
  Value one = e.number(1), zero = e.number(0);
  e.loop(
      one, e.number(llvm::Log2_64(padded) + 1),
      [&](Value step) {
        Value halfBits, half;
        if (!e.isPlanning()) {
          ScalarBuilder &b = e.scalars();
          halfBits = b.subInt(step, one);
          half = b.create<arith::ShLIOp>(one, halfBits);
        }
        emitStep([&](ScalarBuilder &b, Value i) {
          Value inHalf = b.create<arith::AndIOp>(i, b.subInt(half, one));
          Value start = b.create<arith::ShLIOp>(
              b.create<arith::ShRUIOp>(i, halfBits), step);
          Value last = b.subInt(b.create<arith::ShLIOp>(half, one), one);
          return std::pair(b.addInt(start, inHalf),
                           b.addInt(start, b.subInt(last, inHalf)));
        });
        e.loop(
            zero, halfBits,
            [&](Value turn) {
              Value bits, distance;
              if (!e.isPlanning()) {
                ScalarBuilder &b = e.scalars();
                bits = b.subInt(b.subInt(halfBits, one), turn);
                distance = b.create<arith::ShLIOp>(one, bits);
              }
              emitStep([&](ScalarBuilder &b, Value i) {
                Value inHalf =
                    b.create<arith::AndIOp>(i, b.subInt(distance, one));
                Value low = b.addInt(
                    b.create<arith::ShLIOp>(b.create<arith::ShRUIOp>(i, bits),
                                            b.addInt(bits, one)),
                    inHalf);
                return std::pair(low, b.addInt(low, distance));
              });
            },
            /*parallel=*/false);
      },
      /*parallel=*/false);
  if (shared)
    forPlaces(size, [&](Value i) {
      Index index = makeIndex({row, e.makeDigit(i, size)});
      e.store(grid.results[0], e.load(values, at(i)), index);
      e.store(grid.results[1], e.toI64(e.load(places, at(i))), index);
    });
  return grid.getBlockShape();
}

FailureOr<KernelShape> emit::emitSortThreads(GridFunction &grid) {
  auto op = cast<train::SortOp>(grid.kernel.getAnchor());
  auto results = grid.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 2 || results[0] != op.getValues() ||
      results[1] != op.getIndices())
    return grid.kernel.emitOpError("must return its sort and nothing else");
  if (op.getDimension() + 1 !=
      uint64_t(cast<RankedTensorType>(op.getOperand().getType()).getRank()))
    return grid.kernel.emitOpError("expected a sort along the last dimension");
  return SortGrid(grid, op).run();
}
