//===- Math.h - Elementary functions as plain arithmetic -------*- C++ -*-===//
//
// The functions of `train` as branch-free scalar arith and math operations, so
// that a loop that calls them vectorises and needs no mathematical library on
// any target (NVIDIA's is absent without CUDA, and x86 code would call one
// element at a time). Arguments are f32 or f64 scalars; results have the
// argument's type. Errors: at most about 2 units in the last place for f32 and
// 1e-14 relative for f64, checked by test/emit/math_test.cpp, with these
// limits:
//   sine, cosine, tan  |x| < 2^50 (f32), |x| < 2^30 (f64); beyond, the result
//   is bounded but not precise power in f64       relative error about 1e-16 *
//   (1 + |y ln x|) remainder          |x / y| < 2^23 (f32), 2^52 (f64); beyond,
//   not precise
// Infinities, NaN and subnormal numbers follow C's library. Only operations
// that MathToLLVM lowers to instructions are used.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_MATH_MATH_H
#define LOCKSTEP_COMPILER_EMIT_MATH_MATH_H

#include "compiler/emit/math/ScalarBuilder.h"

namespace lockstep::emit {

mlir::Value emitExp(ScalarBuilder &b, mlir::Value x);
mlir::Value emitExpMinusOne(ScalarBuilder &b, mlir::Value x);
mlir::Value emitLog(ScalarBuilder &b, mlir::Value x);
mlir::Value emitLogPlusOne(ScalarBuilder &b, mlir::Value x);
mlir::Value emitTanh(ScalarBuilder &b, mlir::Value x);
/// 1 / (1 + e^-x)
mlir::Value emitLogistic(ScalarBuilder &b, mlir::Value x);
mlir::Value emitErf(ScalarBuilder &b, mlir::Value x);
mlir::Value emitSine(ScalarBuilder &b, mlir::Value x);
mlir::Value emitCosine(ScalarBuilder &b, mlir::Value x);
mlir::Value emitTan(ScalarBuilder &b, mlir::Value x);
mlir::Value emitAtan(ScalarBuilder &b, mlir::Value x);
mlir::Value emitAtan2(ScalarBuilder &b, mlir::Value y, mlir::Value x);
mlir::Value emitPower(ScalarBuilder &b, mlir::Value x, mlir::Value y);
/// x ^ n for a constant integer n, by repeated multiplication.
mlir::Value emitIntegerPower(ScalarBuilder &b, mlir::Value x, int64_t n);
/// x - y * trunc(x / y)
mlir::Value emitRemainder(ScalarBuilder &b, mlir::Value x, mlir::Value y);

} // namespace lockstep::emit

#endif
