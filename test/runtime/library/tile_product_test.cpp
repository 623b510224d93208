#include "runtime/device/host/library/tile_product.h"
#include "runtime/device/host/parallel.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>

using namespace lockstep::runtime;

namespace {

/// Values of both signs and many magnitudes.
std::vector<float> randomValues(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values)
    value = std::ldexp(float(engine() >> 8) / (1 << 23) - 1,
                       int(engine() % 17) - 8);
  return values;
}

TileProduct dense(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  return {Offsets::strided(m, ta ? 1 : k), Offsets::strided(k, ta ? m : 1),
          Offsets::strided(n, tb ? k : 1), Offsets::strided(k, tb ? 1 : n),
          Offsets::strided(m, n),          Offsets::strided(n, 1)};
}

/// The largest error of a product, in units of the sum of the terms' sizes.
struct Errors {
  double tiles = 0; ///< of the product on tiles
  double loop = 0;  ///< of adding the terms one by one in f32
};

Errors errorsOf(int64_t m, int64_t n, int64_t k, bool ta, bool tb, float alpha,
                float beta) {
  std::vector<float> a = randomValues(m * k, 1), b = randomValues(k * n, 2),
                     c = randomValues(m * n, 3), before = c;
  TileProduct product = dense(m, n, k, ta, tb);
  product.alpha = alpha;
  product.beta = beta;
  product.run(a.data(), b.data(), c.data());
  Errors worst;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float old = before[size_t(i * n + j)], loop = 0;
      double sum = 0, size = std::abs(double(beta) * old);
      for (int64_t p = 0; p < k; ++p) {
        float x = a[size_t(ta ? p * m + i : i * k + p)],
              y = b[size_t(tb ? j * k + p : p * n + j)];
        sum += double(x) * y;
        size += std::abs(double(alpha) * x * y);
        loop = std::fma(x, y, loop);
      }
      double exact = alpha * sum + double(beta) * old;
      double error = std::abs(double(c[size_t(i * n + j)]) - exact) / size;
      worst.tiles = std::max(worst.tiles, std::isfinite(error) ? error : 1);
      worst.loop =
          std::max(worst.loop,
                   std::abs(double(alpha * loop + beta * old) - exact) / size);
    }
  return worst;
}

} // namespace

TEST_CASE("tiles multiply as exactly as f32 arithmetic") {
  if (!hasTiles()) {
    WARN("this processor has no AMX tiles");
    return;
  }
  auto check = [](Errors errors) {
    INFO("one by one: " << errors.loop);
    CHECK(errors.tiles < errors.loop + 6e-8); // half a unit in the last place
  };
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      check(errorsOf(1, 1, 1, ta, tb, 1, 0));
      check(errorsOf(16, 16, 32, ta, tb, 1, 0));
      check(errorsOf(33, 47, 70, ta, tb, 1, 0));
      check(errorsOf(129, 260, 96, ta, tb, 0.5f, 2));
      check(errorsOf(40, 72, 1100, ta, tb, 1, 1));
      check(errorsOf(20, 2090, 40, ta, tb, 1, 0));
    }
}

TEST_CASE("products on tiles do not depend on threads") {
  if (!hasTiles()) {
    WARN("this processor has no AMX tiles");
    return;
  }
  constexpr int64_t m = 300, n = 500, k = 700;
  std::vector<float> a = randomValues(m * k, 1), b = randomValues(k * n, 2);
  std::vector<std::vector<float>> results;
  int threads = lockstep_max_threads();
  for (int count : {1, 2, 5}) {
    lockstep_set_threads(count);
    results.emplace_back(size_t(m * n));
    dense(m, n, k, false, false).run(a.data(), b.data(), results.back().data());
  }
  lockstep_set_threads(threads);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("tiles take numbers of any size and pass NaN on") {
  if (!hasTiles()) {
    WARN("this processor has no AMX tiles");
    return;
  }
  constexpr int64_t size = 32;
  constexpr float most = std::numeric_limits<float>::max();
  std::vector<float> a(size * size, 0), b(size * size, 0), c(size * size);
  auto at = [](int64_t i, int64_t j) { return size_t(i * size + j); };
  for (int64_t i = 0; i < size; ++i)
    b[at(i, i)] = 1;
  a[at(0, 0)] = most;
  a[at(1, 1)] = -most;
  a[at(2, 2)] = std::numeric_limits<float>::min();
  a[at(3, 3)] = std::nanf("");
  a[at(4, 4)] = std::numeric_limits<float>::infinity();
  dense(size, size, size, false, false).run(a.data(), b.data(), c.data());
  CHECK(c[at(0, 0)] == most);
  CHECK(c[at(1, 1)] == -most);
  CHECK(c[at(2, 2)] == std::numeric_limits<float>::min());
  CHECK(std::isnan(c[at(3, 3)]));
  CHECK(!std::isfinite(c[at(4, 4)]));
  CHECK(c[at(5, 5)] == 0);
}

TEST_CASE("tiles read and write through tables of offsets") {
  if (!hasTiles()) {
    WARN("this processor has no AMX tiles");
    return;
  }
  // Correlation of a row of 100 numbers with 20 filters of 7, stored apart.
  constexpr int64_t length = 100, taps = 7, filters = 20, places = 94;
  std::vector<float> x = randomValues(length, 1),
                     w = randomValues(filters * taps, 2);
  std::vector<float> y(size_t(2 * filters * places), 0);
  TileProduct product{
      Offsets::strided(filters, taps),       Offsets::strided(taps, 1),
      Offsets::strided(places, 1),           Offsets::strided(taps, 1),
      Offsets::strided(filters, 2 * places), Offsets::strided(places, 2)};
  product.run(w.data(), x.data(), y.data());
  double worst = 0;
  for (int64_t f = 0; f < filters; ++f)
    for (int64_t p = 0; p < places; ++p) {
      double sum = 0, size = 1e-30;
      for (int64_t t = 0; t < taps; ++t) {
        double term = double(w[size_t(f * taps + t)]) * x[size_t(p + t)];
        sum += term;
        size += std::abs(term);
      }
      worst = std::max(worst,
                       std::abs(double(y[size_t(2 * (f * places + p))]) - sum) /
                           size);
      CHECK(y[size_t(2 * (f * places + p) + 1)] == 0);
    }
  CHECK(worst < 6e-7); // seven roundings, each of half a unit, and two more
}
