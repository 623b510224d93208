#include "test/runtime/library/library_testing.h"

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using Kind = lockstep::artifact::LibraryKernel;

namespace {
struct Case {
  int64_t m, n, k;
  std::vector<int64_t> batch;
  std::vector<int64_t> a, b, c;    // row and column strides
  std::vector<int64_t> ab, bb, cb; // batch strides
  double alpha, beta;
};

template <typename T>
void check(const Case &t, const char *dtype, double tolerance) {
  KernelBuilder builder(Kind::Gemm);
  builder.ints("m", {t.m}).ints("n", {t.n}).ints("k", {t.k});
  builder.ints("batch", t.batch).text("dtype", dtype);
  builder.ints("a_strides", t.a).ints("b_strides", t.b).ints("c_strides", t.c);
  builder.ints("a_batch_strides", t.ab).ints("b_batch_strides", t.bb);
  builder.ints("c_batch_strides", t.cb);
  builder.number("alpha", t.alpha).number("beta", t.beta);
  auto kernel = builder.create();
  std::vector<int64_t> bytes = kernel->operandBytes();
  auto a = Operand<T>::random(bytes[0] / sizeof(T), 1);
  auto b = Operand<T>::random(bytes[1] / sizeof(T), 2);
  Operand<T> c(bytes[2] / sizeof(T));
  if (t.beta != 0)
    c = Operand<T>::random(bytes[2] / sizeof(T), 3);
  Operand<T> before = c;
  runKernel(*kernel, {a.data(), b.data(), c.data()});

  int64_t count = 1;
  for (int64_t size : t.batch)
    count *= size;
  std::vector<double> expected, actual;
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, ao = 0, bo = 0, co = 0;
    for (size_t d = t.batch.size(); d-- > 0; rest /= t.batch[d]) {
      ao += rest % t.batch[d] * t.ab[d];
      bo += rest % t.batch[d] * t.bb[d];
      co += rest % t.batch[d] * t.cb[d];
    }
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < t.k; ++p)
          sum += double(a[ao + i * t.a[0] + p * t.a[1]]) *
                 double(b[bo + p * t.b[0] + j * t.b[1]]);
        int64_t at = co + i * t.c[0] + j * t.c[1];
        double old = t.beta == 0 ? 0 : t.beta * double(before[at]);
        expected.push_back(t.alpha * sum + old);
        actual.push_back(double(c[at]));
      }
  }
  CHECK(relativeError(actual, expected, expected.size()) < tolerance);
  CHECK(c.guardsIntact());
}

void checkBoth(const Case &t) {
  check<float>(t, "f32", 1e-5);
  check<double>(t, "f64", 1e-13);
}
} // namespace

TEST_CASE("gemm multiplies dense matrices") {
  checkBoth({37, 29, 53, {}, {53, 1}, {29, 1}, {29, 1}, {}, {}, {}, 1, 0});
  checkBoth({1, 29, 53, {}, {53, 1}, {29, 1}, {29, 1}, {}, {}, {}, 1, 0});
  checkBoth({37, 1, 53, {}, {53, 1}, {1, 1}, {1, 1}, {}, {}, {}, 1, 0});
  checkBoth({37, 29, 1, {}, {1, 1}, {29, 1}, {29, 1}, {}, {}, {}, 2.5, 0});
}

TEST_CASE("gemm folds transposes of every operand") {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (bool tc : {false, true}) {
        auto strides = [](bool t, int64_t rows, int64_t columns) {
          return t ? std::vector<int64_t>{1, rows}
                   : std::vector<int64_t>{columns, 1};
        };
        checkBoth({17,
                   23,
                   31,
                   {},
                   strides(ta, 17, 31),
                   strides(tb, 31, 23),
                   strides(tc, 17, 23),
                   {},
                   {},
                   {},
                   0.5,
                   1});
      }
}

TEST_CASE("gemm reads and writes any strides") {
  checkBoth({5, 7, 11, {}, {33, 3}, {2, 22}, {14, 2}, {}, {}, {}, 1, 0});
  checkBoth({5, 7, 11, {}, {0, 1}, {7, 1}, {14, 2}, {}, {}, {}, 1, 2});
  checkBoth({5, 7, 11, {}, {11, 1}, {0, 0}, {7, 1}, {}, {}, {}, 1, 1});
}

TEST_CASE("gemm runs batches, broadcasts and folds them") {
  // [b, h, t, d] x [b, h, d, t] on tensors stored as [b, t, h, d].
  checkBoth({9,
             9,
             5,
             {3, 4},
             {20, 1},
             {1, 20},
             {9, 1},
             {180, 5},
             {180, 5},
             {324, 81},
             1,
             0});
  // One weight for all rows: folded to a single product.
  checkBoth({6,
             5,
             4,
             {3, 2},
             {4, 1},
             {5, 1},
             {5, 1},
             {48, 24},
             {0, 0},
             {60, 30},
             1,
             0});
  // One left operand for all columns.
  checkBoth({6, 5, 4, {3}, {4, 1}, {15, 1}, {15, 1}, {0}, {5}, {5}, 1, 1});
  // Six batch dimensions.
  checkBoth({2,
             3,
             4,
             {2, 1, 2, 2, 1, 2},
             {4, 1},
             {3, 1},
             {3, 1},
             {64, 64, 32, 16, 16, 8},
             {0, 0, 12, 0, 0, 24},
             {48, 48, 24, 12, 12, 6},
             1,
             0});
}

TEST_CASE("gemm with an empty sum gives beta c") {
  checkBoth({3, 4, 0, {}, {1, 1}, {4, 1}, {4, 1}, {}, {}, {}, 1, 0});
  checkBoth({3, 4, 0, {}, {1, 1}, {4, 1}, {4, 1}, {}, {}, {}, 1, 1});
}

TEST_CASE("a library kernel rejects attributes it does not know or misses") {
  KernelBuilder missing(Kind::Gemm);
  missing.ints("m", {2}).ints("n", {2});
  CHECK(missing.tryCreate().status().toString() ==
        "kernel 'tested': attribute 'k' is missing");
  KernelBuilder unknown(Kind::Fill);
  unknown.ints("bytes", {8}).ints("colour", {1});
  CHECK(unknown.tryCreate().status().toString() ==
        "kernel 'tested': attribute 'colour' is unknown");
  KernelBuilder wrong(Kind::Gemm);
  wrong.ints("m", {2}).ints("n", {2}).ints("k", {2, 3});
  CHECK(wrong.tryCreate().status().toString() ==
        "kernel 'tested': attribute 'k' must be one integer");
}
