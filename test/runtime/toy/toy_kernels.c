// The generated kernels of the toy model, written by hand: linear regression
// with momentum. Built as a self-contained shared object, as the compiler's
// are.
#include <stdint.h>

typedef void *const *Arguments;

// error[i] = x[i] . w - y[i]; one work item per row. [x, w, y, error, width]
void toy_errors(Arguments args, int64_t begin, int64_t end) {
  const float *x = args[0], *w = args[1], *y = args[2];
  float *error = args[3];
  int64_t width = (int64_t)*(const float *)args[4];
  for (int64_t i = begin; i < end; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < width; ++j)
      sum += x[i * width + j] * w[j];
    error[i] = sum - y[i];
  }
}

// sums[j] += sum of error * x[j]; sums[width] += sum of error^2. One work item
// per column and one for the squares. [x, error, sums, width, rows]
void toy_sums(Arguments args, int64_t begin, int64_t end) {
  const float *x = args[0], *error = args[1];
  float *sums = args[2];
  int64_t width = (int64_t)*(const float *)args[3];
  int64_t rows = (int64_t)*(const float *)args[4];
  for (int64_t j = begin; j < end; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i)
      sum += error[i] * (j < width ? x[i * width + j] : error[i]);
    sums[j] += sum;
  }
}

// One item: momentum, weights, loss, gradient norm.
// [sums, w, m, seen, lr, momentum, loss, norm, width, batch]
void toy_update(Arguments args, int64_t begin, int64_t end) {
  float *sums = args[0], *w = args[1], *m = args[2], *seen = args[3];
  float lr = *(float *)args[4], momentum = *(float *)args[5];
  int64_t width = (int64_t)*(const float *)args[8];
  float batch = *(float *)args[9], squares = 0;
  if (begin >= end)
    return;
  for (int64_t j = 0; j < width; ++j) {
    float gradient = 2 * sums[j] / batch;
    squares += gradient * gradient;
    m[j] = momentum * m[j] + gradient;
    w[j] -= lr * m[j];
  }
  *seen += 1;
  *(float *)args[6] = sums[width] / batch;
  *(float *)args[7] = __builtin_sqrtf(squares);
}

// [sums, loss, width, batch]
void toy_loss(Arguments args, int64_t begin, int64_t end) {
  const float *sums = args[0];
  int64_t width = (int64_t)*(const float *)args[2];
  if (begin < end)
    *(float *)args[1] = sums[width] / *(const float *)args[3];
}
