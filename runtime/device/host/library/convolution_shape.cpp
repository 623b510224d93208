#include "runtime/device/host/library/convolution_shape.h"

#include <functional>
#include <numeric>

namespace lockstep::runtime {

int64_t bytesOf(const Ints &shape) {
  return 4 * std::accumulate(shape.begin(), shape.end(), int64_t(1),
                             std::multiplies<int64_t>());
}

ConvolutionShape readConvolutionShape(Attributes &attributes, bool forward) {
  ConvolutionShape s;
  s.x = attributes.integers("x_shape", -1);
  s.w = attributes.integers("w_shape", -1);
  s.y = attributes.integers("y_shape", -1);
  size_t rank = s.x.size();
  if (rank < 3 || rank > 5 || s.w.size() != rank || s.y.size() != rank) {
    attributes.reject("x_shape", "and the other shapes must have 3 to 5 sizes");
    return s;
  }
  int64_t spatial = int64_t(rank) - 2;
  Ints ones(size_t(spatial), 1), zeros(size_t(spatial), 0);
  s.strides = attributes.integers("strides", spatial, ones);
  s.dilation = attributes.integers("dilation", spatial, ones);
  s.low = attributes.integers("padding_low", spatial, zeros);
  s.high = attributes.integers("padding_high", spatial, zeros);
  s.groups = attributes.integer("groups", 1);
  s.bias = forward && attributes.integer("bias", 0);
  bool fits = s.groups >= 1 && s.w[0] % s.groups == 0 && s.w[0] == s.y[1] &&
              s.w[1] * s.groups == s.x[1] && s.x[0] == s.y[0];
  for (int64_t i = 0; fits && i < spatial; ++i) {
    int64_t reach = s.dilation[i] * (s.w[2 + i] - 1) + 1;
    int64_t room = s.x[2 + i] + s.low[i] + s.high[i] - reach;
    fits = s.strides[i] >= 1 && s.dilation[i] >= 1 && room >= 0 &&
           s.y[2 + i] == room / s.strides[i] + 1;
  }
  if (!fits)
    attributes.reject("y_shape", "does not follow from the other attributes");
  return s;
}

} // namespace lockstep::runtime
