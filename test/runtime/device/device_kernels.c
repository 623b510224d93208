// Kernels of the device suite for the host; device_kernels.cu has the same for
// GPUs. Work items are elements.
#include <stdint.h>

typedef void *const *Arguments;

// [in, factor, out]: out = factor * in.
void scale(Arguments args, int64_t begin, int64_t end) {
  const float *in = args[0], *factor = args[1];
  float *out = args[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = *factor * in[i];
}

// [in, out]: out += in.
void accumulate(Arguments args, int64_t begin, int64_t end) {
  const float *in = args[0];
  float *out = args[1];
  for (int64_t i = begin; i < end; ++i)
    out[i] += in[i];
}

// [parameter, gradient], segmented: parameter -= gradient.
void update(Arguments args, int64_t begin, int64_t end) {
  float *parameter = args[0];
  const float *gradient = args[1];
  for (int64_t i = begin; i < end; ++i)
    parameter[i] -= gradient[i];
}
