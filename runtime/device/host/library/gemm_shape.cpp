#include "runtime/device/host/library/gemm_shape.h"
#include "runtime/device/host/library/strided.h"

#include <algorithm>

namespace lockstep::runtime {

static MatrixStrides readStrides(Attributes &attributes, const char *name,
                                 const char *batchName, size_t batchRank) {
  Ints pair = attributes.integers(name, 2);
  MatrixStrides strides{
      pair[0], pair[1],
      attributes.integers(batchName, int64_t(batchRank),
                          batchRank ? std::optional<Ints>() : Ints())};
  for (int64_t stride : strides.batch)
    if (stride < 0)
      attributes.reject(batchName, "must not be negative");
  if (strides.row < 0 || strides.column < 0)
    attributes.reject(name, "must not be negative");
  return strides;
}

StatusOr<GemmShape> readGemmShape(Attributes &attributes,
                                  const std::vector<std::string> &dtypes) {
  GemmShape shape;
  shape.m = attributes.integer("m");
  shape.n = attributes.integer("n");
  shape.k = attributes.integer("k");
  shape.batch = attributes.integers("batch", -1, Ints());
  size_t rank = shape.batch.size();
  if (rank > 6)
    attributes.reject("batch", "has more than 6 dimensions");
  shape.a = readStrides(attributes, "a_strides", "a_batch_strides", rank);
  shape.b = readStrides(attributes, "b_strides", "b_batch_strides", rank);
  shape.c = readStrides(attributes, "c_strides", "c_batch_strides", rank);
  shape.alpha = attributes.number("alpha", 1);
  shape.beta = attributes.number("beta", 0);
  shape.dtype = attributes.text("dtype", "f32");
  if (std::find(dtypes.begin(), dtypes.end(), shape.dtype) == dtypes.end()) {
    std::string names;
    for (size_t i = 0; i < dtypes.size(); ++i)
      names += (i ? i + 1 < dtypes.size() ? ", " : " or " : "") + dtypes[i];
    attributes.reject("dtype", "must be " + names);
  }
  shape.cDtype = attributes.text("c_dtype", shape.dtype.c_str());
  if (shape.cDtype != shape.dtype &&
      (shape.dtype != "bf16" || shape.cDtype != "f32"))
    attributes.reject("c_dtype", "must be as dtype, or f32 for bf16");
  constexpr int64_t limit = int64_t(1) << 31;
  if (shape.m < 0 || shape.n < 0 || shape.k < 0 || shape.m >= limit ||
      shape.n >= limit || shape.k >= limit)
    attributes.reject("m", "n or k is out of range");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  return shape;
}

static int64_t elements(int64_t rows, int64_t columns, const MatrixStrides &s,
                        const Ints &batch) {
  Ints sizes = batch, strides = s.batch;
  sizes.insert(sizes.end(), {rows, columns});
  strides.insert(strides.end(), {s.row, s.column});
  return extentOf(sizes, strides);
}

std::array<int64_t, 3> operandElements(const GemmShape &s) {
  return {elements(s.m, s.k, s.a, s.batch), elements(s.k, s.n, s.b, s.batch),
          elements(s.m, s.n, s.c, s.batch)};
}

void foldBatch(GemmShape &s) {
  while (!s.batch.empty()) {
    int64_t size = s.batch.back();
    int64_t a = s.a.batch.back(), b = s.b.batch.back(), c = s.c.batch.back();
    if (size == 1) {
    } else if (b == 0 && a == s.m * s.a.row && c == s.m * s.c.row) {
      s.m *= size;
    } else if (a == 0 && b == s.n * s.b.column && c == s.n * s.c.column) {
      s.n *= size;
    } else {
      return;
    }
    s.batch.pop_back();
    s.a.batch.pop_back();
    s.b.batch.pop_back();
    s.c.batch.pop_back();
  }
}

} // namespace lockstep::runtime
