//===- KernelFrame.cpp - What the parts of a GEMM kernel share ------------===//
#include "compiler/emit/nvptx/gemm/KernelFrame.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// Four numbers of an item: the first or the second half.
static Value loadItemHalf(KernelFrame &frame, Value index, int half) {
  KernelBuilder &b = frame.b;
  Type itemType = LLVM::LLVMArrayType::get(b.getI32Type(), 8);
  Value pointer = b.element(frame.arguments.table, index, itemType);
  if (half)
    pointer = b.element(pointer, 16, b.getI8Type());
  return b.load(pointer, VectorType::get(4, b.getI32Type()), 16,
                /*invariant=*/true);
}

Item gemm::loadItem(KernelFrame &frame, Value index) {
  KernelBuilder &b = frame.b;
  const GemmConfig &config = frame.config;
  Value half = loadItemHalf(frame, index, 0);
  Item item;
  item.row = b.extractElement(half, 0);
  item.column = b.extractElement(half, 1);
  item.firstBlock = b.extractElement(half, 2);
  item.blocks = b.extractElement(half, 3);
  if (config.cluster == Cluster::AlongM)
    item.row = b.add(item.row, b.multiply(frame.rank, config.tileM));
  if (config.cluster == Cluster::AlongN)
    item.column = b.add(item.column, b.multiply(frame.rank, config.tileN));
  if (!config.splitK && !config.batched)
    return item;
  half = loadItemHalf(frame, index, 1);
  if (config.splitK) {
    item.kind = b.extractElement(half, 0);
    item.slot = b.extractElement(half, 1);
    item.partials = b.extractElement(half, 2);
  }
  if (config.batched)
    item.batch = b.extractElement(half, 3);
  return item;
}

Value gemm::loadItemBlocks(KernelFrame &frame, Value index) {
  return frame.b.extractElement(loadItemHalf(frame, index, 0), 3);
}

StagePosition gemm::advance(KernelFrame &frame, StagePosition position) {
  KernelBuilder &b = frame.b;
  Value next = b.add(position.stage, 1);
  Value wraps = b.equal(next, frame.config.stages);
  return {b.select(wraps, b.constant(0), next),
          b.select(wraps, b.bitXor(position.parity, 1), position.parity)};
}

StagePosition gemm::skip(KernelFrame &frame, StagePosition position,
                         Value blocks) {
  KernelBuilder &b = frame.b;
  int stages = frame.config.stages;
  Value sum = b.add(position.stage, blocks);
  Value rounds = b.divide(sum, stages);
  return {b.subtract(sum, b.multiply(rounds, stages)),
          b.bitXor(position.parity, b.bitAnd(rounds, 1))};
}

Value gemm::getBarrier(KernelFrame &frame, Value barriers, Value stage) {
  return frame.b.add(barriers, frame.b.shiftLeft(stage, 3));
}

llvm::SmallVector<Value> gemm::getCoordinates(KernelFrame &frame, Value inner,
                                              Value outer, const Item &item) {
  llvm::SmallVector<Value> coordinates{inner, outer};
  if (frame.config.batched)
    coordinates.push_back(item.batch);
  return coordinates;
}
