//===- BatchedGathers.cpp - Rows taken each at its own place --------------===//
#include "compiler/sharding/BatchedGathers.h"
#include "dialects/train/Train.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// A folded table whose every element is its coordinate along `dim`.
static bool isCountingTable(ConstantOp op, int64_t dim) {
  auto elements = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!elements)
    return false;
  ArrayRef<int64_t> shape = getShape(op.getResult());
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dim + 1))
    stride *= size;
  int64_t position = 0;
  for (const APInt &element : elements.getValues<APInt>())
    if (element.getSExtValue() != position++ / stride % shape[dim])
      return false;
  return true;
}

/// The dimension of `to` that holds what dimension `dim` of `from` holds, if
/// the shapes differ in dimensions of size 1 only; else -1.
static int64_t mapThroughUnitDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                  int64_t dim) {
  auto isUnit = [](int64_t size) { return size == 1; };
  SmallVector<int64_t> full(from), other(to);
  llvm::erase_if(full, isUnit);
  llvm::erase_if(other, isUnit);
  if (full != other || from[dim] == 1)
    return -1;
  int64_t nth = llvm::count_if(from.take_front(dim),
                               [](int64_t size) { return size != 1; });
  for (auto [index, size] : llvm::enumerate(to))
    if (size != 1 && nth-- == 0)
      return index;
  return -1;
}

/// Every element of `value` is its coordinate along `dim`.
static bool countsAlong(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return static_cast<int64_t>(iota.getDimension()) == dim;
  if (auto constant = dyn_cast_or_null<ConstantOp>(op))
    return isCountingTable(constant, dim);
  if (auto convert = dyn_cast_or_null<ConvertOp>(op))
    return isa<IntegerType>(getElementTypeOrSelf(convert.getOperand())) &&
           countsAlong(convert.getOperand(), dim);
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    int64_t from = mapThroughUnitDims(getShape(value),
                                      getShape(reshape.getOperand()), dim);
    return from >= 0 && countsAlong(reshape.getOperand(), from);
  }
  if (auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(op))
    for (auto [from, to] : llvm::enumerate(broadcast.getDimensions()))
      if (to == dim)
        return getShape(broadcast.getOperand())[from] == getShape(value)[to] &&
               countsAlong(broadcast.getOperand(), from);
  return false;
}

/// The first index is that of the first dimension after the batch dimensions,
/// and counts along it; another index is left to say what is taken.
template <typename OpT> static bool isBatchable(OpT op) {
  int64_t batch = op.getBatchDims();
  if (op.getIndices().size() < 2 || op.getDims()[0] != batch)
    return false;
  Value index = op.getIndices()[0];
  ArrayRef<int64_t> shape = getShape(index);
  return batch < static_cast<int64_t>(shape.size()) &&
         shape[batch] == getShape(op.getOperand())[batch] &&
         shape[batch] != 1 && countsAlong(index, batch);
}

template <typename OpT> static void batchFirstIndex(OpT op) {
  op.setBatchDims(op.getBatchDims() + 1);
  op.setDims(SmallVector<int64_t>(op.getDims().drop_front()));
  op.getIndicesMutable().erase(0);
}

void sharding::batchGathers(func::FuncOp function) {
  function.walk([](GatherOp op) {
    while (isBatchable(op))
      batchFirstIndex(op);
  });
  function.walk([](ScatterOp op) {
    while (isBatchable(op))
      batchFirstIndex(op);
  });
}
