//===- EvaluateStep.cpp - Loss and update
//-------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

//===--- Cross entropy ---===//

static LogicalResult evaluateCrossEntropy(CrossEntropyOp op, Operands operands,
                                          Results &results) {
  std::vector<double> x = operands[0].toDoubles();
  std::vector<int64_t> labels = operands[1].toInts();
  AroundDimension around(operands[0].getShape(), op.getDimension());
  double smoothing = op.getSmoothing().convertToDouble(), total = 0;
  std::vector<double> lse(labels.size());
  around.forEachRow([&](int64_t row, int64_t start) {
    double max = -INFINITY, sum = 0, loss = 0;
    for (int64_t k = 0; k < around.size; ++k)
      max = combine(ReduceKind::Max, max, x[start + k * around.inner]);
    for (int64_t k = 0; k < around.size; ++k)
      sum += std::exp(x[start + k * around.inner] - max);
    for (int64_t k = 0; k < around.size; ++k) {
      double minusLogP = std::log(sum) - (x[start + k * around.inner] - max);
      if (smoothing != 0)
        loss += smoothing / around.size * minusLogP;
      if (k == labels[row])
        loss += (1 - smoothing) * minusLogP;
    }
    lse[row] = max + std::log(sum);
    if (labels[row] != int64_t(op.getIgnoreIndex()))
      total += loss;
  });
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), total));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), lse));
  return success();
}

static LogicalResult evaluateCrossEntropyGradient(CrossEntropyGradientOp op,
                                                  Operands operands,
                                                  Results &results) {
  std::vector<double> x = operands[0].toDoubles(),
                      lse = operands[2].toDoubles();
  std::vector<int64_t> labels = operands[1].toInts();
  double scale = operands[3].getDouble(0),
         smoothing = op.getSmoothing().convertToDouble();
  AroundDimension around(operands[0].getShape(), op.getDimension());
  around.forEachRow([&](int64_t row, int64_t start) {
    for (int64_t k = 0; k < around.size; ++k) {
      double &element = x[start + k * around.inner];
      double target =
          smoothing / around.size + (k == labels[row] ? 1 - smoothing : 0);
      element = labels[row] == int64_t(op.getIgnoreIndex())
                    ? 0
                    : scale * (std::exp(element - lse[row]) - target);
    }
  });
  results.push_back(HostTensor::fromDoubles(getResultType(op), x));
  return success();
}

static LogicalResult evaluateLabelCount(LabelCountOp op, Operands operands,
                                        Results &results) {
  double count = 0;
  for (int64_t label : operands[0].toInts())
    count += label != int64_t(op.getIgnoreIndex());
  results.push_back(HostTensor::fromDoubles(getResultType(op), count));
  return success();
}

//===--- Update ---===//

static LogicalResult evaluateGlobalNorm(GlobalNormOp op, Operands operands,
                                        Results &results) {
  double sum = 0;
  for (const HostTensor &operand : operands)
    for (double x : operand.toDoubles())
      sum += x * x;
  results.push_back(HostTensor::fromDoubles(getResultType(op), std::sqrt(sum)));
  return success();
}

static LogicalResult evaluateSgd(SgdOp op, Operands operands,
                                 Results &results) {
  std::vector<double> parameter = operands[0].toDoubles(),
                      gradient = operands[1].toDoubles(), buffer;
  Operands rest = operands.drop_front(2);
  const HostTensor *oldBuffer =
      takeOptional(rest, bool(op.getMomentumBuffer()));
  const HostTensor *momentumTensor = takeOptional(rest, bool(op.getMomentum()));
  double momentum = momentumTensor ? momentumTensor->getDouble(0) : 0;
  double lr = rest[0].getDouble(0), decay = rest[1].getDouble(0),
         scale = rest[2].getDouble(0);
  if (oldBuffer)
    buffer = oldBuffer->toDoubles();
  for (size_t i = 0; i < parameter.size(); ++i) {
    double g = gradient[i] * scale + decay * parameter[i];
    if (oldBuffer) {
      buffer[i] = momentum * buffer[i] + g;
      g = op.getNesterov() ? g + momentum * buffer[i] : buffer[i];
    }
    parameter[i] -= lr * g;
  }
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), parameter));
  if (oldBuffer)
    results.push_back(HostTensor::fromDoubles(getResultType(op, 1), buffer));
  return success();
}

static LogicalResult evaluateAdam(AdamOp op, Operands operands,
                                  Results &results) {
  std::vector<double> p = operands[0].toDoubles(), g = operands[1].toDoubles(),
                      m = operands[2].toDoubles(), v = operands[3].toDoubles();
  auto scalar = [&](int i) { return operands[4 + i].getDouble(0); };
  double lr = scalar(0), decay = scalar(1), beta1 = scalar(2),
         beta2 = scalar(3), eps = scalar(4);
  double correction1 = scalar(5), correction2 = scalar(6), scale = scalar(7);
  for (size_t i = 0; i < p.size(); ++i) {
    double gradient = g[i] * scale;
    if (op.getDecoupled())
      p[i] *= 1 - lr * decay;
    else
      gradient += decay * p[i];
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    p[i] -= lr / correction1 * m[i] /
            (std::sqrt(v[i]) / std::sqrt(correction2) + eps);
  }
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), p));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), m));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 2), v));
  return success();
}

void attachStepEvaluations(MLIRContext *c) {
  attachEvaluation<CrossEntropyOp, evaluateCrossEntropy>(c);
  attachEvaluation<CrossEntropyGradientOp, evaluateCrossEntropyGradient>(c);
  attachEvaluation<LabelCountOp, evaluateLabelCount>(c);
  attachEvaluation<GlobalNormOp, evaluateGlobalNorm>(c);
  attachEvaluation<SgdOp, evaluateSgd>(c);
  attachEvaluation<AdamOp, evaluateAdam>(c);
}

} // namespace lockstep
