//===- EvaluateAttention.cpp - Attention and its gradient
//--------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

namespace {

/// The scores of one query row at a time.
struct AttentionRows {
  int64_t batch, heads, groups, queries, keys, width, valueWidth;
  double scale;
  bool causal;
  std::optional<int64_t> window;
  std::vector<double> q, k, v, mask;
  bool boolMask = false;
  SmallVector<int64_t> maskStrides;

  template <typename Op>
  AttentionRows(Op op, const HostTensor &query, const HostTensor &key,
                const HostTensor &value, const HostTensor *maskTensor)
      : batch(query.getDimSize(0)), heads(query.getDimSize(1)),
        groups(key.getDimSize(1)), queries(query.getDimSize(2)),
        keys(key.getDimSize(2)), width(query.getDimSize(3)),
        valueWidth(value.getDimSize(3)), scale(op.getScale().convertToDouble()),
        causal(op.getCausal()), q(query.toDoubles()), k(key.toDoubles()),
        v(value.toDoubles()) {
    if (op.getWindow())
      window = int64_t(*op.getWindow());
    if (!maskTensor)
      return;
    mask = maskTensor->toDoubles();
    boolMask = !maskTensor->isFloat();
    maskStrides = getRowMajorStrides(maskTensor->getShape());
    for (int64_t i = 0; i < 4; ++i)
      if (maskTensor->getDimSize(i) == 1)
        maskStrides[i] = 0;
  }

  /// Offsets of row (b, h, t) of queries, and of the keys of its group, in
  /// units of rows.
  int64_t queryRow(int64_t b, int64_t h, int64_t t) const {
    return (b * heads + h) * queries + t;
  }
  int64_t keyRow(int64_t b, int64_t h, int64_t s) const {
    return (b * groups + h / (heads / groups)) * keys + s;
  }

  static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += a[i] * b[i];
    return sum;
  }

  /// -inf where the key is not seen.
  double score(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if ((causal && s > t) || (window && s <= t - *window))
      return -INFINITY;
    double added = 0;
    if (!mask.empty()) {
      double m = mask[b * maskStrides[0] + h * maskStrides[1] +
                      t * maskStrides[2] + s * maskStrides[3]];
      if (boolMask && m == 0)
        return -INFINITY;
      added = boolMask ? 0 : m;
    }
    return scale * dot(&q[queryRow(b, h, t) * width],
                       &k[keyRow(b, h, s) * width], width) +
           added;
  }

  /// Calls f(b, h, t, the row's probabilities, its log sum exp); a row that
  /// sees nothing has zeros and -inf.
  template <typename F> void forEachRow(F f) const {
    std::vector<double> p(keys);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < queries; ++t) {
          double max = -INFINITY, sum = 0;
          for (int64_t s = 0; s < keys; ++s)
            max = combine(ReduceKind::Max, max, p[s] = score(b, h, t, s));
          double shift = max == -INFINITY ? 0 : max;
          for (double &element : p)
            sum += element = std::exp(element - shift);
          for (double &element : p)
            element = sum == 0 ? 0 : element / sum;
          f(b, h, t, p, shift + std::log(sum));
        }
  }
};

} // namespace

static LogicalResult evaluateAttention(AttentionOp op, Operands operands,
                                       Results &results) {
  RankedTensorType type = getResultType(op);
  AttentionRows rows(op, operands[0], operands[1], operands[2],
                     op.getMask() ? &operands[3] : nullptr);
  std::vector<double> output(type.getNumElements(), 0),
      lse(getResultType(op, 1).getNumElements());
  int64_t width = rows.valueWidth;
  rows.forEachRow([&](int64_t b, int64_t h, int64_t t,
                      const std::vector<double> &p, double rowLse) {
    double *out = &output[rows.queryRow(b, h, t) * width];
    for (int64_t s = 0; s < rows.keys; ++s)
      for (int64_t i = 0; i < width; ++i)
        out[i] += p[s] * rows.v[rows.keyRow(b, h, s) * width + i];
    lse[rows.queryRow(b, h, t)] = rowLse;
  });
  results.push_back(HostTensor::fromDoubles(type, output));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), lse));
  return success();
}

/// o = p v with p = softmax(s): dv = p^T do, dp = do v^T, ds = p (dp - sum of p
/// dp), and s = scale q k^T. Uses neither the saved output nor the saved lse.
static LogicalResult evaluateAttentionGradient(AttentionGradientOp op,
                                               Operands operands,
                                               Results &results) {
  AttentionRows rows(op, operands[1], operands[2], operands[3],
                     op.getMask() ? &operands[6] : nullptr);
  std::vector<double> cotangent = operands[0].toDoubles();
  std::vector<double> dq(rows.q.size(), 0), dk(rows.k.size(), 0),
      dv(rows.v.size(), 0), dp(rows.keys);
  int64_t width = rows.width, valueWidth = rows.valueWidth;
  rows.forEachRow([&](int64_t b, int64_t h, int64_t t,
                      const std::vector<double> &p, double) {
    int64_t query = rows.queryRow(b, h, t);
    const double *dout = &cotangent[query * valueWidth];
    double mean = 0;
    for (int64_t s = 0; s < rows.keys; ++s) {
      int64_t key = rows.keyRow(b, h, s);
      for (int64_t i = 0; i < valueWidth; ++i)
        dv[key * valueWidth + i] += p[s] * dout[i];
      dp[s] = AttentionRows::dot(dout, &rows.v[key * valueWidth], valueWidth);
      mean += p[s] * dp[s];
    }
    for (int64_t s = 0; s < rows.keys; ++s) {
      int64_t key = rows.keyRow(b, h, s);
      double ds = p[s] * (dp[s] - mean) * rows.scale;
      for (int64_t i = 0; i < width; ++i) {
        dq[query * width + i] += ds * rows.k[key * width + i];
        dk[key * width + i] += ds * rows.q[query * width + i];
      }
    }
  });
  results.push_back(HostTensor::fromDoubles(getResultType(op, 0), dq));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 1), dk));
  results.push_back(HostTensor::fromDoubles(getResultType(op, 2), dv));
  return success();
}

void attachAttentionEvaluations(MLIRContext *c) {
  attachEvaluation<AttentionOp, evaluateAttention>(c);
  attachEvaluation<AttentionGradientOp, evaluateAttentionGradient>(c);
}

} // namespace lockstep
