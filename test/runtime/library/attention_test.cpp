#include "runtime/device/host/parallel.h"
#include "test/runtime/library/library_testing.h"

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using Kind = lockstep::artifact::LibraryKernel;

namespace {
struct Case {
  int64_t batch = 2, heads = 4, kvHeads = 2, queries = 19, keys = 23;
  int64_t headDim = 7, valueDim = 7;
  const char *mask = "none";
  std::vector<int64_t> maskShape = {1, 1, 1, 1}; // 1 or the full size
  bool causal = false, positionsFirst = false;
  int64_t offset = 0, window = 0;
  double scale = 0.3;
};

/// Values and gradients in double, straight from the definition.
class Reference {
public:
  Reference(const Case &t, std::vector<double> q, std::vector<double> k,
            std::vector<double> v, std::vector<double> dout,
            std::vector<double> add)
      : t(t), q(q), k(k), v(v), dout(dout), add(add) {
    out.resize(t.batch * t.heads * t.queries * t.valueDim);
    lse.resize(t.batch * t.heads * t.queries);
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(v.size());
    for (int64_t b = 0; b < t.batch; ++b)
      for (int64_t h = 0; h < t.heads; ++h)
        for (int64_t i = 0; i < t.queries; ++i)
          row(b, h, i);
  }
  const Case &t;
  std::vector<double> q, k, v, dout, add, out, lse, dq, dk, dv;

private:
  bool allowed(int64_t i, int64_t j) const {
    int64_t d = i + t.offset - j;
    if (t.causal && d < 0)
      return false;
    return !t.window || (d < t.window && (t.causal || -d < t.window));
  }
  void row(int64_t b, int64_t h, int64_t i) {
    int64_t kv = b * t.kvHeads + h / (t.heads / t.kvHeads);
    int64_t r = (b * t.heads + h) * t.queries + i;
    std::vector<double> s(t.keys), p(t.keys);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t.keys; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < t.headDim; ++d)
        dot += q[r * t.headDim + d] * k[(kv * t.keys + j) * t.headDim + d];
      s[j] = allowed(i, j) ? dot * t.scale + add[r * t.keys + j] : -INFINITY;
      largest = std::max(largest, s[j]);
    }
    lse[r] = -INFINITY;
    if (largest == -INFINITY)
      return;
    for (int64_t j = 0; j < t.keys; ++j)
      sum += p[j] = std::exp(s[j] - largest);
    lse[r] = largest + std::log(sum);
    double delta = 0;
    std::vector<double> dp(t.keys);
    for (int64_t j = 0; j < t.keys; ++j) {
      p[j] /= sum;
      for (int64_t d = 0; d < t.valueDim; ++d) {
        double value = v[(kv * t.keys + j) * t.valueDim + d];
        out[r * t.valueDim + d] += p[j] * value;
        dp[j] += dout[r * t.valueDim + d] * value;
        dv[(kv * t.keys + j) * t.valueDim + d] +=
            p[j] * dout[r * t.valueDim + d];
      }
      delta += p[j] * dp[j];
    }
    for (int64_t j = 0; j < t.keys; ++j) {
      double ds = p[j] * (dp[j] - delta) * t.scale;
      for (int64_t d = 0; d < t.headDim; ++d) {
        dq[r * t.headDim + d] += ds * k[(kv * t.keys + j) * t.headDim + d];
        dk[(kv * t.keys + j) * t.headDim + d] += ds * q[r * t.headDim + d];
      }
    }
  }
};

/// An operand [batch, heads, length, width] stored dense, or as [batch, length,
/// heads, width], with what the reference sees of it.
struct Tensor {
  Tensor(const Case &t, int64_t heads, int64_t length, int64_t width,
         uint32_t seed)
      : memory(Operand<float>::random(t.batch * heads * length * width, seed)),
        batch(t.batch), heads(heads), length(length), width(width) {
    strides = t.positionsFirst ? std::vector<int64_t>{length * heads * width,
                                                      width, heads * width}
                               : std::vector<int64_t>{heads * length * width,
                                                      length * width, width};
  }
  std::vector<double> values() const {
    std::vector<double> result;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < length; ++i)
          for (int64_t d = 0; d < width; ++d)
            result.push_back(
                memory[b * strides[0] + h * strides[1] + i * strides[2] + d]);
    return result;
  }
  void poison() { memory = Operand<float>(memory.size()); }
  Operand<float> memory;
  std::vector<int64_t> strides;
  int64_t batch, heads, length, width;
};

void addAttributes(KernelBuilder &builder, const Case &t, const Tensor &q,
                   const Tensor &k, const Tensor &v, const Tensor &out) {
  builder.ints("batch", {t.batch}).ints("heads", {t.heads});
  builder.ints("kv_heads", {t.kvHeads}).ints("queries", {t.queries});
  builder.ints("keys", {t.keys}).ints("head_dim", {t.headDim});
  builder.ints("value_dim", {t.valueDim}).number("scale", t.scale);
  builder.ints("q_strides", q.strides).ints("k_strides", k.strides);
  builder.ints("v_strides", v.strides).ints("out_strides", out.strides);
  builder.ints("causal", {t.causal}).ints("causal_offset", {t.offset});
  builder.ints("window", {t.window}).text("mask", t.mask);
}

struct Results {
  std::vector<double> out, dq, dk, dv;
};

Results check(const Case &t) {
  Tensor q(t, t.heads, t.queries, t.headDim, 1),
      k(t, t.kvHeads, t.keys, t.headDim, 2),
      v(t, t.kvHeads, t.keys, t.valueDim, 3),
      out(t, t.heads, t.queries, t.valueDim, 4),
      dout(t, t.heads, t.queries, t.valueDim, 5), dq = q, dk = k, dv = v;
  for (Tensor *output : {&out, &dq, &dk, &dv})
    output->poison();
  Operand<float> lse(t.batch * t.heads * t.queries);

  bool add = t.mask == std::string("add"), masked = t.mask[0] != 'n';
  std::vector<int64_t> full = {t.batch, t.heads, t.queries, t.keys}, strides;
  int64_t count = 1;
  for (size_t d = 4; d-- > 0; count *= t.maskShape[d])
    strides.insert(strides.begin(), t.maskShape[d] == 1 ? 0 : count);
  auto addMask = Operand<float>::random(count, 6);
  Operand<uint8_t> boolMask(count);
  std::mt19937 engine(7);
  for (int64_t i = 0; i < count; ++i) {
    boolMask[i] = engine() % 3 != 0;
    if (engine() % 4 == 0)
      addMask[i] = -INFINITY;
  }
  std::vector<double> expanded;
  for (int64_t b = 0; b < t.batch; ++b)
    for (int64_t h = 0; h < t.heads; ++h)
      for (int64_t i = 0; i < t.queries; ++i)
        for (int64_t j = 0; j < t.keys; ++j) {
          int64_t at =
              b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
          expanded.push_back(!masked        ? 0
                             : add          ? double(addMask[at])
                             : boolMask[at] ? 0
                                            : -INFINITY);
        }
  Reference expected(t, q.values(), k.values(), v.values(), dout.values(),
                     expanded);

  KernelBuilder forward(Kind::AttentionForward),
      backward(Kind::AttentionBackward);
  for (KernelBuilder *builder : {&forward, &backward}) {
    addAttributes(*builder, t, q, k, v, out);
    if (masked)
      builder->ints("mask_strides", strides);
  }
  std::vector<void *> operands = {q.memory.data(), k.memory.data(),
                                  v.memory.data()};
  if (masked)
    operands.push_back(add ? static_cast<void *>(addMask.data())
                           : static_cast<void *>(boolMask.data()));
  operands.insert(operands.end(), {out.memory.data(), lse.data()});
  runKernel(*forward.create(), operands);
  operands.insert(operands.end(), {dout.memory.data(), dq.memory.data(),
                                   dk.memory.data(), dv.memory.data()});
  runKernel(*backward.create(), operands);

  Results results{out.values(), dq.values(), dk.values(), dv.values()};
  CHECK(relativeError(results.out, expected.out, expected.out.size()) < 2e-6);
  CHECK(relativeError(results.dq, expected.dq, expected.dq.size()) < 5e-6);
  CHECK(relativeError(results.dk, expected.dk, expected.dk.size()) < 5e-6);
  CHECK(relativeError(results.dv, expected.dv, expected.dv.size()) < 5e-6);
  for (size_t i = 0; i < expected.lse.size(); ++i)
    CHECK(((lse[i] == expected.lse[i]) ||
           std::abs(lse[i] - expected.lse[i]) < 1e-5));
  for (const Tensor *output : {&out, &dq, &dk, &dv})
    CHECK(output->memory.guardsIntact());
  return results;
}
} // namespace

TEST_CASE("attention without mask") {
  check({});
  Case shared;
  shared.positionsFirst = true;
  shared.valueDim = 5;
  check(shared);
}

TEST_CASE("attention is causal, with offset and window") {
  Case t;
  t.causal = true;
  t.keys = t.queries;
  check(t);
  t.window = 5;
  check(t);
  t.causal = false;
  check(t);
  t.window = 0;
  t.causal = true;
  t.keys = 30;
  t.offset = 11;
  check(t);
  t.offset = -4; // the first rows see no key
  check(t);
}

TEST_CASE("attention takes masks of every broadcast shape") {
  for (const char *mask : {"add", "bool"})
    for (int shape = 0; shape < 16; ++shape) {
      Case t;
      t.mask = mask;
      t.maskShape = {shape & 8 ? t.batch : 1, shape & 4 ? t.heads : 1,
                     shape & 2 ? t.queries : 1, shape & 1 ? t.keys : 1};
      t.causal = shape % 3 == 0;
      INFO(mask << " " << shape);
      check(t);
    }
}

TEST_CASE("attention spans several tiles of queries and keys") {
  Case t;
  t.batch = 1;
  t.heads = t.kvHeads = 2; // few pairs: backward is cut by tiles
  t.queries = t.keys = 601;
  t.headDim = t.valueDim = 16;
  t.causal = true;
  check(t);
  t.window = 130;
  check(t);
  t.window = 0;
  t.batch = 4; // many pairs: backward runs head by head
  check(t);
}

TEST_CASE("attention gives the same bits for any number of threads") {
  Case t;
  t.queries = t.keys = 300;
  t.causal = true;
  int threads = lockstep_max_threads();
  for (int64_t batch : {1, 8}) {
    t.batch = batch;
    lockstep_set_threads(1);
    Results one = check(t);
    lockstep_set_threads(3);
    Results three = check(t);
    lockstep_set_threads(threads);
    CHECK(one.out == three.out);
    CHECK(one.dq == three.dq);
    CHECK(one.dk == three.dk);
    CHECK(one.dv == three.dv);
  }
}
