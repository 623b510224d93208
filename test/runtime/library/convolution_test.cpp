#include "test/runtime/library/library_testing.h"

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using Kind = lockstep::artifact::LibraryKernel;

namespace {
struct Case {
  std::vector<int64_t> x, w, strides, dilation, low, high;
  int64_t groups = 1;
  bool bias = false;
};

int64_t product(const std::vector<int64_t> &shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}

/// Calls body(x index, w index, y index) for every multiplication; -1 as x
/// index marks padding and is left out.
template <typename Body>
void forEachProduct(const Case &t, const std::vector<int64_t> &y, Body body) {
  size_t spatial = t.x.size() - 2;
  int64_t outputs = product({y.begin() + 2, y.end()});
  int64_t inputs = product({t.x.begin() + 2, t.x.end()});
  int64_t taps = product({t.w.begin() + 2, t.w.end()});
  int64_t perGroup = t.w[0] / t.groups;
  for (int64_t n = 0; n < t.x[0]; ++n)
    for (int64_t o = 0; o < t.w[0]; ++o)
      for (int64_t c = 0; c < t.w[1]; ++c)
        for (int64_t out = 0; out < outputs; ++out)
          for (int64_t tap = 0; tap < taps; ++tap) {
            int64_t restOut = out, restTap = tap, in = 0, scale = 1;
            bool inside = true;
            for (size_t d = spatial; d-- > 0;) {
              int64_t at = restOut % y[2 + d] * t.strides[d] - t.low[d] +
                           restTap % t.w[2 + d] * t.dilation[d];
              restOut /= y[2 + d];
              restTap /= t.w[2 + d];
              inside &= at >= 0 && at < t.x[2 + d];
              in += at * scale;
              scale *= t.x[2 + d];
            }
            int64_t channel = o / perGroup * t.w[1] + c;
            if (inside)
              body((n * t.x[1] + channel) * inputs + in,
                   (o * t.w[1] + c) * taps + tap,
                   (n * t.w[0] + o) * outputs + out);
          }
}

void check(const Case &t) {
  std::vector<int64_t> y = {t.x[0], t.w[0]};
  for (size_t d = 0; d + 2 < t.x.size(); ++d)
    y.push_back((t.x[2 + d] + t.low[d] + t.high[d] -
                 t.dilation[d] * (t.w[2 + d] - 1) - 1) /
                    t.strides[d] +
                1);
  auto build = [&](Kind kind) {
    KernelBuilder builder(kind);
    builder.ints("x_shape", t.x).ints("w_shape", t.w).ints("y_shape", y);
    builder.ints("strides", t.strides).ints("dilation", t.dilation);
    builder.ints("padding_low", t.low).ints("padding_high", t.high);
    builder.ints("groups", {t.groups});
    if (kind == Kind::ConvolutionForward)
      builder.ints("bias", {t.bias});
    return builder.create();
  };
  auto x = Operand<float>::random(product(t.x), 1);
  auto w = Operand<float>::random(product(t.w), 2);
  auto bias = Operand<float>::random(t.w[0], 3);
  auto dy = Operand<float>::random(product(y), 4);
  std::vector<double> expectedY(dy.size()), expectedX(x.size()),
      expectedW(w.size());
  if (t.bias)
    for (size_t i = 0; i < expectedY.size(); ++i)
      expectedY[i] = bias[i / product({y.begin() + 2, y.end()}) % t.w[0]];
  forEachProduct(t, y, [&](int64_t xi, int64_t wi, int64_t yi) {
    expectedY[yi] += double(x[xi]) * w[wi];
    expectedX[xi] += double(dy[yi]) * w[wi];
    expectedW[wi] += double(dy[yi]) * x[xi];
  });
  for (int repeat = 0; repeat < 2; ++repeat) {
    Operand<float> outY(dy.size()), outX(x.size()), outW(w.size());
    std::vector<void *> operands = {x.data(), w.data()};
    if (t.bias)
      operands.push_back(bias.data());
    operands.push_back(outY.data());
    runKernel(*build(Kind::ConvolutionForward), operands);
    runKernel(*build(Kind::ConvolutionInputGradient),
              {dy.data(), w.data(), outX.data()});
    runKernel(*build(Kind::ConvolutionFilterGradient),
              {x.data(), dy.data(), outW.data()});
    CHECK(relativeError(outY, expectedY, outY.size()) < 1e-5);
    CHECK(relativeError(outX, expectedX, outX.size()) < 1e-5);
    CHECK(relativeError(outW, expectedW, outW.size()) < 1e-5);
    CHECK(outY.guardsIntact());
    CHECK(outX.guardsIntact());
    CHECK(outW.guardsIntact());
  }
}
} // namespace

TEST_CASE("convolution over 1, 2 and 3 dimensions") {
  check({{3, 5, 17}, {7, 5, 3}, {1}, {1}, {1}, {1}, 1, true});
  check({{2, 3, 13, 11}, {9, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check({{2, 3, 5, 7, 6},
         {4, 3, 3, 2, 3},
         {1, 2, 1},
         {1, 1, 1},
         {1, 0, 1},
         {1, 0, 1}});
}

TEST_CASE("convolution with stride, dilation and uneven padding") {
  check({{2, 8, 14, 14}, {16, 8, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check({{2, 8, 15, 14}, {16, 8, 3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 0}});
  check({{2, 8, 15, 15}, {5, 8, 3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}});
  check(
      {{2, 3, 32, 32}, {6, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1, true});
  check({{2, 16, 8, 8}, {32, 16, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
}

TEST_CASE("convolution in groups and depthwise") {
  check({{2, 6, 9, 9}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, true});
  check({{2, 7, 9, 9}, {7, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 7});
  check({{2, 4, 9, 9}, {12, 1, 5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}, 4});
}

TEST_CASE("convolution of sizes that fill tiles") {
  check({{4, 32, 16, 16}, {48, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check(
      {{4, 35, 9, 9}, {40, 35, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, true});
  check({{6, 64, 8, 8}, {64, 64, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
  check({{16, 64, 2, 2}, {80, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check({{3, 32, 17, 20}, {32, 32, 4, 3}, {3, 2}, {2, 1}, {2, 0}, {0, 2}});
  check({{2, 32, 200}, {48, 32, 5}, {2}, {3}, {4}, {7}, 1, true});
  check({{2, 16, 6, 7, 8},
         {64, 16, 3, 2, 3},
         {1, 2, 1},
         {1, 1, 1},
         {1, 0, 1},
         {1, 1, 1}});
}

TEST_CASE("convolution rejects shapes that do not fit") {
  KernelBuilder builder(Kind::ConvolutionForward);
  builder.ints("x_shape", {1, 3, 8, 8}).ints("w_shape", {4, 3, 3, 3});
  builder.ints("y_shape", {1, 4, 8, 8});
  CHECK(builder.tryCreate().status().toString() ==
        "kernel 'tested': attribute 'y_shape' does not follow from the other "
        "attributes");
}
