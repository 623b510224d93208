//===- ColumnSums.cpp - Sums of a tile's columns --------------------------===//
//
// Each warp adds up its rows of the tile and stores one row of partial sums;
// another kernel adds those. Nothing is added by atomics: the same bits in
// every run.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/gemm/Consumers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

static Value exchange(KernelBuilder &b, Value value, int distance) {
  return NVVM::ShflOp::create(b, b.getF32Type(), b.constant(-1), value,
                              b.constant(distance), b.constant(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

/// The thread's own rows: for each 8 columns, its two.
static SmallVector<Value> addOwnRows(KernelFrame &frame, ArrayRef<Value> sums) {
  int groupSums = frame.config.tileN / 2;
  SmallVector<Value> columns;
  for (int i = 0; i < groupSums; i += 4)
    for (int side = 0; side < 2; ++side) {
      Value sum;
      for (size_t first = 0; first < sums.size(); first += groupSums)
        for (int row = 0; row < 2; ++row) {
          Value value = sums[first + i + 2 * row + side];
          sum = sum ? frame.b.addF32(sum, value) : value;
        }
      columns.push_back(sum);
    }
  return columns;
}

/// Lanes with the same columns exchange halves: each keeps the half that its
/// bit of the lane names and adds the other lane's share to it.
static SmallVector<Value> addLanes(KernelFrame &frame,
                                   SmallVector<Value> columns) {
  KernelBuilder &b = frame.b;
  for (int distance : {16, 8, 4}) {
    Value isUpper = b.equal(b.bitAnd(frame.lane, distance), int64_t(distance));
    size_t half = columns.size() / 2;
    SmallVector<Value> kept;
    for (size_t i = 0; i < half; ++i) {
      Value mine = b.select(isUpper, columns[half + i], columns[i]);
      Value theirs = b.select(isUpper, columns[i], columns[half + i]);
      kept.push_back(b.addF32(mine, exchange(b, theirs, distance)));
    }
    columns = std::move(kept);
  }
  return columns;
}

void gemm::storeColumnSums(KernelFrame &frame, const ConsumerIdentity &self,
                           const Item &item, ArrayRef<Value> sums) {
  KernelBuilder &b = frame.b;
  const GemmConfig &config = frame.config;
  SmallVector<Value> columns = addLanes(frame, addOwnRows(frame, sums));
  int rows = getWarpgroupRows(config);
  Value row = item.row;
  if (config.schedule == Schedule::Cooperative)
    row = b.add(row, b.multiply(self.index, rows));
  Value line = b.add(b.shiftLeft(b.divide(row, rows), 2), self.warp);
  // What addLanes left: the lane's eighth of the columns, two of each 8.
  Value first = b.add(
      item.column, b.multiply(b.shiftRight(frame.lane, 2), config.tileN / 8));
  first = b.add(first, b.shiftLeft(b.bitAnd(frame.lane, 3), 1));
  Type i64 = b.getI64Type(), f32 = b.getF32Type();
  Value offset = LLVM::MulOp::create(
      b, LLVM::ZExtOp::create(b, i64, line),
      LLVM::ZExtOp::create(b, i64, frame.arguments.columns));
  Value base = b.element(frame.arguments.columnSums, offset, f32);
  for (auto [i, sum] : llvm::enumerate(columns)) {
    Value column = b.add(first, 8 * int(i / 2) + int(i % 2));
    b.ifThen(b.lessThan(column, frame.arguments.columns), [&, value = sum] {
      b.store(value, b.element(base, column, f32), 4);
    });
  }
}
