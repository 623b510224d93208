//===- EvaluateWindow.cpp - Pooling and its gradient
//-----------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

namespace {

/// Windows over the trailing dimensions of `operand`; the leading ones are
/// planes.
struct Windows {
  ArrayRef<int64_t> in, out, window, strides, low, dilation;
  int64_t planes = 1, inSize = 1, outSize = 1;
  SmallVector<int64_t> inStrides;

  template <typename Op>
  Windows(Op op, ArrayRef<int64_t> operand, ArrayRef<int64_t> result)
      : in(operand.take_back(op.getWindow().size())),
        out(result.take_back(op.getWindow().size())), window(op.getWindow()),
        strides(op.getStrides()), low(op.getPaddingLow()),
        dilation(op.getDilation()), inStrides(getRowMajorStrides(in)) {
    for (int64_t size : operand.drop_back(window.size()))
      planes *= size;
    for (int64_t size : in)
      inSize *= size;
    for (int64_t size : out)
      outSize *= size;
  }

  /// Per window: begin(result element), visit(operand element) for all of it
  /// that is not padding, in row-major order, end(result element).
  template <typename F, typename G, typename H>
  void forEachWindow(F begin, G visit, H end) const {
    for (int64_t plane = 0; plane < planes; ++plane)
      forEachIndex(out, [&](int64_t position, ArrayRef<int64_t> at) {
        begin(plane * outSize + position);
        forEachIndex(window, [&](int64_t, ArrayRef<int64_t> tap) {
          int64_t element = plane * inSize;
          for (size_t i = 0; i < tap.size(); ++i) {
            int64_t place = at[i] * strides[i] - low[i] + tap[i] * dilation[i];
            if (place < 0 || place >= in[i])
              return;
            element += place * inStrides[i];
          }
          visit(element);
        });
        end(plane * outSize + position);
      });
  }
};

} // namespace

static LogicalResult evaluateReduceWindow(ReduceWindowOp op, Operands operands,
                                          Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> x = operands[0].toDoubles(), y(type.getNumElements());
  Windows windows(op, operands[0].getShape(), type.getShape());
  double value;
  windows.forEachWindow(
      [&](int64_t) { value = getNeutralDouble(op.getKind()); },
      [&](int64_t element) {
        value = combine(op.getKind(), value, x[element]);
      },
      [&](int64_t result) { y[result] = value; });
  results.push_back(HostTensor::fromDoubles(type, y));
  return success();
}

static LogicalResult evaluateReduceWindowGradient(ReduceWindowGradientOp op,
                                                  Operands operands,
                                                  Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> x = operands[0].toDoubles(), dy = operands[1].toDoubles(),
                      dx(type.getNumElements(), 0);
  Windows windows(op, type.getShape(), operands[1].getShape());
  if (op.getKind() == ReduceKind::Sum) {
    double cotangent;
    windows.forEachWindow([&](int64_t result) { cotangent = dy[result]; },
                          [&](int64_t element) { dx[element] += cotangent; },
                          [](int64_t) {});
  } else {
    int64_t best;
    windows.forEachWindow([&](int64_t) { best = -1; },
                          [&](int64_t element) {
                            // The first largest; the first NaN, if there is
                            // one.
                            bool keeps = best >= 0 && (std::isnan(x[best]) ||
                                                       x[element] <= x[best]);
                            if (!keeps)
                              best = element;
                          },
                          [&](int64_t result) {
                            if (best >= 0)
                              dx[best] += dy[result];
                          });
  }
  results.push_back(HostTensor::fromDoubles(type, dx));
  return success();
}

void attachWindowEvaluations(MLIRContext *c) {
  attachEvaluation<ReduceWindowOp, evaluateReduceWindow>(c);
  attachEvaluation<ReduceWindowGradientOp, evaluateReduceWindowGradient>(c);
}

} // namespace lockstep
