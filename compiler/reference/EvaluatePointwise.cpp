//===- EvaluatePointwise.cpp - Elementwise operations
//--------------------------===//
//
// Floating point is computed in double and rounded once to the element type;
// integers in int64_t and wrapped. Where C++ or the hardware leaves a result
// open, the choice is XLA's: integer x / 0 is -1 and x % 0 is x.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include "compiler/reference/Philox.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

//===--- Application to all elements; splats stay splats ---===//

template <typename T> static std::vector<T> read(const HostTensor &tensor) {
  if constexpr (std::is_same_v<T, double>)
    return tensor.toDoubles();
  else
    return tensor.toInts();
}

template <typename T>
static HostTensor write(RankedTensorType type, ArrayRef<T> values) {
  if constexpr (std::is_same_v<T, double>)
    return HostTensor::fromDoubles(type, values);
  else
    return HostTensor::fromInts(type, values);
}

template <typename T> static T readSplat(const HostTensor &tensor) {
  if constexpr (std::is_same_v<T, double>)
    return tensor.getDouble(0);
  else
    return tensor.getInt(0);
}

template <typename T>
static HostTensor writeSplat(RankedTensorType type, T value) {
  auto one = RankedTensorType::get({1}, type.getElementType());
  return write<T>(one, ArrayRef<T>(value)).resizeSplat(type.getShape());
}

template <typename In, typename Out, typename F>
static HostTensor mapElements(RankedTensorType type, const HostTensor &a, F f) {
  if (a.isSplat())
    return writeSplat<Out>(type, f(readSplat<In>(a)));
  std::vector<In> x = read<In>(a);
  std::vector<Out> y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = f(x[i]);
  return write<Out>(type, y);
}

template <typename In, typename Out, typename F>
static HostTensor mapElements(RankedTensorType type, const HostTensor &a,
                              const HostTensor &b, F f) {
  if (a.isSplat() && b.isSplat())
    return writeSplat<Out>(type, f(readSplat<In>(a), readSplat<In>(b)));
  if (b.isSplat()) {
    In y = readSplat<In>(b);
    return mapElements<In, Out>(type, a, [&](In x) { return f(x, y); });
  }
  if (a.isSplat()) {
    In x = readSplat<In>(a);
    return mapElements<In, Out>(type, b, [&](In y) { return f(x, y); });
  }
  std::vector<In> x = read<In>(a), y = read<In>(b);
  std::vector<Out> z(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    z[i] = f(x[i], y[i]);
  return write<Out>(type, z);
}

//===--- What each operation computes ---===//

static double negate(double x) { return -x; }
static int64_t negate(int64_t x) { return int64_t(-uint64_t(x)); }
static double abs(double x) { return std::fabs(x); }
static int64_t abs(int64_t x) { return x < 0 ? negate(x) : x; }
static double sign(double x) {
  return std::isnan(x) ? x : double((x > 0) - (x < 0));
}
static int64_t sign(int64_t x) { return (x > 0) - (x < 0); }

static double exponential(double x) { return std::exp(x); }
static double exponentialMinusOne(double x) { return std::expm1(x); }
static double log(double x) { return std::log(x); }
static double logPlusOne(double x) { return std::log1p(x); }
static double tanh(double x) { return std::tanh(x); }
static double logistic(double x) { return 1 / (1 + std::exp(-x)); }
static double sqrt(double x) { return std::sqrt(x); }
static double rsqrt(double x) { return 1 / std::sqrt(x); }
static double sine(double x) { return std::sin(x); }
static double cosine(double x) { return std::cos(x); }
static double tan(double x) { return std::tan(x); }
static double atan(double x) { return std::atan(x); }
static double erf(double x) { return std::erf(x); }
static double floor(double x) { return std::floor(x); }
static double ceil(double x) { return std::ceil(x); }
static double roundNearestEven(double x) { return std::nearbyint(x); }
static double truncate(double x) { return std::trunc(x); }

static double add(double x, double y) { return x + y; }
static double subtract(double x, double y) { return x - y; }
static double multiply(double x, double y) { return x * y; }
static double divide(double x, double y) { return x / y; }
static int64_t add(int64_t x, int64_t y) {
  return int64_t(uint64_t(x) + uint64_t(y));
}
static int64_t subtract(int64_t x, int64_t y) {
  return int64_t(uint64_t(x) - uint64_t(y));
}
static int64_t multiply(int64_t x, int64_t y) {
  return int64_t(uint64_t(x) * uint64_t(y));
}
static int64_t divide(int64_t x, int64_t y) {
  return y == 0 ? -1 : y == -1 ? negate(x) : x / y;
}

static double remainder(double x, double y) { return std::fmod(x, y); }
static int64_t remainder(int64_t x, int64_t y) {
  return y == 0 ? x : y == -1 ? 0 : x % y;
}
static double modulo(double x, double y) {
  double m = std::fmod(x, y);
  return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
static int64_t modulo(int64_t x, int64_t y) {
  int64_t m = remainder(x, y);
  return y != 0 && m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
/// Exact also where x / y would round up to the next integer.
static double floorDivide(double x, double y) {
  if (y == 0 || !std::isfinite(x) || !std::isfinite(y))
    return std::floor(x / y);
  return std::nearbyint((x - modulo(x, y)) / y);
}
static int64_t floorDivide(int64_t x, int64_t y) {
  int64_t quotient = divide(x, y);
  return y != 0 && remainder(x, y) != 0 && (x < 0) != (y < 0) ? quotient - 1
                                                              : quotient;
}

static double power(double x, double y) { return std::pow(x, y); }
static int64_t power(int64_t x, int64_t y) {
  if (y < 0)
    return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; y; y >>= 1, x = multiply(x, x))
    if (y & 1)
      result = multiply(result, x);
  return result;
}

static double maximum(double x, double y) {
  return std::isnan(x) || x > y ? x : y;
}
static double minimum(double x, double y) {
  return std::isnan(x) || x < y ? x : y;
}
static int64_t maximum(int64_t x, int64_t y) { return std::max(x, y); }
static int64_t minimum(int64_t x, int64_t y) { return std::min(x, y); }
static double atan2(double x, double y) { return std::atan2(x, y); }
static int64_t bitAnd(int64_t x, int64_t y) { return x & y; }
static int64_t bitOr(int64_t x, int64_t y) { return x | y; }
static int64_t bitXor(int64_t x, int64_t y) { return x ^ y; }
static int64_t shiftLeft(int64_t x, int64_t y) {
  return y < 0 || y > 63 ? 0 : int64_t(uint64_t(x) << y);
}
static int64_t shiftRight(int64_t x, int64_t y) {
  return x >> (y < 0 || y > 63 ? 63 : y);
}

//===--- Evaluations ---===//

using UnaryDouble = double (*)(double);
using UnaryInt = int64_t (*)(int64_t);
using BinaryDouble = double (*)(double, double);
using BinaryInt = int64_t (*)(int64_t, int64_t);

/// A null function stands for a kind of element that the operation's definition
/// excludes.
template <typename Op, UnaryDouble onDouble, UnaryInt onInt>
static LogicalResult evaluateUnary(Op op, Operands operands, Results &results) {
  RankedTensorType type = getResultType(op);
  if (!operands[0].isFloat()) {
    if constexpr (onInt != nullptr) {
      results.push_back(
          mapElements<int64_t, int64_t>(type, operands[0], onInt));
      return success();
    }
  } else if constexpr (onDouble != nullptr) {
    results.push_back(mapElements<double, double>(type, operands[0], onDouble));
    return success();
  }
  return failure();
}

template <typename Op, BinaryDouble onDouble, BinaryInt onInt>
static LogicalResult evaluateBinary(Op op, Operands operands,
                                    Results &results) {
  RankedTensorType type = getResultType(op);
  if (!operands[0].isFloat()) {
    if constexpr (onInt != nullptr) {
      results.push_back(
          mapElements<int64_t, int64_t>(type, operands[0], operands[1], onInt));
      return success();
    }
  } else if constexpr (onDouble != nullptr) {
    results.push_back(
        mapElements<double, double>(type, operands[0], operands[1], onDouble));
    return success();
  }
  return failure();
}

static LogicalResult evaluateNot(NotOp op, Operands operands,
                                 Results &results) {
  bool isBool = operands[0].getElementType().isInteger(1);
  results.push_back(mapElements<int64_t, int64_t>(
      getResultType(op), operands[0],
      [&](int64_t x) { return isBool ? int64_t(!x) : ~x; }));
  return success();
}

template <typename T>
static HostTensor compare(CompareDirection direction, RankedTensorType type,
                          const HostTensor &a, const HostTensor &b) {
  return mapElements<T, int64_t>(type, a, b, [&](T x, T y) -> int64_t {
    switch (direction) {
    case CompareDirection::EQ:
      return x == y;
    case CompareDirection::NE:
      return x != y;
    case CompareDirection::LT:
      return x < y;
    case CompareDirection::LE:
      return x <= y;
    case CompareDirection::GT:
      return x > y;
    case CompareDirection::GE:
      return x >= y;
    }
    llvm_unreachable("all directions are handled");
  });
}

static LogicalResult evaluateCompare(CompareOp op, Operands operands,
                                     Results &results) {
  RankedTensorType type = getResultType(op);
  results.push_back(
      operands[0].isFloat()
          ? compare<double>(op.getDirection(), type, operands[0], operands[1])
          : compare<int64_t>(op.getDirection(), type, operands[0],
                             operands[1]));
  return success();
}

static LogicalResult evaluateSelect(SelectOp op, Operands operands,
                                    Results &results) {
  if (operands[0].isSplat()) {
    results.push_back(operands[0].getInt(0) ? operands[1] : operands[2]);
    return success();
  }
  HostTensor onTrue = operands[1].expand(), onFalse = operands[2].expand();
  const char *choice = operands[0].getData();
  RankedTensorType type = getResultType(op);
  int64_t size = HostTensor::getElementBytes(type.getElementType());
  std::vector<char> bytes(type.getNumElements() * size);
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
    std::memcpy(&bytes[i * size],
                (choice[i] ? onTrue : onFalse).getData() + i * size, size);
  results.push_back(HostTensor::copy(type, bytes));
  return success();
}

static LogicalResult evaluateConvert(ConvertOp op, Operands operands,
                                     Results &results) {
  RankedTensorType type = getResultType(op);
  // A float's truncation to an integer happens when the result is stored; so
  // does x != 0 for i1.
  results.push_back(operands[0].isFloat()
                        ? mapElements<double, double>(
                              type, operands[0], [](double x) { return x; })
                        : mapElements<int64_t, int64_t>(
                              type, operands[0], [](int64_t x) { return x; }));
  return success();
}

static LogicalResult evaluateStopGradient(StopGradientOp, Operands operands,
                                          Results &results) {
  results.push_back(operands[0]);
  return success();
}

static LogicalResult evaluateDropout(DropoutOp op, Operands operands,
                                     Results &results) {
  RankedTensorType type = getResultType(op);
  std::vector<double> x = operands[0].toDoubles();
  uint64_t seed = operands[1].getInt(0), step = operands[1].getInt(1);
  double rate = op.getRate().convertToDouble(), scale = 1 / (1 - rate);
  SmallVector<int64_t> globalShape(type.getShape()), offsets(type.getRank(), 0);
  if (op.getGlobalShape()) {
    globalShape.assign(op.getGlobalShape()->begin(),
                       op.getGlobalShape()->end());
    for (auto [i, offset] : llvm::enumerate(operands[2].toInts()))
      offsets[i] = offset;
  }
  SmallVector<int64_t> strides = getRowMajorStrides(globalShape);
  forEachIndex(type.getShape(), [&](int64_t position, ArrayRef<int64_t> index) {
    uint64_t global = 0;
    for (size_t i = 0; i < index.size(); ++i)
      global += (offsets[i] + index[i]) * strides[i];
    x[position] = getDropoutUniform(seed, op.getId(), step, global) >= rate
                      ? x[position] * scale
                      : 0;
  });
  results.push_back(HostTensor::fromDoubles(type, x));
  return success();
}

template <typename Op, UnaryDouble onDouble, UnaryInt onInt = nullptr>
static void attachUnary(MLIRContext *context) {
  attachEvaluation<Op, evaluateUnary<Op, onDouble, onInt>>(context);
}

template <typename Op, BinaryDouble onDouble, BinaryInt onInt>
static void attachBinary(MLIRContext *context) {
  attachEvaluation<Op, evaluateBinary<Op, onDouble, onInt>>(context);
}

static void attachUnaries(MLIRContext *c) {
  attachUnary<NegateOp, negate, negate>(c);
  attachUnary<AbsOp, abs, abs>(c);
  attachUnary<SignOp, sign, sign>(c);
  attachUnary<ExponentialOp, exponential>(c);
  attachUnary<ExponentialMinusOneOp, exponentialMinusOne>(c);
  attachUnary<LogOp, log>(c);
  attachUnary<LogPlusOneOp, logPlusOne>(c);
  attachUnary<TanhOp, tanh>(c);
  attachUnary<LogisticOp, logistic>(c);
  attachUnary<SqrtOp, sqrt>(c);
  attachUnary<RsqrtOp, rsqrt>(c);
  attachUnary<SineOp, sine>(c);
  attachUnary<CosineOp, cosine>(c);
  attachUnary<TanOp, tan>(c);
  attachUnary<AtanOp, atan>(c);
  attachUnary<ErfOp, erf>(c);
  attachUnary<FloorOp, floor>(c);
  attachUnary<CeilOp, ceil>(c);
  attachUnary<RoundNearestEvenOp, roundNearestEven>(c);
  attachUnary<TruncateOp, truncate>(c);
  attachEvaluation<NotOp, evaluateNot>(c);
}

static void attachBinaries(MLIRContext *c) {
  attachBinary<AddOp, add, add>(c);
  attachBinary<SubtractOp, subtract, subtract>(c);
  attachBinary<MultiplyOp, multiply, multiply>(c);
  attachBinary<DivideOp, divide, divide>(c);
  attachBinary<FloorDivideOp, floorDivide, floorDivide>(c);
  attachBinary<RemainderOp, remainder, remainder>(c);
  attachBinary<ModuloOp, modulo, modulo>(c);
  attachBinary<PowerOp, power, power>(c);
  attachBinary<MaximumOp, maximum, maximum>(c);
  attachBinary<MinimumOp, minimum, minimum>(c);
  attachBinary<Atan2Op, atan2, nullptr>(c);
  attachBinary<AndOp, nullptr, bitAnd>(c);
  attachBinary<OrOp, nullptr, bitOr>(c);
  attachBinary<XorOp, nullptr, bitXor>(c);
  attachBinary<ShiftLeftOp, nullptr, shiftLeft>(c);
  attachBinary<ShiftRightOp, nullptr, shiftRight>(c);
}

void attachPointwiseEvaluations(MLIRContext *c) {
  attachUnaries(c);
  attachBinaries(c);
  attachEvaluation<CompareOp, evaluateCompare>(c);
  attachEvaluation<SelectOp, evaluateSelect>(c);
  attachEvaluation<ConvertOp, evaluateConvert>(c);
  attachEvaluation<DropoutOp, evaluateDropout>(c);
  attachEvaluation<StopGradientOp, evaluateStopGradient>(c);
}

} // namespace lockstep
