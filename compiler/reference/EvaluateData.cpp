//===- EvaluateData.cpp - Constants and data movement
//---------------------------===//
//
// Data movement copies bytes, so it serves every element type alike and changes
// no bit of a value.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

static LogicalResult evaluateConstant(ConstantOp op, Operands,
                                      Results &results) {
  FailureOr<HostTensor> value = HostTensor::fromAttr(op.getValue());
  if (failed(value))
    return failure();
  results.push_back(*value);
  return success();
}

static LogicalResult evaluateIota(IotaOp op, Operands, Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<int64_t> values(type.getNumElements());
  AroundDimension around(type.getShape(), op.getDimension());
  for (int64_t i = 0, e = values.size(); i < e; ++i)
    values[i] = i / around.inner % around.size;
  results.push_back(HostTensor::fromInts(type, values));
  return success();
}

static LogicalResult evaluateBroadcast(BroadcastInDimOp op, Operands operands,
                                       Results &results) {
  RankedTensorType type = getResultType(op);
  const HostTensor &x = operands[0];
  if (x.isSplat() || x.getNumElements() == 1) {
    results.push_back(x.resizeSplat(type.getShape()));
    return success();
  }
  SmallVector<int64_t> from = getRowMajorStrides(x.getShape()),
                       strides(type.getRank(), 0);
  for (auto [i, dim] : llvm::enumerate(op.getDimensions()))
    strides[dim] = x.getDimSize(i) == 1 ? 0 : from[i];
  results.push_back(readStrided(x, type.getShape(), 0, strides));
  return success();
}

static LogicalResult evaluateReshape(ReshapeOp op, Operands operands,
                                     Results &results) {
  results.push_back(operands[0].reshape(getResultType(op).getShape()));
  return success();
}

static LogicalResult evaluateTranspose(TransposeOp op, Operands operands,
                                       Results &results) {
  results.push_back(transpose(operands[0], op.getPermutation()));
  return success();
}

static LogicalResult evaluateSlice(SliceOp op, Operands operands,
                                   Results &results) {
  SmallVector<int64_t> strides = getRowMajorStrides(operands[0].getShape());
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += op.getStarts()[i] * strides[i];
    strides[i] *= op.getStrides()[i];
  }
  results.push_back(
      readStrided(operands[0], getResultType(op).getShape(), offset, strides));
  return success();
}

static LogicalResult evaluateReverse(ReverseOp op, Operands operands,
                                     Results &results) {
  ArrayRef<int64_t> shape = operands[0].getShape();
  SmallVector<int64_t> strides = getRowMajorStrides(shape);
  int64_t offset = 0;
  for (int64_t i : op.getDimensions()) {
    offset += (shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  results.push_back(operands[0].getNumElements()
                        ? readStrided(operands[0], shape, offset, strides)
                        : operands[0]);
  return success();
}

/// A mutable copy of a tensor's bytes.
static std::vector<char> copyBytes(const HostTensor &tensor) {
  HostTensor all = tensor.expand();
  return std::vector<char>(all.getData(), all.getData() + all.getNumBytes());
}

static LogicalResult evaluatePad(PadOp op, Operands operands,
                                 Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<char> bytes =
      copyBytes(operands[1].reshape({1}).resizeSplat(type.getShape()));
  HostTensor x = operands[0].expand();
  int64_t size = HostTensor::getElementBytes(type.getElementType());
  SmallVector<int64_t> strides = getRowMajorStrides(type.getShape());
  forEachIndex(x.getShape(), [&](int64_t position, ArrayRef<int64_t> index) {
    int64_t target = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      int64_t place = op.getLow()[i] + index[i] * (op.getInterior()[i] + 1);
      if (place < 0 || place >= type.getDimSize(i))
        return; // Negative padding removes the element.
      target += place * strides[i];
    }
    std::memcpy(&bytes[target * size], x.getData() + position * size, size);
  });
  results.push_back(HostTensor::copy(type, bytes));
  return success();
}

static LogicalResult evaluateConcatenate(ConcatenateOp op, Operands operands,
                                         Results &results) {
  results.push_back(concatenate(operands, op.getDimension()));
  return success();
}

//===--- Gather and scatter ---===//

namespace {

/// Where the elements of a gather lie in its operand. Result [batch..., I...,
/// others...] is `positions` times `slice` elements.
struct GatherPlan {
  ArrayRef<int64_t> shape;
  SmallVector<int64_t> strides, dims;
  std::vector<std::vector<int64_t>> indices;
  int64_t batchCount = 1, positions = 1, positionsPerBatch = 1;
  SmallVector<int64_t> batchShape;
  /// Offset of each element of the slice at one position.
  std::vector<int64_t> slice;

  GatherPlan(ArrayRef<int64_t> shape, Operands indexTensors,
             ArrayRef<int64_t> dims, int64_t batchDims)
      : shape(shape), strides(getRowMajorStrides(shape)), dims(dims),
        batchShape(shape.take_front(batchDims)) {
    for (const HostTensor &tensor : indexTensors)
      indices.push_back(tensor.toInts());
    for (int64_t size : batchShape)
      batchCount *= size;
    positions =
        indexTensors.empty() ? batchCount : indexTensors[0].getNumElements();
    positionsPerBatch = batchCount ? positions / batchCount : 0;
    SmallVector<int64_t> otherShape, otherStrides;
    for (int64_t i = batchDims, e = shape.size(); i < e; ++i)
      if (!llvm::is_contained(dims, i)) {
        otherShape.push_back(shape[i]);
        otherStrides.push_back(strides[i]);
      }
    forEachIndex(otherShape, [&](int64_t, ArrayRef<int64_t> index) {
      slice.push_back(std::inner_product(index.begin(), index.end(),
                                         otherStrides.begin(), int64_t(0)));
    });
  }

  /// Offset of the slice at a position; nothing where an index is out of range
  /// and `clamp` is false.
  std::optional<int64_t> getOffset(int64_t position, bool clamp) const {
    int64_t offset = 0, batch = position / positionsPerBatch;
    for (int64_t i = int64_t(batchShape.size()) - 1; i >= 0; --i) {
      offset += batch % batchShape[i] * strides[i];
      batch /= batchShape[i];
    }
    for (auto [k, dim] : llvm::enumerate(dims)) {
      int64_t index = indices[k][position], last = shape[dim] - 1;
      if (!clamp && (index < 0 || index > last))
        return std::nullopt;
      offset += std::max<int64_t>(0, std::min(index, last)) * strides[dim];
    }
    return offset;
  }
};

} // namespace

static LogicalResult evaluateGather(GatherOp op, Operands operands,
                                    Results &results) {
  RankedTensorType type = getResultType(op);
  HostTensor x = operands[0].expand();
  GatherPlan plan(x.getShape(), operands.drop_front(), op.getDims(),
                  op.getBatchDims());
  int64_t size = HostTensor::getElementBytes(type.getElementType());
  std::vector<char> bytes(type.getNumElements() * size);
  char *to = bytes.data();
  if (!bytes.empty())
    for (int64_t position = 0; position < plan.positions; ++position) {
      const char *from =
          x.getData() + *plan.getOffset(position, /*clamp=*/true) * size;
      for (int64_t offset : plan.slice) {
        std::memcpy(to, from + offset * size, size);
        to += size;
      }
    }
  results.push_back(HostTensor::copy(type, bytes));
  return success();
}

template <typename T> static T applyUpdate(ScatterKind kind, T old, T update) {
  switch (kind) {
  case ScatterKind::Add:
    return combine(ReduceKind::Sum, old, update);
  case ScatterKind::Replace:
    return update;
  case ScatterKind::Max:
    return combine(ReduceKind::Max, old, update);
  case ScatterKind::Min:
    return combine(ReduceKind::Min, old, update);
  case ScatterKind::Multiply:
    return combine(ReduceKind::Product, old, update);
  }
  llvm_unreachable("all kinds are handled");
}

template <typename T>
static void scatter(ScatterKind kind, const GatherPlan &plan,
                    std::vector<T> &values, const std::vector<T> &updates) {
  for (int64_t position = 0, next = 0; position < plan.positions; ++position) {
    std::optional<int64_t> base = plan.getOffset(position, /*clamp=*/false);
    for (int64_t offset : plan.slice) {
      if (base)
        values[*base + offset] =
            applyUpdate(kind, values[*base + offset], updates[next]);
      ++next;
    }
  }
}

static LogicalResult evaluateScatter(ScatterOp op, Operands operands,
                                     Results &results) {
  RankedTensorType type = getResultType(op);
  GatherPlan plan(type.getShape(), operands.drop_front().drop_back(),
                  op.getDims(), op.getBatchDims());
  if (operands[0].isFloat()) {
    std::vector<double> values = operands[0].toDoubles();
    scatter(op.getKind(), plan, values, operands.back().toDoubles());
    results.push_back(HostTensor::fromDoubles(type, values));
  } else {
    std::vector<int64_t> values = operands[0].toInts();
    scatter(op.getKind(), plan, values, operands.back().toInts());
    results.push_back(HostTensor::fromInts(type, values));
  }
  return success();
}

//===--- Sort and running reductions ---===//

static bool isLess(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}
static bool isLess(int64_t a, int64_t b) { return a < b; }

template <typename T>
static void sortRows(const AroundDimension &around, bool descending,
                     std::vector<T> &values, std::vector<int64_t> &places) {
  std::vector<int64_t> order(around.size);
  std::vector<T> row(around.size);
  around.forEachRow([&](int64_t, int64_t start) {
    for (int64_t k = 0; k < around.size; ++k)
      row[k] = values[start + k * around.inner];
    std::iota(order.begin(), order.end(), 0);
    // Equal elements compare by place, which makes the order stable.
    llvm::sort(order, [&](int64_t a, int64_t b) {
      if (isLess(row[a], row[b]))
        return !descending;
      return isLess(row[b], row[a]) ? descending : a < b;
    });
    for (int64_t k = 0; k < around.size; ++k) {
      values[start + k * around.inner] = row[order[k]];
      places[start + k * around.inner] = order[k];
    }
  });
}

static LogicalResult evaluateSort(SortOp op, Operands operands,
                                  Results &results) {
  RankedTensorType type = getResultType(op);
  AroundDimension around(type.getShape(), op.getDimension());
  std::vector<int64_t> places(type.getNumElements());
  if (operands[0].isFloat()) {
    std::vector<double> values = operands[0].toDoubles();
    sortRows(around, op.getDescending(), values, places);
    results.push_back(HostTensor::fromDoubles(type, values));
  } else {
    std::vector<int64_t> values = operands[0].toInts();
    sortRows(around, op.getDescending(), values, places);
    results.push_back(HostTensor::fromInts(type, values));
  }
  results.push_back(HostTensor::fromInts(getResultType(op, 1), places));
  return success();
}

template <typename T>
static void accumulateRows(const AroundDimension &around, ReduceKind kind,
                           bool reverse, std::vector<T> &values) {
  around.forEachRow([&](int64_t, int64_t start) {
    int64_t first = reverse ? start + (around.size - 1) * around.inner : start;
    int64_t step = reverse ? -around.inner : around.inner;
    for (int64_t k = 1; k < around.size; ++k)
      values[first + k * step] = combine(kind, values[first + (k - 1) * step],
                                         values[first + k * step]);
  });
}

static LogicalResult evaluateCumulative(CumulativeOp op, Operands operands,
                                        Results &results) {
  RankedTensorType type = getResultType(op);
  AroundDimension around(type.getShape(), op.getDimension());
  if (operands[0].isFloat()) {
    std::vector<double> values = operands[0].toDoubles();
    accumulateRows(around, op.getKind(), op.getReverse(), values);
    results.push_back(HostTensor::fromDoubles(type, values));
  } else {
    std::vector<int64_t> values = operands[0].toInts();
    accumulateRows(around, op.getKind(), op.getReverse(), values);
    results.push_back(HostTensor::fromInts(type, values));
  }
  return success();
}

void attachDataEvaluations(MLIRContext *c) {
  attachEvaluation<ConstantOp, evaluateConstant>(c);
  attachEvaluation<IotaOp, evaluateIota>(c);
  attachEvaluation<BroadcastInDimOp, evaluateBroadcast>(c);
  attachEvaluation<ReshapeOp, evaluateReshape>(c);
  attachEvaluation<TransposeOp, evaluateTranspose>(c);
  attachEvaluation<SliceOp, evaluateSlice>(c);
  attachEvaluation<PadOp, evaluatePad>(c);
  attachEvaluation<ConcatenateOp, evaluateConcatenate>(c);
  attachEvaluation<ReverseOp, evaluateReverse>(c);
  attachEvaluation<GatherOp, evaluateGather>(c);
  attachEvaluation<ScatterOp, evaluateScatter>(c);
  attachEvaluation<SortOp, evaluateSort>(c);
  attachEvaluation<CumulativeOp, evaluateCumulative>(c);
}

} // namespace lockstep
