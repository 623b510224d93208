// The attributes of the three convolution kernels, read and checked.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_CONVOLUTION_SHAPE_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_CONVOLUTION_SHAPE_H

#include "runtime/device/host/library/attributes.h"

namespace lockstep::runtime {

struct ConvolutionShape {
  Ints x, w, y; ///< [N, C, spatial...], [O, C / groups, taps...], [N, O, ...]
  Ints strides, dilation, low, high;
  int64_t groups = 1;
  bool bias = false;

  size_t spatial() const { return x.size() - 2; }
};

/// Errors are left in `attributes`.
ConvolutionShape readConvolutionShape(Attributes &attributes, bool forward);

/// Bytes of a dense f32 tensor.
int64_t bytesOf(const Ints &shape);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_CONVOLUTION_SHAPE_H
