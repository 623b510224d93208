// Helpers of the library kernels' tests: attributes in a line, random values,
// poisoned outputs, guards behind every operand.
#ifndef LOCKSTEP_TEST_RUNTIME_LIBRARY_LIBRARY_TESTING_H
#define LOCKSTEP_TEST_RUNTIME_LIBRARY_LIBRARY_TESTING_H

#include "runtime/device/host/library/library_kernel.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <random>

namespace lockstep::runtime::testing {

/// A kernel's attributes, built in place.
class KernelBuilder {
public:
  explicit KernelBuilder(artifact::LibraryKernel kind) {
    kernel.name = "tested";
    kernel.library = kind;
  }
  KernelBuilder &ints(const char *name, std::vector<int64_t> values) {
    add(name).ints = std::move(values);
    return *this;
  }
  KernelBuilder &number(const char *name, double value) {
    add(name).doubles = {value};
    return *this;
  }
  KernelBuilder &text(const char *name, const char *value) {
    add(name).text = value;
    return *this;
  }
  StatusOr<std::unique_ptr<LibraryKernel>> tryCreate() const {
    return createLibraryKernel(kernel);
  }
  std::unique_ptr<LibraryKernel> create() const {
    auto result = tryCreate();
    INFO(result.status().toString());
    REQUIRE(result.ok());
    return std::move(result).value();
  }

private:
  artifact::AttributeT &add(const char *name) {
    kernel.attributes.push_back(std::make_unique<artifact::AttributeT>());
    kernel.attributes.back()->name = name;
    return *kernel.attributes.back();
  }
  artifact::KernelT kernel;
};

/// Memory of an operand with guard elements behind it.
template <typename T> class Operand {
public:
  static constexpr size_t guards = 64;
  explicit Operand(size_t count) : values(count + guards), count(count) {
    std::memset(values.data(), 0xff, values.size() * sizeof(T));
  }
  /// Random values in [-1, 1).
  static Operand random(size_t count, uint32_t seed) {
    Operand operand(count);
    std::mt19937 engine(seed);
    for (size_t i = 0; i < count; ++i)
      operand.values[i] = T(double(engine()) / 2147483648.0 - 1);
    return operand;
  }
  T *data() { return values.data(); }
  T &operator[](size_t i) { return values[i]; }
  const T &operator[](size_t i) const { return values[i]; }
  size_t size() const { return count; }
  bool guardsIntact() const {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&values[count]);
    for (size_t i = 0; i < guards * sizeof(T); ++i)
      if (bytes[i] != 0xff)
        return false;
    return true;
  }

private:
  std::vector<T> values;
  size_t count;
};

/// Largest |a - b| relative to the largest |b| (at least 1e-30).
template <typename A, typename B>
double relativeError(const A &a, const B &b, size_t count) {
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < count; ++i) {
    if (!(std::isfinite(double(a[i]))))
      return INFINITY;
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    scale = std::max(scale, std::abs(double(b[i])));
  }
  return worst / scale;
}

inline void runKernel(LibraryKernel &kernel, std::vector<void *> operands) {
  Status status = kernel.run(operands.data());
  INFO(status.toString());
  REQUIRE(status.ok());
}

} // namespace lockstep::runtime::testing

#endif // LOCKSTEP_TEST_RUNTIME_LIBRARY_LIBRARY_TESTING_H
