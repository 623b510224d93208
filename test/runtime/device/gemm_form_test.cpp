// Gemm in cuBLAS's terms: the product that cuBLAS would compute is computed
// here, and must be the one asked for.
#include "runtime/device/cuda/gemm_form.h"

#include <catch2/catch.hpp>
#include <random>

using namespace lockstep::runtime;

static std::vector<double> numbers(int64_t count, std::mt19937 &random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double &value : values)
    value = double(random() % 17) - 8; // small integers: sums are exact
  return values;
}

static double element(const std::vector<double> &values, int64_t base,
                      const cuda::StoredMatrix &matrix, int64_t i, int64_t j) {
  if (matrix.transposed)
    std::swap(i, j);
  REQUIRE((i < matrix.rows && j < matrix.columns));
  return values.at(size_t(base + i + j * matrix.leading));
}

/// What cublasLtMatmul does with the form.
static void compute(const cuda::GemmForm &form, const std::vector<double> &a,
                    const std::vector<double> &b, std::vector<double> &c) {
  for (const auto &call : form.calls)
    for (int64_t p = 0; p < form.batch; ++p) {
      const std::vector<double> &x = form.swapped ? b : a;
      const std::vector<double> &y = form.swapped ? a : b;
      int64_t atX = call[form.swapped ? 1 : 0] + p * form.x.batchStride;
      int64_t atY = call[form.swapped ? 0 : 1] + p * form.y.batchStride;
      int64_t atD = call[2] + p * form.d.batchStride;
      int64_t k = form.x.transposed ? form.x.rows : form.x.columns;
      REQUIRE(k == (form.y.transposed ? form.y.columns : form.y.rows));
      REQUIRE(form.d.leading >= form.d.rows);
      REQUIRE(form.x.leading >= form.x.rows);
      REQUIRE(form.y.leading >= form.y.rows);
      for (int64_t i = 0; i < form.d.rows; ++i)
        for (int64_t j = 0; j < form.d.columns; ++j) {
          double sum = 0;
          for (int64_t q = 0; q < k; ++q)
            sum +=
                element(x, atX, form.x, i, q) * element(y, atY, form.y, q, j);
          c.at(size_t(atD + i + j * form.d.leading)) += sum;
        }
    }
}

static void reference(const GemmShape &s, const std::vector<double> &a,
                      const std::vector<double> &b, std::vector<double> &c) {
  int64_t products = 1;
  for (int64_t size : s.batch)
    products *= size;
  for (int64_t index = 0; index < products; ++index) {
    int64_t rest = index, atA = 0, atB = 0, atC = 0;
    for (size_t d = s.batch.size(); d-- > 0; rest /= s.batch[d]) {
      atA += rest % s.batch[d] * s.a.batch[d];
      atB += rest % s.batch[d] * s.b.batch[d];
      atC += rest % s.batch[d] * s.c.batch[d];
    }
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        for (int64_t q = 0; q < s.k; ++q)
          c.at(size_t(atC + i * s.c.row + j * s.c.column)) +=
              a.at(size_t(atA + i * s.a.row + q * s.a.column)) *
              b.at(size_t(atB + q * s.b.row + j * s.b.column));
  }
}

static void check(const GemmShape &shape, std::mt19937 &random) {
  std::array<int64_t, 3> elements = operandElements(shape);
  std::vector<double> a = numbers(elements[0], random),
                      b = numbers(elements[1], random),
                      c(static_cast<size_t>(elements[2])), expected = c;
  reference(shape, a, b, expected);
  auto form = cuda::gemmForm(shape);
  INFO(form.status().toString());
  REQUIRE(form.ok());
  compute(*form, a, b, c);
  CHECK(c == expected);
}

/// Strides of `sizes` when stored in the order of `order`, innermost first.
static Ints stridesOf(const Ints &sizes, const std::vector<size_t> &order) {
  Ints strides(sizes.size());
  int64_t next = 1;
  for (size_t d : order) {
    strides[d] = next;
    next *= sizes[d];
  }
  return strides;
}

static MatrixStrides randomStrides(int64_t rows, int64_t columns,
                                   const Ints &batch, bool mayRepeat,
                                   std::mt19937 &random) {
  Ints sizes = batch;
  sizes.insert(sizes.end(), {rows, columns});
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d)
    order.push_back(d);
  std::shuffle(order.begin(), order.end(), random);
  Ints all = stridesOf(sizes, order);
  MatrixStrides result{all[batch.size()], all[batch.size() + 1], {}};
  for (size_t d = 0; d < batch.size(); ++d)
    result.batch.push_back(mayRepeat && random() % 4 == 0 ? 0 : all[d]);
  return result;
}

TEST_CASE("any strides and batches give the product asked for") {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    GemmShape s;
    s.m = 1 + random() % 6;
    s.n = 1 + random() % 6;
    s.k = 1 + random() % 6;
    for (unsigned i = random() % 4; i > 0; --i)
      s.batch.push_back(1 + random() % 3);
    s.a = randomStrides(s.m, s.k, s.batch, true, random);
    s.b = randomStrides(s.k, s.n, s.batch, true, random);
    s.c = randomStrides(s.m, s.n, s.batch, false, random);
    check(s, random);
  }
}

TEST_CASE("batches that continue each other are one call") {
  std::mt19937 random(8);
  GemmShape s;
  s.m = s.n = s.k = 3;
  s.batch = {2, 4, 5};
  s.a = s.b = s.c = {3, 1, {180, 45, 9}};
  check(s, random);
  auto form = cuda::gemmForm(s);
  CHECK(form->batch == 40);
  CHECK(form->calls.size() == 1);
  s.b.batch = {0, 0, 0}; // the same b: one product with more rows
  form = cuda::gemmForm(s);
  CHECK(form->batch == 1);
  CHECK(form->calls.size() == 1);
  CHECK(form->d.columns == 120);
  s.a.batch = {180, 45, 10}; // attention: heads inside positions
  s.c.batch = {400, 45, 10};
  form = cuda::gemmForm(s);
  CHECK(form->batch * int64_t(form->calls.size()) == 40);
}

TEST_CASE(
    "products that cuBLAS cannot do are refused, empty ones are nothing") {
  GemmShape s;
  s.m = s.n = 4;
  s.k = 0;
  s.a = s.b = s.c = {4, 1, {}};
  CHECK(cuda::gemmForm(s).status().what() ==
        "a product with k = 0 has no kernel on CUDA");
  s.k = 4;
  s.a = {1, 0, {}};
  CHECK(
      cuda::gemmForm(s).status().what() ==
      "a product with a stride of 0 along k, or with overlapping results, has "
      "no kernel on CUDA");
  s.m = 0;
  CHECK(cuda::gemmForm(s)->calls.empty());
}
