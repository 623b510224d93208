// Sorting of rows: stable, NaN as the largest value, as PyTorch does.
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <numeric>

namespace lockstep::runtime {

namespace {

struct SortShape {
  int64_t rows = 1, size = 1, k = 1;
  bool descending = false;
};

/// a < b, with NaN above everything.
template <typename T> bool below(T a, T b) {
  return a < b || (b != b && a == a);
}

template <typename T> class Sort final : public LibraryKernel {
public:
  explicit Sort(SortShape shape) : s(shape) {}
  std::vector<int64_t> operandBytes() const override {
    int64_t size = sizeof(T);
    return {s.rows * s.size * size, s.rows * s.k * size, s.rows * s.k * 8};
  }
  Status run(void *const *operands) override {
    int64_t perChunk = std::max<int64_t>(1, 4096 / s.size);
    parallelFor((s.rows + perChunk - 1) / perChunk, [&](int64_t chunk) {
      int64_t end = std::min(s.rows, (chunk + 1) * perChunk);
      for (int64_t row = chunk * perChunk; row < end; ++row)
        sortRow(static_cast<const T *>(operands[0]) + row * s.size,
                static_cast<T *>(operands[1]) + row * s.k,
                static_cast<int64_t *>(operands[2]) + row * s.k);
    });
    return Status::success();
  }

private:
  void sortRow(const T *x, T *values, int64_t *indices) const {
    int64_t *order = threadScratchOf<int64_t>(0, s.size);
    std::iota(order, order + s.size, int64_t(0));
    // The index decides between equals, which makes any sort stable.
    auto before = [&](int64_t a, int64_t b) {
      T first = s.descending ? x[b] : x[a], second = s.descending ? x[a] : x[b];
      if (below(first, second))
        return true;
      return !below(second, first) && a < b;
    };
    std::partial_sort(order, order + s.k, order + s.size, before);
    for (int64_t i = 0; i < s.k; ++i) {
      values[i] = x[order[i]];
      indices[i] = order[i];
    }
  }
  SortShape s;
};

StatusOr<std::unique_ptr<LibraryKernel>> create(Attributes &attributes,
                                                bool topK) {
  SortShape s;
  s.rows = attributes.integer("rows");
  s.size = attributes.integer("size");
  s.k = topK ? attributes.integer("k") : s.size;
  s.descending = attributes.integer("descending", topK) != 0;
  std::string dtype = attributes.text("dtype", "f32");
  if (s.rows < 1 || s.size < 1)
    attributes.reject("size", "and rows must be positive");
  if (s.k < 0 || s.k > s.size)
    attributes.reject("k", "must lie between 0 and size");
  if (dtype != "f32" && dtype != "f64" && dtype != "i32" && dtype != "i64")
    attributes.reject("dtype", "must be f32, f64, i32 or i64");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  std::unique_ptr<LibraryKernel> kernel;
  if (dtype == "f32")
    kernel = std::make_unique<Sort<float>>(s);
  else if (dtype == "f64")
    kernel = std::make_unique<Sort<double>>(s);
  else if (dtype == "i32")
    kernel = std::make_unique<Sort<int32_t>>(s);
  else
    kernel = std::make_unique<Sort<int64_t>>(s);
  return kernel;
}

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>> createSort(Attributes &attributes) {
  return create(attributes, false);
}
StatusOr<std::unique_ptr<LibraryKernel>> createTopK(Attributes &attributes) {
  return create(attributes, true);
}

} // namespace lockstep::runtime
