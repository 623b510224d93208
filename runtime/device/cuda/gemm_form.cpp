#include "runtime/device/cuda/gemm_form.h"

#include <algorithm>
#include <optional>

namespace lockstep::runtime::cuda {

/// A logical rows x columns matrix as stored; nothing when both strides differ
/// from 1. `transposed` then says that the stored matrix is the transpose.
static std::optional<StoredMatrix> stored(int64_t rows, int64_t columns,
                                          const MatrixStrides &s) {
  if ((rows == 1 || s.row == 1) && (columns == 1 || s.column >= rows))
    return StoredMatrix{rows, columns,
                        std::max<int64_t>(columns == 1 ? rows : s.column, 1),
                        false, 0};
  if ((columns == 1 || s.column == 1) && (rows == 1 || s.row >= columns))
    return StoredMatrix{columns, rows,
                        std::max<int64_t>(rows == 1 ? columns : s.row, 1), true,
                        0};
  return std::nullopt;
}

static void pushBatch(GemmShape &s, int64_t size, int64_t a, int64_t b,
                      int64_t c) {
  s.batch.push_back(size);
  s.a.batch.push_back(a);
  s.b.batch.push_back(b);
  s.c.batch.push_back(c);
}

/// Makes every matrix one that `stored` takes, if that is possible.
static void takeApart(GemmShape &s) {
  if (!stored(s.m, s.k, s.a) || !stored(s.m, s.n, s.c)) {
    pushBatch(s, s.m, s.a.row, 0, s.c.row);
    s.m = 1;
  }
  if (!stored(s.k, s.n, s.b) || !stored(s.m, s.n, s.c)) {
    pushBatch(s, s.n, 0, s.b.column, s.c.column);
    s.n = 1;
  }
}

/// Batch dimensions of one element go, and those that continue their inner
/// neighbour in all three operands are joined with it.
static void joinBatch(GemmShape &s) {
  GemmShape joined = s;
  for (Ints *sizes :
       {&joined.batch, &joined.a.batch, &joined.b.batch, &joined.c.batch})
    sizes->clear();
  for (size_t d = 0; d < s.batch.size(); ++d) {
    int64_t size = s.batch[d], a = s.a.batch[d], b = s.b.batch[d],
            c = s.c.batch[d];
    if (size == 1)
      continue;
    if (!joined.batch.empty() && joined.a.batch.back() == a * size &&
        joined.b.batch.back() == b * size &&
        joined.c.batch.back() == c * size) {
      joined.batch.back() *= size;
      joined.a.batch.back() = a;
      joined.b.batch.back() = b;
      joined.c.batch.back() = c;
      continue;
    }
    pushBatch(joined, size, a, b, c);
  }
  s = std::move(joined);
}

/// Element offsets of the products over all batch dimensions but one.
static std::vector<std::array<int64_t, 3>> offsetsOf(const GemmShape &s,
                                                     size_t left) {
  std::vector<std::array<int64_t, 3>> offsets = {{0, 0, 0}};
  for (size_t d = 0; d < s.batch.size(); ++d) {
    if (d == left)
      continue;
    std::vector<std::array<int64_t, 3>> more;
    for (const auto &at : offsets)
      for (int64_t i = 0; i < s.batch[d]; ++i)
        more.push_back({at[0] + i * s.a.batch[d], at[1] + i * s.b.batch[d],
                        at[2] + i * s.c.batch[d]});
    offsets = std::move(more);
  }
  return offsets;
}

StatusOr<GemmForm> gemmForm(GemmShape s) {
  GemmForm form;
  int64_t products = 1;
  for (int64_t size : s.batch)
    products *= size;
  if (!products || !s.m || !s.n)
    return form;
  if (!s.k)
    return internalFault("a product with k = 0 has no kernel on CUDA");
  foldBatch(s);
  takeApart(s);
  joinBatch(s);
  auto a = stored(s.m, s.k, s.a), b = stored(s.k, s.n, s.b),
       c = stored(s.m, s.n, s.c);
  if (!a || !b || !c)
    return internalFault("a product with a stride of 0 along k, or with "
                         "overlapping results, has no kernel on CUDA");
  size_t left = size_t(std::max_element(s.batch.begin(), s.batch.end()) -
                       s.batch.begin());
  if (!s.batch.empty()) {
    form.batch = s.batch[left];
    a->batchStride = s.a.batch[left];
    b->batchStride = s.b.batch[left];
    c->batchStride = s.c.batch[left];
  }
  form.calls = offsetsOf(s, left);
  form.swapped = c->transposed;
  form.d = *c;
  form.d.transposed = false;
  form.x = form.swapped ? *b : *a;
  form.y = form.swapped ? *a : *b;
  // c^T = b^T a^T: what is stored transposed is now taken as it lies.
  form.x.transposed ^= form.swapped;
  form.y.transposed ^= form.swapped;
  return form;
}

} // namespace lockstep::runtime::cuda
