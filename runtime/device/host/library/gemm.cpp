// Matrix products: f32 on AMX tiles where the processor has them and the shape
// fills them, else through OpenBLAS and oneDNN. Transposes are strides; batches
// that are one larger product are folded into it when the kernel is prepared.
#include "runtime/device/host/library/gemm_shape.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/sgemm.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/library/tile_product.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <cblas.h>
#include <optional>

namespace lockstep::runtime {

namespace {

/// How CBLAS can read or write a matrix without a copy.
struct Layout {
  bool direct = false;     ///< row-major with a leading dimension
  bool transposed = false; ///< column-major with a leading dimension
  int64_t leading = 1;
};

Layout layoutOf(int64_t rows, int64_t columns, const MatrixStrides &s) {
  if ((columns == 1 || s.column == 1) && (rows == 1 || s.row >= columns))
    return {true, false, std::max<int64_t>(rows == 1 ? columns : s.row, 1)};
  if ((rows == 1 || s.row == 1) && (columns == 1 || s.column >= rows))
    return {false, true, std::max<int64_t>(columns == 1 ? rows : s.column, 1)};
  return {};
}

void callBlas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n,
              int64_t k, double alpha, const float *a, int64_t lda,
              const float *b, int64_t ldb, double beta, float *c, int64_t ldc) {
  sgemm(Transposed(ta == CblasTrans), Transposed(tb == CblasTrans), m, n, k,
        float(alpha), a, lda, b, ldb, float(beta), c, ldc);
}
void callBlas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n,
              int64_t k, double alpha, const double *a, int64_t lda,
              const double *b, int64_t ldb, double beta, double *c,
              int64_t ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
}

/// The product on tiles, where that is faster.
std::optional<TileProduct> onTiles(const GemmShape &s) {
  constexpr int64_t most = int64_t(1) << 31;
  auto elements = operandElements(s);
  if (s.dtype != "f32" || !hasTiles() ||
      tileNanoseconds(s.m, s.n, s.k) > vectorNanoseconds(s.m, s.n, s.k) ||
      *std::max_element(elements.begin(), elements.end()) > most)
    return std::nullopt;
  TileProduct p{Offsets::strided(s.m, s.a.row),
                Offsets::strided(s.k, s.a.column),
                Offsets::strided(s.n, s.b.column),
                Offsets::strided(s.k, s.b.row),
                Offsets::strided(s.m, s.c.row),
                Offsets::strided(s.n, s.c.column),
                float(s.alpha),
                float(s.beta)};
  return p;
}

template <typename T> class Gemm final : public LibraryKernel {
public:
  explicit Gemm(GemmShape shape);
  std::vector<int64_t> operandBytes() const override { return bytes; }
  Status run(void *const *operands) override;

private:
  void product(const T *a, const T *b, T *c) const;
  const T *readable(int slot, const T *source, int64_t rows, int64_t columns,
                    const MatrixStrides &strides, Layout &layout) const;

  GemmShape s;
  std::optional<TileProduct> tiles;
  std::vector<int64_t> bytes;
  std::vector<int64_t> aOffsets, bOffsets, cOffsets;
};

template <typename T> Gemm<T>::Gemm(GemmShape shape) : s(std::move(shape)) {
  for (int64_t elements : operandElements(s))
    bytes.push_back(elements * int64_t(sizeof(T)));
  foldBatch(s);
  tiles = onTiles(s);
  int64_t count = 1;
  for (int64_t size : s.batch)
    count *= size;
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, a = 0, b = 0, c = 0;
    for (size_t d = s.batch.size(); d-- > 0; rest /= s.batch[d]) {
      int64_t at = rest % s.batch[d];
      a += at * s.a.batch[d];
      b += at * s.b.batch[d];
      c += at * s.c.batch[d];
    }
    aOffsets.push_back(a);
    bOffsets.push_back(b);
    cOffsets.push_back(c);
  }
}

/// The matrix itself when CBLAS can read it, else a dense copy.
template <typename T>
const T *Gemm<T>::readable(int slot, const T *source, int64_t rows,
                           int64_t columns, const MatrixStrides &strides,
                           Layout &layout) const {
  layout = layoutOf(rows, columns, strides);
  if (layout.direct || layout.transposed)
    return source;
  T *copy = threadScratchOf<T>(slot, rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      copy[i * columns + j] = source[i * strides.row + j * strides.column];
  layout = {true, false, std::max<int64_t>(columns, 1)};
  return copy;
}

template <typename T>
void Gemm<T>::product(const T *a, const T *b, T *c) const {
  if constexpr (std::is_same_v<T, float>)
    if (tiles)
      return tiles->run(a, b, c);
  Layout la, lb, lc = layoutOf(s.m, s.n, s.c);
  a = readable(0, a, s.m, s.k, s.a, la);
  b = readable(1, b, s.k, s.n, s.b, lb);
  auto flag = [](const Layout &l, bool flip) {
    return l.transposed != flip ? CblasTrans : CblasNoTrans;
  };
  if (lc.direct)
    return callBlas(flag(la, false), flag(lb, false), s.m, s.n, s.k, s.alpha, a,
                    la.leading, b, lb.leading, s.beta, c, lc.leading);
  if (lc.transposed) // c^T = b^T a^T
    return callBlas(flag(lb, true), flag(la, true), s.n, s.m, s.k, s.alpha, b,
                    lb.leading, a, la.leading, s.beta, c, lc.leading);
  T *dense = threadScratchOf<T>(2, s.m * s.n);
  callBlas(flag(la, false), flag(lb, false), s.m, s.n, s.k, s.alpha, a,
           la.leading, b, lb.leading, 0, dense, s.n);
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      T &out = c[i * s.c.row + j * s.c.column];
      out = dense[i * s.n + j] + (s.beta == 0 ? T(0) : T(s.beta) * out);
    }
}

template <typename T> Status Gemm<T>::run(void *const *operands) {
  const T *a = static_cast<const T *>(operands[0]);
  const T *b = static_cast<const T *>(operands[1]);
  T *c = static_cast<T *>(operands[2]);
  if (s.m == 0 || s.n == 0)
    return Status::success();
  int64_t count = int64_t(aOffsets.size());
  OneThread little(double(count) * s.m * s.n * s.k < 5e5);
  auto one = [&](int64_t index) {
    product(a + aOffsets[index], b + bOffsets[index], c + cOffsets[index]);
  };
  // Many or small products run side by side, few large ones one after another
  // on all threads.
  bool small = s.m * s.n * s.k < (int64_t(4) << 20);
  if (count > 1 && (small || count >= 2 * lockstep_max_threads())) {
    int64_t perChunk =
        std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, s.m * s.n * s.k));
    int64_t chunks = (count + perChunk - 1) / perChunk;
    parallelFor(chunks, [&](int64_t chunk) {
      for (int64_t i = chunk * perChunk;
           i < std::min(count, (chunk + 1) * perChunk); ++i)
        one(i);
    });
  } else {
    for (int64_t i = 0; i < count; ++i)
      one(i);
  }
  return Status::success();
}

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>> createGemm(Attributes &attributes) {
  LOCKSTEP_ASSIGN_OR_RETURN(GemmShape shape,
                            readGemmShape(attributes, {"f32", "f64"}));
  std::unique_ptr<LibraryKernel> kernel;
  if (shape.dtype == "f32")
    kernel = std::make_unique<Gemm<float>>(std::move(shape));
  else
    kernel = std::make_unique<Gemm<double>>(std::move(shape));
  return kernel;
}

} // namespace lockstep::runtime
