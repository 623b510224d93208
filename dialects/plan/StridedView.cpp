//===- StridedView.cpp - Views as strides of a buffer ---------------------===//
#include "dialects/plan/StridedView.h"
#include "dialects/plan/KernelModel.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

static constexpr size_t maxBatchDims = 6;

static llvm::SmallVector<int64_t>
getRowMajorStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    strides[i] = stride;
  return strides;
}

bool StridedView::isContiguous() const {
  llvm::SmallVector<int64_t> rowMajor = getRowMajorStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && strides[i] != rowMajor[i])
      return false;
  return true;
}

StridedView plan::getContiguousView(Value base) {
  auto type = cast<RankedTensorType>(base.getType());
  return {base, 0, llvm::to_vector(type.getShape()),
          getRowMajorStrides(type.getShape())};
}

/// Strides of the same elements, in row-major order, under another shape.
static std::optional<llvm::SmallVector<int64_t>>
reshapeStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> strides,
               llvm::ArrayRef<int64_t> to) {
  llvm::SmallVector<int64_t> result(to.size(), 0);
  size_t target = to.size();
  for (size_t i = from.size(); i > 0;) {
    // A maximal run of dimensions that are dense in one another.
    int64_t inner = 0, size = 1;
    for (; i > 0; --i) {
      if (from[i - 1] == 1)
        continue;
      if (size == 1)
        inner = strides[i - 1];
      else if (strides[i - 1] != inner * size)
        break;
      size *= from[i - 1];
    }
    // Is taken up by whole dimensions of the new shape.
    int64_t taken = 1;
    while (target > 0 && taken < size) {
      --target;
      result[target] = inner * taken;
      taken *= to[target];
    }
    if (taken != size)
      return std::nullopt;
  }
  return result;
}

std::optional<StridedView> plan::applyView(Operation *op,
                                           const StridedView &operand) {
  StridedView result = operand;
  result.shape = llvm::to_vector(
      cast<RankedTensorType>(op->getResult(0).getType()).getShape());
  if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
    for (auto [i, source] : llvm::enumerate(transpose.getPermutation()))
      result.strides[i] = operand.strides[source];
    return result;
  }
  if (auto slice = dyn_cast<train::SliceOp>(op)) {
    for (size_t i = 0; i < operand.shape.size(); ++i) {
      result.offset += slice.getStarts()[i] * operand.strides[i];
      result.strides[i] = slice.getStrides()[i] * operand.strides[i];
    }
    return result;
  }
  if (auto broadcast = dyn_cast<train::BroadcastInDimOp>(op)) {
    result.strides.assign(result.shape.size(), 0);
    for (auto [i, target] : llvm::enumerate(broadcast.getDimensions()))
      if (operand.shape[i] != 1)
        result.strides[target] = operand.strides[i];
    return result;
  }
  if (!isa<train::ReshapeOp>(op))
    return std::nullopt;
  auto strides = reshapeStrides(operand.shape, operand.strides, result.shape);
  if (!strides)
    return std::nullopt;
  result.strides = *strides;
  return result;
}

std::optional<StridedView> plan::foldOperandViews(Value value) {
  llvm::SmallVector<Operation *> chain;
  while (Operation *op = value.getDefiningOp()) {
    if (!isViewOp(op))
      break;
    chain.push_back(op);
    value = op->getOperand(0);
  }
  std::optional<StridedView> view = getContiguousView(value);
  for (Operation *op : llvm::reverse(chain))
    if (!(view = applyView(op, *view)))
      return std::nullopt;
  return view;
}

/// Where an operand of a concatenation lies in the result's buffer.
static StridedView getPartView(OpOperand &part) {
  auto concatenate = cast<train::ConcatenateOp>(part.getOwner());
  StridedView view = getContiguousView(concatenate.getResult());
  int64_t dimension = concatenate.getDimension();
  for (Value before :
       concatenate.getOperands().take_front(part.getOperandNumber()))
    view.offset +=
        view.strides[dimension] *
        cast<RankedTensorType>(before.getType()).getDimSize(dimension);
  view.shape =
      llvm::to_vector(cast<RankedTensorType>(part.get().getType()).getShape());
  return view;
}

/// Where the elements of the first operand of `views` lie, if those of the last
/// result lie as `view` says.
static std::optional<StridedView> invertViews(llvm::ArrayRef<Operation *> views,
                                              StridedView view) {
  for (Operation *op : llvm::reverse(views)) {
    auto shape = llvm::to_vector(
        cast<RankedTensorType>(op->getOperand(0).getType()).getShape());
    llvm::SmallVector<int64_t> strides(shape.size());
    if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
      for (auto [i, source] : llvm::enumerate(transpose.getPermutation()))
        strides[source] = view.strides[i];
    } else {
      auto reshaped = reshapeStrides(view.shape, view.strides, shape);
      if (!reshaped)
        return std::nullopt;
      strides = *reshaped;
    }
    view.shape = shape;
    view.strides = strides;
  }
  return view;
}

std::optional<StridedView>
plan::invertViews(llvm::ArrayRef<Operation *> views) {
  return ::invertViews(views, getContiguousView(views.back()->getResult(0)));
}

ResultViews plan::getResultViews(Value result) {
  ResultViews views;
  Value last = result;
  while (last.hasOneUse()) {
    OpOperand &use = *last.use_begin();
    Operation *user = use.getOwner();
    if (isa<train::ConcatenateOp>(user)) {
      views.part = &use;
      break;
    }
    if (!isa<train::ReshapeOp, train::TransposeOp>(user))
      break;
    views.chain.push_back(user);
    last = user->getResult(0);
  }
  return views;
}

std::optional<StridedView> plan::foldResultViews(Value result) {
  ResultViews views = getResultViews(result);
  if (views.part)
    return ::invertViews(views.chain, getPartView(*views.part));
  if (views.chain.empty())
    return getContiguousView(result);
  return invertViews(views.chain);
}

namespace {
/// One dimension of a product: its size, and its strides in the (one or two,
/// batch: three) tensors that have it.
struct ProductDim {
  int64_t size;
  int64_t first, second, third = 0;
};
using ProductDims = llvm::SmallVector<ProductDim>;
} // namespace

/// Drops unit dimensions and joins neighbours that have a common stride.
static ProductDims coalesce(llvm::ArrayRef<ProductDim> dims) {
  ProductDims result;
  for (const ProductDim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (!result.empty()) {
      ProductDim &outer = result.back();
      if (outer.first == dim.first * dim.size &&
          outer.second == dim.second * dim.size &&
          outer.third == dim.third * dim.size) {
        outer = {outer.size * dim.size, dim.first, dim.second, dim.third};
        continue;
      }
    }
    result.push_back(dim);
  }
  return result;
}

/// Takes the dimension that becomes the matrix dimension out of `dims`: the one
/// with a unit stride, else the last.
static ProductDim takeMatrixDim(ProductDims &dims) {
  if (dims.empty())
    return {1, 1, 1, 0};
  size_t chosen = dims.size() - 1;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].first == 1 || dims[i].second == 1)
      chosen = i;
  ProductDim dim = dims[chosen];
  dims.erase(dims.begin() + chosen);
  return dim;
}

std::optional<GemmShape> plan::foldContraction(train::DotGeneralOp dot,
                                               const StridedView &lhs,
                                               const StridedView &rhs,
                                               const StridedView &result) {
  ProductDims batch, m, n, k;
  int64_t next = 0;
  for (auto [l, r] : llvm::zip(dot.getLhsBatch(), dot.getRhsBatch())) {
    batch.push_back(
        {lhs.shape[l], lhs.strides[l], rhs.strides[r], result.strides[next]});
    ++next;
  }
  for (int64_t dim : dot.getLhsFree())
    m.push_back({lhs.shape[dim], lhs.strides[dim], result.strides[next++]});
  for (int64_t dim : dot.getRhsFree())
    n.push_back({rhs.shape[dim], rhs.strides[dim], result.strides[next++]});
  for (auto [l, r] : llvm::zip(dot.getLhsContract(), dot.getRhsContract()))
    k.push_back({lhs.shape[l], lhs.strides[l], rhs.strides[r]});
  // Contracted pairs may stand in any order; major ones first lets them join.
  llvm::sort(k, [](const ProductDim &x, const ProductDim &y) {
    return std::tie(x.first, x.second, x.size) >
           std::tie(y.first, y.second, y.size);
  });
  k = coalesce(k);
  if (k.size() > 1)
    return std::nullopt;
  m = coalesce(m);
  n = coalesce(n);
  ProductDim row = takeMatrixDim(m), column = takeMatrixDim(n),
             inner = k.empty() ? ProductDim{1, 1, 1} : k.front();
  for (const ProductDim &dim : m)
    batch.push_back({dim.size, dim.first, 0, dim.second});
  for (const ProductDim &dim : n)
    batch.push_back({dim.size, 0, dim.first, dim.second});
  batch = coalesce(batch);
  if (batch.size() > maxBatchDims)
    return std::nullopt;
  GemmShape shape;
  shape.m = row.size, shape.n = column.size, shape.k = inner.size;
  shape.aRow = row.first, shape.cRow = row.second;
  shape.bColumn = column.first, shape.cColumn = column.second;
  shape.aColumn = inner.first, shape.bRow = inner.second;
  for (const ProductDim &dim : batch) {
    shape.batch.push_back(dim.size);
    shape.aBatch.push_back(dim.first);
    shape.bBatch.push_back(dim.second);
    shape.cBatch.push_back(dim.third);
  }
  return shape;
}

bool plan::hasUnitInnermostStride(const StridedView &view) {
  return view.shape.empty() || view.shape.back() == 1 ||
         view.strides.back() == 1;
}
