// Pooling: windows of the trailing dimensions. Adaptive pooling with uneven
// windows is a product with an averaging matrix.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

namespace {
struct Window {
  Shape size, stride, low, high, dilation, counts;
};
} // namespace

static Shape perDim(Shape given, size_t count, int64_t fallback) {
  if (given.empty())
    return Shape(count, fallback);
  return given.size() == 1 ? Shape(count, given[0]) : given;
}

/// Reads the window; the padding at the end is what the result's size in the
/// file needs (ceil_mode).
static bool readWindow(OpCall &op, Value x, size_t dims, Window &w) {
  w.size = perDim(op.integers("kernel_size"), dims, 1);
  Shape stride = op.integers("stride", Shape());
  w.stride = stride.empty() ? w.size : perDim(stride, dims, 1);
  w.low = perDim(op.integers("padding", Shape()), dims, 0);
  w.dilation = perDim(op.integers("dilation", Shape()), dims, 1);
  op.ignore({"ceil_mode"});
  Shape result = op.resultShape();
  if (op.bad() || w.size.size() != dims || w.stride.size() != dims ||
      w.low.size() != dims || w.dilation.size() != dims ||
      result.size() < dims || rankOf(x) < static_cast<int64_t>(dims))
    return op.t.fail("expected one number for each pooled dimension"), false;
  w.counts = Shape(ArrayRef(result).take_back(dims));
  for (size_t i = 0; i < dims; ++i) {
    int64_t span = (w.size[i] - 1) * w.dilation[i] + 1,
            size = shapeOf(x).take_back(dims)[i];
    w.high.push_back(std::max<int64_t>(0, (w.counts[i] - 1) * w.stride[i] +
                                              span - size - w.low[i]));
  }
  return true;
}

static Value reduceWindow(OpCall &op, ReduceKind kind, Value x,
                          const Window &w) {
  Emitter &t = op.t;
  Operation *pool = t.inferred<ReduceWindowOp>(x, [&](auto &p) {
    p.kind = ReduceKindAttr::get(t.b.getContext(), kind),
    p.window = t.array(w.size), p.strides = t.array(w.stride);
    p.padding_low = t.array(w.low), p.padding_high = t.array(w.high),
    p.dilation = t.array(w.dilation);
  });
  return pool ? pool->getResult(0) : Value();
}

static size_t pooledDims(OpCall &op) {
  return op.base.contains("1d") ? 1 : op.base.contains("2d") ? 2 : 3;
}

static void lowerMaxPool(OpCall &op) {
  Value x = op.tensor("self");
  Window w;
  if (op.bad() || !readWindow(op, x, pooledDims(op), w))
    return;
  op.result(0, reduceWindow(op, ReduceKind::Max, x, w));
  if (op.resultCount() > 1 && op.isResultUsed(1))
    op.unsupported("the indices of max pooling");
}

/// How many elements each window of one dimension has, by PyTorch's rule.
static SmallVector<double> windowCounts(const Window &w, size_t i, int64_t size,
                                        bool includePad) {
  SmallVector<double> counts;
  for (int64_t k = 0; k < w.counts[i]; ++k) {
    int64_t start = k * w.stride[i] - w.low[i],
            end = std::min(start + w.size[i], size + w.low[i]);
    if (!includePad)
      start = std::max<int64_t>(start, 0), end = std::min(end, size);
    counts.push_back(static_cast<double>(std::max<int64_t>(1, end - start)));
  }
  return counts;
}

static Value floatTable(Emitter &t, ArrayRef<double> values, Dims shape,
                        Type type) {
  SmallVector<APFloat> numbers;
  for (double value : values) {
    numbers.emplace_back(value);
    bool ignored;
    numbers.back().convert(cast<FloatType>(type).getFloatSemantics(),
                           APFloat::rmNearestTiesToEven, &ignored);
  }
  return ConstantOp::create(
             t.b, t.loc, DenseElementsAttr::get(t.type(shape, type), numbers))
      .getResult();
}

static void lowerAvgPool(OpCall &op) {
  Value x = op.tensor("self");
  size_t dims = pooledDims(op);
  bool includePad = op.flag("count_include_pad", true);
  std::optional<int64_t> divisor = op.optionalInteger("divisor_override");
  Window w;
  if (op.bad() || !readWindow(op, x, dims, w))
    return;
  Value sum = reduceWindow(op, ReduceKind::Sum, x, w);
  if (divisor)
    return op.result(op.t.div(sum, static_cast<double>(*divisor)));
  for (size_t i = 0; i < dims && sum; ++i) {
    SmallVector<double> counts =
        windowCounts(w, i, shapeOf(x).take_back(dims)[i], includePad);
    if (llvm::all_equal(counts)) {
      sum = op.t.div(sum, counts.empty() ? 1.0 : counts.front());
      continue;
    }
    Shape shape(dims, 1);
    shape[i] = w.counts[i];
    sum = op.t.div(sum, floatTable(op.t, counts, shape, elementOf(sum)));
  }
  op.result(sum);
}

//===----------------------------------------------------------------------===//
// Adaptive
//===----------------------------------------------------------------------===//

/// y = matrix x along `dim`; the matrix is [out, in], row-major.
Value applyAlong(Emitter &t, Value x, int64_t dim, ArrayRef<double> matrix,
                 int64_t outSize) {
  if (!x)
    return x;
  int64_t inSize = shapeOf(x)[dim];
  Value m = floatTable(t, matrix, {outSize, inSize}, elementOf(x));
  Value y = t.dot(x, m, {}, {}, {dim}, {1}); // [others, out]
  Shape permutation = range(rankOf(x) - 1);
  permutation.insert(permutation.begin() + dim, rankOf(x) - 1);
  return y ? t.transpose(y, permutation) : y;
}

static SmallVector<double> averagingMatrix(int64_t in, int64_t out) {
  SmallVector<double> matrix(in * out, 0);
  for (int64_t i = 0; i < out; ++i) {
    int64_t start = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (int64_t k = start; k < end; ++k)
      matrix[i * in + k] = 1.0 / static_cast<double>(end - start);
  }
  return matrix;
}

static void lowerAdaptivePool(OpCall &op) {
  Value x = op.tensor("self");
  op.ignore({"output_size"});
  size_t dims = pooledDims(op);
  bool average = op.base.contains("avg");
  Shape result = op.resultShape();
  if (op.bad() || static_cast<int64_t>(result.size()) != rankOf(x) ||
      result.size() < dims)
    return;
  Dims in = shapeOf(x).take_back(dims), out = ArrayRef(result).take_back(dims);
  int64_t first = rankOf(x) - static_cast<int64_t>(dims);
  if (op.resultCount() > 1 && op.isResultUsed(1))
    return op.unsupported("the indices of max pooling");
  if (llvm::all_of(out, [](int64_t size) { return size == 1; })) {
    Shape all = llvm::to_vector(llvm::seq<int64_t>(first, rankOf(x)));
    return op.result(0, average ? op.t.mean(x, all, true)
                                : op.t.reduce(ReduceKind::Max, x, all, true));
  }
  bool even = true;
  for (size_t i = 0; i < dims; ++i)
    even &= out[i] > 0 && in[i] % out[i] == 0;
  if (even) {
    Window w;
    double count = 1;
    for (size_t i = 0; i < dims; ++i) {
      w.size.push_back(in[i] / out[i]);
      count *= static_cast<double>(in[i] / out[i]);
    }
    w.stride = w.size, w.low = w.high = Shape(dims, 0),
    w.dilation = Shape(dims, 1);
    if (in == out)
      return op.result(0, x);
    Value y =
        reduceWindow(op, average ? ReduceKind::Sum : ReduceKind::Max, x, w);
    return op.result(0, average ? op.t.div(y, count) : y);
  }
  for (size_t i = 0; i < dims && x; ++i) {
    int64_t dim = first + static_cast<int64_t>(i);
    if (in[i] == out[i])
      continue;
    if (average) {
      x = applyAlong(op.t, x, dim, averagingMatrix(in[i], out[i]), out[i]);
      continue;
    }
    SmallVector<Value> parts;
    for (int64_t k = 0; k < out[i]; ++k)
      parts.push_back(
          op.t.reduce(ReduceKind::Max,
                      op.t.sliceDim(x, dim, k * in[i] / out[i],
                                    ((k + 1) * in[i] + out[i] - 1) / out[i]),
                      {dim}, true));
    x = op.t.concat(parts, dim);
  }
  op.result(0, x);
}

void addPooling(OperatorTable &table) {
  table.add({"max_pool1d", "max_pool2d", "max_pool3d",
             "max_pool1d_with_indices", "max_pool2d_with_indices",
             "max_pool3d_with_indices"},
            lowerMaxPool);
  table.add({"avg_pool1d", "avg_pool2d", "avg_pool3d"}, lowerAvgPool);
  table.add({"adaptive_avg_pool1d", "adaptive_avg_pool2d",
             "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
             "_adaptive_avg_pool3d", "adaptive_max_pool1d",
             "adaptive_max_pool2d", "adaptive_max_pool3d"},
            lowerAdaptivePool);
}

} // namespace lockstep::aten
