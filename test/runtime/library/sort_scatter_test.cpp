#include "test/runtime/library/library_testing.h"

#include <algorithm>
#include <numeric>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using Kind = lockstep::artifact::LibraryKernel;

TEST_CASE("sort is stable and puts NaN last") {
  for (bool descending : {false, true}) {
    int64_t rows = 5, size = 37;
    auto x = Operand<float>::random(rows * size, 1);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::round(x[i] * 4); // many equal keys
    x[3] = x[40] = NAN;
    KernelBuilder builder(Kind::Sort);
    builder.ints("rows", {rows}).ints("size", {size});
    builder.ints("descending", {descending});
    Operand<float> values(x.size());
    Operand<int64_t> indices(x.size());
    runKernel(*builder.create(), {x.data(), values.data(), indices.data()});
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int64_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      const float *keys = x.data() + row * size;
      auto key = [&](int64_t i) {
        return std::isnan(keys[i]) ? INFINITY : keys[i];
      };
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        if (key(a) != key(b))
          return (key(a) > key(b)) == descending;
        return a < b;
      });
      for (int64_t i = 0; i < size; ++i) {
        CHECK(indices[row * size + i] == order[i]);
        CHECK(std::memcmp(&values[row * size + i], &keys[order[i]], 4) == 0);
      }
    }
    CHECK(values.guardsIntact());
    CHECK(indices.guardsIntact());
  }
}

TEST_CASE("topk gives the largest or smallest, sorted") {
  KernelBuilder builder(Kind::TopK);
  builder.ints("rows", {2}).ints("size", {4}).ints("k", {2});
  builder.text("dtype", "i64");
  std::vector<int64_t> x = {3, 9, 9, 1, -5, -7, 0, -6};
  Operand<int64_t> values(4), indices(4);
  runKernel(*builder.create(), {x.data(), values.data(), indices.data()});
  CHECK(std::vector<int64_t>(values.data(), values.data() + 4) ==
        std::vector<int64_t>{9, 9, 0, -5});
  CHECK(std::vector<int64_t>(indices.data(), indices.data() + 4) ==
        std::vector<int64_t>{1, 2, 2, 0});
  builder.ints("descending", {0});
  runKernel(*builder.create(), {x.data(), values.data(), indices.data()});
  CHECK(indices[0] == 3);
  CHECK(indices[2] == 1);
}

TEST_CASE("scatter adds in order, with indices along any dimension") {
  for (int form = 0; form < 8; ++form) {
    bool outerIndex = form & 1, innerIndex = form & 2, clear = form & 4;
    int64_t outer = 3, count = 50, size = 7, inner = 131;
    auto updates = Operand<float>::random(outer * count * inner, 1);
    size_t indexCount =
        count * (outerIndex ? outer : 1) * (innerIndex ? inner : 1);
    Operand<int64_t> indices(indexCount);
    std::mt19937 engine(2);
    for (size_t i = 0; i < indexCount; ++i)
      indices[i] = engine() % size;
    auto out = Operand<float>::random(outer * size * inner, 3);
    std::vector<float> expected(out.size());
    for (size_t i = 0; i < out.size(); ++i)
      expected[i] = clear ? 0 : out[i];
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < inner; ++j) {
          int64_t at = (outerIndex ? o * count : 0) + i;
          int64_t row = indices[innerIndex ? at * inner + j : at];
          expected[(o * size + row) * inner + j] +=
              updates[(o * count + i) * inner + j];
        }
    KernelBuilder builder(Kind::ScatterAdd);
    builder.ints("outer", {outer}).ints("count", {count}).ints("size", {size});
    builder.ints("inner", {inner}).ints("indices_outer", {outerIndex});
    builder.ints("indices_inner", {innerIndex}).ints("clear", {clear});
    runKernel(*builder.create(), {updates.data(), indices.data(), out.data()});
    CHECK(std::equal(expected.begin(), expected.end(), out.data()));
    CHECK(out.guardsIntact());
  }
}

TEST_CASE("scatter refuses an index out of range") {
  KernelBuilder builder(Kind::ScatterAdd);
  builder.ints("count", {1}).ints("size", {4});
  float update = 1, out[4] = {};
  int64_t index = 4;
  std::vector<void *> operands = {&update, &index, out};
  CHECK(builder.create()->run(operands.data()).toString() ==
        "an index is outside [0, 4); check the indices in the data");
}

TEST_CASE("copy and fill cover every byte") {
  int64_t bytes = (1 << 18) + 77;
  Operand<uint8_t> source(bytes), target(bytes);
  for (int64_t i = 0; i < bytes; ++i)
    source[i] = uint8_t(i * 7);
  runKernel(*KernelBuilder(Kind::Copy).ints("bytes", {bytes}).create(),
            {source.data(), target.data()});
  CHECK(std::equal(source.data(), source.data() + bytes, target.data()));
  runKernel(*KernelBuilder(Kind::Fill).ints("bytes", {bytes}).create(),
            {target.data()});
  CHECK(std::count(target.data(), target.data() + bytes, 0) == bytes);
  CHECK(target.guardsIntact());
}
