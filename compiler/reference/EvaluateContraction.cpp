//===- EvaluateContraction.cpp - Reductions and products
//-------------------------===//
//
// All sums of floating point are in double and rounded once. The matrix product
// and the convolutions are plain loops whose innermost one is contiguous, so
// that a small model's step takes seconds.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

//===--- Reduce ---===//

template <typename T>
static std::vector<T>
reduceDims(const std::vector<T> &values, ArrayRef<int64_t> shape,
           ArrayRef<int64_t> dims, ReduceKind kind, T neutral, int64_t count) {
  // Strides of the result; 0 along reduced dimensions.
  SmallVector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i)
    if (!llvm::is_contained(dims, i)) {
      strides[i] = stride;
      stride *= shape[i];
    }
  std::vector<T> result(count, neutral);
  if (shape.empty())
    return values;
  int64_t last = shape.back(), step = strides.back();
  forEachIndex(shape.drop_back(), [&](int64_t row, ArrayRef<int64_t> index) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i)
      offset += index[i] * strides[i];
    for (int64_t i = 0; i < last; ++i)
      result[offset + i * step] =
          combine(kind, result[offset + i * step], values[row * last + i]);
  });
  return result;
}

static LogicalResult evaluateReduce(ReduceOp op, Operands operands,
                                    Results &results) {
  RankedTensorType type = getResultType(op);
  const HostTensor &x = operands[0];
  if (x.isFloat())
    results.push_back(HostTensor::fromDoubles(
        type, reduceDims(x.toDoubles(), x.getShape(), op.getDimensions(),
                         op.getKind(), getNeutralDouble(op.getKind()),
                         type.getNumElements())));
  else
    results.push_back(HostTensor::fromInts(
        type,
        reduceDims(x.toInts(), x.getShape(), op.getDimensions(), op.getKind(),
                   getNeutralInt(op.getKind(), x.getElementType()),
                   type.getNumElements())));
  return success();
}

/// The first of equals; a NaN is taken for the largest and for the smallest.
template <typename T>
static std::vector<int64_t> findExtremes(const AroundDimension &around,
                                         const std::vector<T> &values,
                                         bool max) {
  std::vector<int64_t> result(around.outer * around.inner, 0);
  around.forEachRow([&](int64_t row, int64_t start) {
    for (int64_t k = 1; k < around.size; ++k) {
      T best = values[start + result[row] * around.inner],
        x = values[start + k * around.inner];
      if (best == best && (x != x || (max ? x > best : x < best)))
        result[row] = k;
    }
  });
  return result;
}

static LogicalResult evaluateArgReduce(ArgReduceOp op, Operands operands,
                                       Results &results) {
  const HostTensor &x = operands[0];
  AroundDimension around(x.getShape(), op.getDimension());
  bool max = op.getKind() == ReduceKind::Max;
  results.push_back(HostTensor::fromInts(
      getResultType(op), x.isFloat() ? findExtremes(around, x.toDoubles(), max)
                                     : findExtremes(around, x.toInts(), max)));
  return success();
}

//===--- Matrix product ---===//

/// result[M, N] += lhs[M, K] rhs[K, N], in blocks of K so that the rows of rhs
/// stay in the cache.
template <typename T>
static void multiplyMatrices(const T *lhs, const T *rhs, T *result, int64_t m,
                             int64_t k, int64_t n) {
  constexpr int64_t block = 64;
  for (int64_t k0 = 0; k0 < k; k0 += block)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = k0, end = std::min(k, k0 + block); j < end; ++j) {
        T factor = lhs[i * k + j];
        const T *row = rhs + j * n;
        T *out = result + i * n;
        for (int64_t l = 0; l < n; ++l)
          out[l] += factor * row[l];
      }
}

static int64_t product(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t i : dims)
    result *= shape[i];
  return result;
}

static LogicalResult evaluateDotGeneral(DotGeneralOp op, Operands operands,
                                        Results &results) {
  RankedTensorType type = getResultType(op);
  SmallVector<int64_t> lhsOrder(op.getLhsBatch()), rhsOrder(op.getRhsBatch()),
      lhsFree = op.getLhsFree(), rhsFree = op.getRhsFree();
  lhsOrder.append(lhsFree);
  llvm::append_range(lhsOrder, op.getLhsContract());
  llvm::append_range(rhsOrder, op.getRhsContract());
  rhsOrder.append(rhsFree);
  ArrayRef<int64_t> lhsShape = operands[0].getShape(),
                    rhsShape = operands[1].getShape();
  int64_t batches = product(lhsShape, op.getLhsBatch()),
          m = product(lhsShape, lhsFree), n = product(rhsShape, rhsFree);
  int64_t k = product(lhsShape, op.getLhsContract());
  HostTensor lhs = transpose(operands[0], lhsOrder),
             rhs = transpose(operands[1], rhsOrder);
  auto multiply = [&](auto x, auto y) {
    decltype(x) z(type.getNumElements(), 0);
    for (int64_t b = 0; b < batches; ++b)
      multiplyMatrices(x.data() + b * m * k, y.data() + b * k * n,
                       z.data() + b * m * n, m, k, n);
    return z;
  };
  if (lhs.isFloat())
    results.push_back(HostTensor::fromDoubles(
        type, multiply(lhs.toDoubles(), rhs.toDoubles())));
  else
    results.push_back(
        HostTensor::fromInts(type, multiply(lhs.toInts(), rhs.toInts())));
  return success();
}

//===--- Convolution ---===//

namespace {

/// A convolution with its spatial dimensions extended to three by leading
/// dimensions of size 1.
struct ConvolutionGeometry {
  int64_t batch, outChannels, groups, groupIn, groupOut;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, window[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, low[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};

  template <typename Op>
  ConvolutionGeometry(Op op, ArrayRef<int64_t> input, ArrayRef<int64_t> filter,
                      ArrayRef<int64_t> output) {
    batch = input[0];
    outChannels = output[1];
    groups = op.getGroups();
    groupIn = input[1] / groups;
    groupOut = outChannels / groups;
    for (int64_t i = 0, spatial = input.size() - 2, at = 3 - spatial;
         i < spatial; ++i, ++at) {
      in[at] = input[2 + i];
      out[at] = output[2 + i];
      window[at] = filter[2 + i];
      stride[at] = op.getStrides()[i];
      low[at] = op.getPaddingLow()[i];
      dilation[at] = op.getDilation()[i];
    }
  }

  /// Where along dimension d the tap k reads for output position o; negative or
  /// too large in the padding.
  int64_t getInput(int d, int64_t o, int64_t k) const {
    return o * stride[d] - low[d] + k * dilation[d];
  }

  /// Calls f(filter element, input offset, output offset, count) for every run
  /// of outputs along the last dimension that one tap of the filter reaches;
  /// within it, inputs are stride[2] apart.
  template <typename F> void forEachRun(F f) const {
    for (int64_t image = 0; image < batch; ++image)
      for (int64_t o = 0; o < outChannels; ++o)
        for (int64_t c = 0; c < groupIn; ++c)
          forEachRunOfPlane((image * groups + o / groupOut) * groupIn + c,
                            o * groupIn + c, image * outChannels + o, f);
  }

private:
  template <typename F>
  void forEachRunOfPlane(int64_t inPlane, int64_t filterPlane, int64_t outPlane,
                         F f) const {
    for (int64_t a = 0; a < window[0]; ++a)
      for (int64_t b = 0; b < window[1]; ++b)
        for (int64_t c = 0; c < window[2]; ++c) {
          int64_t begin = 0, end = out[2];
          while (begin < end && getInput(2, begin, c) < 0)
            ++begin;
          while (end > begin && getInput(2, end - 1, c) >= in[2])
            --end;
          for (int64_t x = 0; x < out[0]; ++x)
            for (int64_t y = 0; y < out[1]; ++y) {
              int64_t u = getInput(0, x, a), v = getInput(1, y, b);
              if (begin < end && u >= 0 && u < in[0] && v >= 0 && v < in[1])
                f(((filterPlane * window[0] + a) * window[1] + b) * window[2] +
                      c,
                  ((inPlane * in[0] + u) * in[1] + v) * in[2] +
                      getInput(2, begin, c),
                  ((outPlane * out[0] + x) * out[1] + y) * out[2] + begin,
                  end - begin);
            }
        }
  }
};

} // namespace

static LogicalResult evaluateConvolution(ConvolutionOp op, Operands operands,
                                         Results &results) {
  RankedTensorType type = getResultType(op);
  ConvolutionGeometry geometry(op, operands[0].getShape(),
                               operands[1].getShape(), type.getShape());
  std::vector<double> x = operands[0].toDoubles(), w = operands[1].toDoubles(),
                      y(type.getNumElements(), 0);
  int64_t step = geometry.stride[2];
  geometry.forEachRun([&](int64_t tap, int64_t in, int64_t out, int64_t count) {
    double factor = w[tap];
    for (int64_t i = 0; i < count; ++i)
      y[out + i] += factor * x[in + i * step];
  });
  results.push_back(HostTensor::fromDoubles(type, y));
  return success();
}

static LogicalResult
evaluateConvolutionInputGradient(ConvolutionInputGradientOp op,
                                 Operands operands, Results &results) {
  RankedTensorType type = getResultType(op);
  ConvolutionGeometry geometry(op, type.getShape(), operands[1].getShape(),
                               operands[0].getShape());
  std::vector<double> dy = operands[0].toDoubles(), w = operands[1].toDoubles(),
                      dx(type.getNumElements(), 0);
  int64_t step = geometry.stride[2];
  geometry.forEachRun([&](int64_t tap, int64_t in, int64_t out, int64_t count) {
    double factor = w[tap];
    for (int64_t i = 0; i < count; ++i)
      dx[in + i * step] += factor * dy[out + i];
  });
  results.push_back(HostTensor::fromDoubles(type, dx));
  return success();
}

static LogicalResult
evaluateConvolutionFilterGradient(ConvolutionFilterGradientOp op,
                                  Operands operands, Results &results) {
  RankedTensorType type = getResultType(op);
  ConvolutionGeometry geometry(op, operands[0].getShape(), type.getShape(),
                               operands[1].getShape());
  std::vector<double> x = operands[0].toDoubles(), dy = operands[1].toDoubles(),
                      dw(type.getNumElements(), 0);
  int64_t step = geometry.stride[2];
  geometry.forEachRun([&](int64_t tap, int64_t in, int64_t out, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += x[in + i * step] * dy[out + i];
    dw[tap] += sum;
  });
  results.push_back(HostTensor::fromDoubles(type, dw));
  return success();
}

void attachContractionEvaluations(MLIRContext *c) {
  attachEvaluation<ReduceOp, evaluateReduce>(c);
  attachEvaluation<ArgReduceOp, evaluateArgReduce>(c);
  attachEvaluation<DotGeneralOp, evaluateDotGeneral>(c);
  attachEvaluation<ConvolutionOp, evaluateConvolution>(c);
  attachEvaluation<ConvolutionInputGradientOp,
                   evaluateConvolutionInputGradient>(c);
  attachEvaluation<ConvolutionFilterGradientOp,
                   evaluateConvolutionFilterGradient>(c);
}

} // namespace lockstep
