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

// gelu(x) = x/2 (1 + tanh(x (c + d x^2))), c = sqrt(2/pi), d = 0.044715 c
static constexpr double geluLinear = 0.7978845608028654;
static constexpr double geluCubic = 0.044715 * geluLinear;

static Value emitGeluTanh(KernelBuilder &b, Value x, Value square) {
  Value slope =
      b.fusedF32(square, b.constantF32(geluCubic), b.constantF32(geluLinear));
  return b.tanhF32(b.multiplyF32(x, slope));
}

/// x/2 (1 + t)
static Value emitHalfSum(KernelBuilder &b, Value x, Value t) {
  Value half = b.multiplyF32(x, b.constantF32(0.5));
  return b.fusedF32(half, t, half);
}

/// 1 / (1 + exp(-x)) = (1 + tanh(x/2)) / 2
static Value emitSigmoid(KernelBuilder &b, Value x) {
  Value half = b.constantF32(0.5);
  return b.fusedF32(b.tanhF32(b.multiplyF32(x, half)), half, half);
}

static Value emitCompareZero(KernelBuilder &b, arith::CmpFPredicate predicate,
                             Value x) {
  return arith::CmpFOp::create(b, predicate, x, b.constantF32(0));
}

Value gemm::emitActivation(KernelBuilder &b, Activation kind, Value x) {
  switch (kind) {
  case Activation::None:
    return x;
  case Activation::Gelu:
    return emitHalfSum(b, x, emitGeluTanh(b, x, b.multiplyF32(x, x)));
  case Activation::Relu:
    // Not max: a NaN stays one.
    return b.select(emitCompareZero(b, arith::CmpFPredicate::OLE, x),
                    b.constantF32(0), x);
  case Activation::Silu:
    return b.multiplyF32(x, emitSigmoid(b, x));
  }
  llvm_unreachable("all activations are handled");
}

Value gemm::emitActivationGradient(KernelBuilder &b, Activation kind, Value x) {
  Value one = b.constantF32(1);
  switch (kind) {
  case Activation::None:
    return one;
  case Activation::Gelu: {
    // (1 + t)/2 + x/2 (1 - t^2) (c + 3 d x^2)
    Value square = b.multiplyF32(x, x);
    Value t = emitGeluTanh(b, x, square);
    Value half = b.constantF32(0.5);
    Value halfSlope = b.fusedF32(square, b.constantF32(1.5 * geluCubic),
                                 b.constantF32(0.5 * geluLinear));
    Value rest = b.fusedF32(b.negateF32(t), t, one);
    return b.fusedF32(b.multiplyF32(x, halfSlope), rest,
                      b.fusedF32(t, half, half));
  }
  case Activation::Relu:
    return b.select(emitCompareZero(b, arith::CmpFPredicate::OGT, x), one,
                    b.constantF32(0));
  case Activation::Silu: {
    // s (1 + (x - x s))
    Value s = emitSigmoid(b, x);
    Value rest = b.fusedF32(b.negateF32(x), s, x);
    return b.fusedF32(s, rest, s);
  }
  }
  llvm_unreachable("all activations are handled");
}
