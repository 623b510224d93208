//===- Activation.cpp - Activations in an epilogue ------------------------===//
//
// tanh is the hardware's approximation, whose error of 2^-11 is below that of
// the bf16 result.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/gemm/Activation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

namespace {
/// Values that take the same steps, with the arithmetic to write them down.
class Batch {
public:
  Batch(KernelBuilder &b, ArrayRef<Value> values)
      : b(&b), values(values.begin(), values.end()) {}

  friend Batch operator*(const Batch &x, const Batch &y) {
    return x.map([&](KernelBuilder &b, Value value, size_t i) {
      return b.multiplyF32(value, y.values[i]);
    });
  }
  friend Batch operator*(const Batch &x, double factor) {
    return x * x.fill(factor);
  }
  Batch operator-() const {
    return map([](KernelBuilder &b, Value value, size_t) {
      return b.negateF32(value);
    });
  }
  /// x y + z, rounded once.
  friend Batch fused(const Batch &x, const Batch &y, const Batch &z) {
    return x.map([&](KernelBuilder &b, Value value, size_t i) {
      return b.fusedF32(value, y.values[i], z.values[i]);
    });
  }
  friend Batch fused(const Batch &x, double factor, double addend) {
    return fused(x, x.fill(factor), x.fill(addend));
  }
  friend Batch fused(const Batch &x, const Batch &y, double addend) {
    return fused(x, y, x.fill(addend));
  }
  friend Batch tanh(const Batch &x) {
    return x.map(
        [](KernelBuilder &b, Value value, size_t) { return b.tanhF32(value); });
  }
  friend Batch minimum(const Batch &x, double bound) {
    return x.map([&](KernelBuilder &b, Value value, size_t) -> Value {
      return arith::MinNumFOp::create(b, value, b.constantF32(bound));
    });
  }
  /// y where x <= 0, else z: also where x is not a number.
  friend Batch whereNotPositive(const Batch &x, const Batch &y,
                                const Batch &z) {
    return x.map([&](KernelBuilder &b, Value value, size_t i) {
      Value holds = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, value,
                                          b.constantF32(0));
      return b.select(holds, y.values[i], z.values[i]);
    });
  }
  Batch fill(double value) const {
    return Batch(*b, SmallVector<Value>(values.size(), b->constantF32(value)));
  }
  ArrayRef<Value> get() const { return values; }

private:
  Batch
  map(llvm::function_ref<Value(KernelBuilder &, Value, size_t)> change) const {
    Batch changed(*b, {});
    for (auto [i, value] : llvm::enumerate(values))
      changed.values.push_back(change(*b, value, i));
    return changed;
  }

  KernelBuilder *b;
  SmallVector<Value> values;
};

/// gelu(x) = x/2 (1 + tanh(x (c + d x^2 + e x^4))).
struct GeluTerms {
  double c, d, e;
};
} // namespace

// The tanh form: c = sqrt(2/pi), d = 0.044715 c.
static constexpr GeluTerms tanhForm = {0.7978845608, 0.0356774081, 0};
// The erf form, x Phi(x): fitted for the least maximum error, which is 3e-5 for
// gelu and 1.1e-4 for its derivative. Past x = 5 all of it is 0 or 1, and the
// polynomial would turn.
static constexpr GeluTerms erfForm = {0.7975078811, 0.0370056486,
                                      -0.0003515169};
static constexpr double erfFormBound = 25;

static const GeluTerms &getTerms(Activation kind) {
  return kind == Activation::Gelu ? erfForm : tanhForm;
}

static Batch getSquare(Activation kind, const Batch &x) {
  Batch square = x * x;
  return kind == Activation::Gelu ? minimum(square, erfFormBound) : square;
}

/// f c + g d s + h e s^2.
static Batch evaluate(const GeluTerms &terms, const Batch &square, double f,
                      double g, double h) {
  if (terms.e == 0)
    return fused(square, g * terms.d, f * terms.c);
  return fused(fused(square, h * terms.e, g * terms.d), square, f * terms.c);
}

static Batch getGelu(Activation kind, const Batch &x) {
  Batch t = tanh(x * evaluate(getTerms(kind), getSquare(kind, x), 1, 1, 1));
  Batch half = x * 0.5;
  return fused(half, t, half);
}

/// (1 + t)/2 + x (1 - t^2) (c + 3 d x^2 + 5 e x^4)/2
static Batch getGeluGradient(Activation kind, const Batch &x) {
  const GeluTerms &terms = getTerms(kind);
  Batch square = getSquare(kind, x);
  Batch t = tanh(x * evaluate(terms, square, 1, 1, 1));
  Batch halfSlope = evaluate(terms, square, 0.5, 1.5, 2.5);
  return fused(x * halfSlope, fused(-t, t, 1), fused(t, 0.5, 0.5));
}

/// 1 / (1 + exp(-x)) = (1 + tanh(x/2)) / 2
static Batch getSigmoid(const Batch &x) {
  return fused(tanh(x * 0.5), 0.5, 0.5);
}

static Batch getActivation(Activation kind, const Batch &x) {
  switch (kind) {
  case Activation::None:
    return x;
  case Activation::Gelu:
  case Activation::GeluTanh:
    return getGelu(kind, x);
  case Activation::Relu:
    // Not a maximum: what is not a number stays so.
    return whereNotPositive(x, x.fill(0), x);
  case Activation::Silu:
    return x * getSigmoid(x);
  }
  llvm_unreachable("all activations are handled");
}

static Batch getGradient(Activation kind, const Batch &x) {
  switch (kind) {
  case Activation::None:
    return x.fill(1);
  case Activation::Gelu:
  case Activation::GeluTanh:
    return getGeluGradient(kind, x);
  case Activation::Relu:
    return whereNotPositive(x, x.fill(0), x.fill(1));
  case Activation::Silu: {
    // s (1 + (x - x s))
    Batch s = getSigmoid(x);
    return fused(s, fused(-x, s, x), s);
  }
  }
  llvm_unreachable("all activations are handled");
}

/// So many values take each step together; more would need registers that the
/// sums have.
static constexpr size_t batchSize = 8;

static SmallVector<Value>
mapBatches(KernelBuilder &b, ArrayRef<Value> xs,
           llvm::function_ref<Batch(const Batch &)> change) {
  SmallVector<Value> results;
  while (!xs.empty()) {
    size_t count = std::min(batchSize, xs.size());
    llvm::append_range(results, change(Batch(b, xs.take_front(count))).get());
    xs = xs.drop_front(count);
  }
  return results;
}

SmallVector<Value> gemm::emitActivation(KernelBuilder &b, Activation kind,
                                        ArrayRef<Value> xs) {
  return mapBatches(b, xs,
                    [&](const Batch &x) { return getActivation(kind, x); });
}

SmallVector<Value> gemm::emitActivationGradient(KernelBuilder &b,
                                                Activation kind,
                                                ArrayRef<Value> xs) {
  return mapBatches(b, xs,
                    [&](const Batch &x) { return getGradient(kind, x); });
}
