//===- Evaluate.h - Runs one operation in a test ------------------------*- C++
//-*-===//
//
// Tests write an operation as text and give its operands as numbers. Free of
// MLIR headers, so that test files compile fast.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_TEST_REFERENCE_EVALUATE_H
#define LOCKSTEP_TEST_REFERENCE_EVALUATE_H

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lockstep::test {

struct Tensor {
  /// As in MLIR: "tensor<2x3xf32>".
  std::string type;
  std::vector<double> values;
};

/// The results of the last operation of `body`, where operand i is %a, %b, %c,
/// ...:
///   evaluate("train.add %a, %b : tensor<2xf32>", {{"tensor<2xf32>", {1, 2}},
///   ...})
/// Empty, with diagnostics printed, if the text does not parse or an evaluation
/// fails.
std::vector<Tensor> evaluate(const std::string &body,
                             const std::vector<Tensor> &operands);

/// The same after every composite operation was replaced by its decomposition;
/// empty if one is left.
std::vector<Tensor> evaluateDecomposed(const std::string &body,
                                       const std::vector<Tensor> &operands);

/// Runs the function @main of a module on several ranks: arguments[i][rank],
/// results[i][rank].
std::vector<std::vector<Tensor>>
runRanks(const std::string &module, int64_t ranks,
         const std::vector<std::vector<Tensor>> &arguments);

/// "tensor<2x3xf32>".
inline std::string tensorType(const std::vector<int64_t> &shape,
                              const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

inline int64_t countElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Seeded numbers for tests.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }
  double normal() { return std::normal_distribution<double>()(engine); }
  Tensor normals(const std::vector<int64_t> &shape, const std::string &element,
                 double scale = 1, double shift = 0) {
    Tensor tensor{tensorType(shape, element), {}};
    for (int64_t i = 0, e = countElements(shape); i < e; ++i)
      tensor.values.push_back(normal() * scale + shift);
    return tensor;
  }
  Tensor integers(const std::vector<int64_t> &shape, int64_t low, int64_t high,
                  const std::string &element = "i64") {
    Tensor tensor{tensorType(shape, element), {}};
    for (int64_t i = 0, e = countElements(shape); i < e; ++i)
      tensor.values.push_back(double(integer(low, high)));
    return tensor;
  }

private:
  std::mt19937 engine;
};

/// True if a and b differ by at most `tolerance`, absolutely or relative to b;
/// equal infinities and two NaNs agree.
inline bool isClose(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

} // namespace lockstep::test

#endif
