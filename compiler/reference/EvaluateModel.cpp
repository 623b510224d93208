//===- EvaluateModel.cpp - Softmax, norms, embedding
//------------------------------===//
//
// Each operation is computed from its definition, row by row in double, and
// independently of its decomposition: the two are tested against each other.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

//===--- Softmax ---===//

template <typename Op>
static LogicalResult evaluateSoftmax(Op op, Operands operands,
                                     Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> x = operands[0].toDoubles();
  AroundDimension around(type.getShape(), op.getDimension());
  around.forEachRow([&](int64_t, int64_t start) {
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < around.size; ++k)
      max = combine(ReduceKind::Max, max, x[start + k * around.inner]);
    for (int64_t k = 0; k < around.size; ++k)
      sum += std::exp(x[start + k * around.inner] - max);
    for (int64_t k = 0; k < around.size; ++k) {
      double &element = x[start + k * around.inner];
      element = std::is_same_v<Op, SoftmaxOp> ? std::exp(element - max) / sum
                                              : element - max - std::log(sum);
    }
  });
  results.push_back(HostTensor::fromDoubles(type, x));
  return success();
}

//===--- Norms: rows of elements that share mean and rstd, and weights that rows
// share ---===//

namespace {

/// Which row and which weight an element of x belongs to.
struct NormLayout {
  int64_t rows, weights;
  /// Layer and RMS norm: rows are the leading dimensions. Batch norm: rows and
  /// weights are both the channels.
  int64_t inner;
  bool batchNorm;
  double rowSize;

  static NormLayout forTrailing(ArrayRef<int64_t> shape, int64_t axes) {
    int64_t rows = 1, inner = 1;
    for (int64_t size : shape.drop_back(axes))
      rows *= size;
    for (int64_t size : shape.take_back(axes))
      inner *= size;
    return {rows, inner, inner, false, double(inner)};
  }
  static NormLayout forChannels(ArrayRef<int64_t> shape) {
    AroundDimension around(shape, 1);
    return {around.size, around.size, around.inner, true,
            double(around.outer * around.inner)};
  }
  int64_t row(int64_t i) const {
    return batchNorm ? i / inner % rows : i / inner;
  }
  int64_t weight(int64_t i) const { return batchNorm ? row(i) : i % inner; }
};

struct Statistics {
  std::vector<double> mean, variance;
};

} // namespace

/// Biased variance, or the mean of squares if not `centered` (the mean is then
/// 0).
static Statistics computeStatistics(const NormLayout &layout,
                                    const std::vector<double> &x,
                                    bool centered) {
  Statistics s{std::vector<double>(layout.rows, 0),
               std::vector<double>(layout.rows, 0)};
  int64_t count = x.size();
  if (centered) {
    for (int64_t i = 0; i < count; ++i)
      s.mean[layout.row(i)] += x[i];
    for (double &mean : s.mean)
      mean /= layout.rowSize;
  }
  for (int64_t i = 0; i < count; ++i) {
    double difference = x[i] - s.mean[layout.row(i)];
    s.variance[layout.row(i)] += difference * difference;
  }
  for (double &variance : s.variance)
    variance /= layout.rowSize;
  return s;
}

static std::vector<double> computeRstd(const std::vector<double> &variance,
                                       const APFloat &eps) {
  std::vector<double> rstd;
  for (double v : variance)
    rstd.push_back(1 / std::sqrt(v + eps.convertToDouble()));
  return rstd;
}

static std::vector<double> normalise(const NormLayout &layout,
                                     std::vector<double> x,
                                     const std::vector<double> &mean,
                                     const std::vector<double> &rstd) {
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    x[i] = (x[i] - mean[layout.row(i)]) * rstd[layout.row(i)];
  return x;
}

static std::vector<double> scaleAndShift(const NormLayout &layout,
                                         std::vector<double> x,
                                         const HostTensor *weight,
                                         const HostTensor *bias) {
  std::vector<double> w =
      weight ? weight->toDoubles() : std::vector<double>(layout.weights, 1);
  std::vector<double> b =
      bias ? bias->toDoubles() : std::vector<double>(layout.weights, 0);
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    x[i] = x[i] * w[layout.weight(i)] + b[layout.weight(i)];
  return x;
}

static LogicalResult evaluateLayerNorm(LayerNormOp op, Operands operands,
                                       Results &results) {
  std::vector<double> x = operands[0].toDoubles();
  NormLayout layout =
      NormLayout::forTrailing(operands[0].getShape(), op.getAxes());
  Operands rest = operands.drop_front();
  const HostTensor *weight = takeOptional(rest, bool(op.getWeight())),
                   *bias = takeOptional(rest, bool(op.getBias()));
  Statistics s = computeStatistics(layout, x, /*centered=*/true);
  std::vector<double> rstd = computeRstd(s.variance, op.getEps());
  std::vector<double> y =
      scaleAndShift(layout, normalise(layout, x, s.mean, rstd), weight, bias);
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), y));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), s.mean));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 2), rstd));
  return success();
}

static LogicalResult evaluateRmsNorm(RmsNormOp op, Operands operands,
                                     Results &results) {
  std::vector<double> x = operands[0].toDoubles();
  NormLayout layout =
      NormLayout::forTrailing(operands[0].getShape(), op.getAxes());
  Operands rest = operands.drop_front();
  const HostTensor *weight = takeOptional(rest, bool(op.getWeight()));
  Statistics s = computeStatistics(layout, x, /*centered=*/false);
  std::vector<double> rstd = computeRstd(s.variance, op.getEps());
  std::vector<double> y = scaleAndShift(
      layout, normalise(layout, x, s.mean, rstd), weight, nullptr);
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), y));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), rstd));
  return success();
}

static LogicalResult evaluateBatchNorm(BatchNormOp op, Operands operands,
                                       Results &results) {
  std::vector<double> x = operands[0].toDoubles();
  NormLayout layout = NormLayout::forChannels(operands[0].getShape());
  Operands rest = operands.drop_front();
  const HostTensor *weight = takeOptional(rest, bool(op.getWeight())),
                   *bias = takeOptional(rest, bool(op.getBias()));
  const HostTensor *runningMean = takeOptional(rest, bool(op.getRunningMean()));
  const HostTensor *runningVar = takeOptional(rest, bool(op.getRunningVar()));
  Statistics s, next;
  if (op.getInference()) {
    s = next = {runningMean->toDoubles(), runningVar->toDoubles()};
  } else {
    s = next = computeStatistics(layout, x, /*centered=*/true);
    if (runningMean) {
      double momentum = op.getMomentum().convertToDouble(), n = layout.rowSize;
      std::vector<double> oldMean = runningMean->toDoubles(),
                          oldVar = runningVar->toDoubles();
      for (int64_t c = 0; c < layout.rows; ++c) {
        double unbiased = n > 1 ? s.variance[c] * n / (n - 1) : s.variance[c];
        next.mean[c] = (1 - momentum) * oldMean[c] + momentum * s.mean[c];
        next.variance[c] = (1 - momentum) * oldVar[c] + momentum * unbiased;
      }
    }
  }
  std::vector<double> rstd = computeRstd(s.variance, op.getEps());
  std::vector<double> y =
      scaleAndShift(layout, normalise(layout, x, s.mean, rstd), weight, bias);
  int i = 0;
  for (const std::vector<double> &values :
       {y, s.mean, rstd, next.mean, next.variance})
    results.push_back(HostTensor::fromDoubles(getResultType(op, i++), values));
  return success();
}

//===--- Gradients of norms ---===//

namespace {

struct NormGradients {
  std::vector<double> dx, dweight, dbias;
};

} // namespace

/// With y = n w + b and n = (x - mean) rstd: dw = sum of dy n, db = sum of dy,
/// and dx follows from mean and rstd depending on x.
static NormGradients
computeNormGradients(const NormLayout &layout, const HostTensor &cotangent,
                     const HostTensor &x, const std::vector<double> &mean,
                     const HostTensor &rstdTensor, const HostTensor *weight,
                     bool meanDepends, bool rstdDepends) {
  std::vector<double> dy = cotangent.toDoubles(), rstd = rstdTensor.toDoubles();
  std::vector<double> n = normalise(layout, x.toDoubles(), mean, rstd);
  std::vector<double> g = scaleAndShift(layout, dy, weight, nullptr);
  std::vector<double> sumG(layout.rows, 0), sumGN(layout.rows, 0);
  NormGradients result{g, std::vector<double>(layout.weights, 0),
                       std::vector<double>(layout.weights, 0)};
  for (int64_t i = 0, e = g.size(); i < e; ++i) {
    sumG[layout.row(i)] += g[i];
    sumGN[layout.row(i)] += g[i] * n[i];
    result.dweight[layout.weight(i)] += dy[i] * n[i];
    result.dbias[layout.weight(i)] += dy[i];
  }
  for (int64_t i = 0, e = g.size(); i < e; ++i) {
    int64_t row = layout.row(i);
    double dn = g[i];
    if (meanDepends)
      dn -= sumG[row] / layout.rowSize;
    if (rstdDepends)
      dn -= n[i] * sumGN[row] / layout.rowSize;
    result.dx[i] = dn * rstd[row];
  }
  return result;
}

static LogicalResult evaluateLayerNormGradient(LayerNormGradientOp op,
                                               Operands operands,
                                               Results &results) {
  NormLayout layout =
      NormLayout::forTrailing(operands[1].getShape(), op.getAxes());
  Operands rest = operands.drop_front(4);
  NormGradients g = computeNormGradients(
      layout, operands[0], operands[1], operands[2].toDoubles(), operands[3],
      takeOptional(rest, bool(op.getWeight())), true, true);
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), g.dx));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), g.dweight));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 2), g.dbias));
  return success();
}

static LogicalResult evaluateRmsNormGradient(RmsNormGradientOp op,
                                             Operands operands,
                                             Results &results) {
  NormLayout layout =
      NormLayout::forTrailing(operands[1].getShape(), op.getAxes());
  Operands rest = operands.drop_front(3);
  NormGradients g = computeNormGradients(
      layout, operands[0], operands[1], std::vector<double>(layout.rows, 0),
      operands[2], takeOptional(rest, bool(op.getWeight())), false, true);
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), g.dx));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), g.dweight));
  return success();
}

static LogicalResult evaluateBatchNormGradient(BatchNormGradientOp op,
                                               Operands operands,
                                               Results &results) {
  NormLayout layout = NormLayout::forChannels(operands[1].getShape());
  Operands rest = operands.drop_front(4);
  bool training = !op.getInference();
  NormGradients g = computeNormGradients(
      layout, operands[0], operands[1], operands[2].toDoubles(), operands[3],
      takeOptional(rest, bool(op.getWeight())), training, training);
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), g.dx));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), g.dweight));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 2), g.dbias));
  return success();
}

//===--- Embedding ---===//

static LogicalResult evaluateEmbedding(EmbeddingOp op, Operands operands,
                                       Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> table = operands[0].toDoubles(), y;
  int64_t rows = operands[0].getDimSize(0), width = operands[0].getDimSize(1);
  y.reserve(type.getNumElements());
  for (int64_t id : operands[1].toInts()) {
    int64_t row = std::max<int64_t>(0, std::min(id, rows - 1));
    y.insert(y.end(), table.begin() + row * width,
             table.begin() + (row + 1) * width);
  }
  results.push_back(HostTensor::fromDoubles(type, y));
  return success();
}

static LogicalResult evaluateEmbeddingGradient(EmbeddingGradientOp op,
                                               Operands operands,
                                               Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> dy = operands[0].toDoubles(),
                      table(type.getNumElements(), 0);
  std::vector<int64_t> ids = operands[1].toInts();
  int64_t rows = type.getDimSize(0), width = type.getDimSize(1);
  for (int64_t i = 0, e = ids.size(); i < e; ++i)
    if (ids[i] >= 0 && ids[i] < rows &&
        !(op.getPaddingIdx() && int64_t(*op.getPaddingIdx()) == ids[i]))
      for (int64_t j = 0; j < width; ++j)
        table[ids[i] * width + j] += dy[i * width + j];
  results.push_back(HostTensor::fromDoubles(type, table));
  return success();
}

void attachModelEvaluations(MLIRContext *c) {
  attachEvaluation<SoftmaxOp, evaluateSoftmax<SoftmaxOp>>(c);
  attachEvaluation<LogSoftmaxOp, evaluateSoftmax<LogSoftmaxOp>>(c);
  attachEvaluation<LayerNormOp, evaluateLayerNorm>(c);
  attachEvaluation<LayerNormGradientOp, evaluateLayerNormGradient>(c);
  attachEvaluation<RmsNormOp, evaluateRmsNorm>(c);
  attachEvaluation<RmsNormGradientOp, evaluateRmsNormGradient>(c);
  attachEvaluation<BatchNormOp, evaluateBatchNorm>(c);
  attachEvaluation<BatchNormGradientOp, evaluateBatchNormGradient>(c);
  attachEvaluation<EmbeddingOp, evaluateEmbedding>(c);
  attachEvaluation<EmbeddingGradientOp, evaluateEmbeddingGradient>(c);
}

} // namespace lockstep
