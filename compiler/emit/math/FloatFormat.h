//===- FloatFormat.h - Tricks with the bits of a number --------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_MATH_FLOATFORMAT_H
#define LOCKSTEP_COMPILER_EMIT_MATH_FLOATFORMAT_H

#include "compiler/emit/math/ScalarBuilder.h"

namespace lockstep::emit {

/// What the functions need to know of f32 or f64.
struct FloatFormat {
  explicit FloatFormat(mlir::Type type) : isDouble(type.isF64()) {}
  bool isDouble;
  int mantissaBits() const { return isDouble ? 52 : 23; }
  int bias() const { return isDouble ? 1023 : 127; }
  /// 1.5 * 2^mantissaBits: adding it rounds to an integer, which its low bits
  /// then hold.
  double magic() const { return isDouble ? 6755399441055744.0 : 12582912.0; }
  int64_t magicBits() const {
    return isDouble ? 0x4338000000000000 : 0x4B400000;
  }
  double smallestNormal() const { return isDouble ? 0x1p-1022 : 0x1p-126; }
};

/// The nearest integer to x * factor, as a number and as an integer of x's
/// width.
struct Rounded {
  mlir::Value number, integer;
};
inline Rounded roundProduct(ScalarBuilder &b, mlir::Value x, double factor) {
  FloatFormat format(x.getType());
  mlir::Value magic = b.constant(x.getType(), format.magic());
  mlir::Value shifted = b.fma(x, b.constant(x.getType(), factor), magic);
  return {b.sub(shifted, magic),
          b.subInt(b.bits(shifted),
                   b.integer(b.bitsType(x.getType()), format.magicBits()))};
}

/// 2^n for an integer n whose result is a normal number.
inline mlir::Value powerOfTwo(ScalarBuilder &b, mlir::Value n,
                              mlir::Type type) {
  FloatFormat format(type);
  mlir::Value biased = b.addInt(n, b.integer(n.getType(), format.bias()));
  return b.fromBits(b.shiftLeft(biased, format.mantissaBits()), type);
}

} // namespace lockstep::emit

#endif
