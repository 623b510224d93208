//===- ScalarBuilder.h - Short names for scalar arithmetic -----*- C++ -*-===//
//
// Scalar arith and math operations at one insertion point. Every floating-point
// operation may be contracted (a * b + c rounded once); nothing may be
// reassociated, and infinities and NaN keep their meaning.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_MATH_SCALARBUILDER_H
#define LOCKSTEP_COMPILER_EMIT_MATH_SCALARBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

namespace lockstep::emit {

/// What a target does in one instruction beyond plain arithmetic.
struct Hardware {
  /// 2^x and x / y of f32 to 2 units in the last place, where math.exp2 and
  /// approximate division ask for them.
  bool approximatesF32 = false;
  /// Every quotient and root of f32 may be such an approximation: exact ones
  /// branch, and a kernel that branches for each element has no wide stores.
  bool prefersApproximations = false;
  /// Rounding from f32 to bf16.
  bool roundsToBF16 = false;
  /// LLVM's name of the f32 function 2^x that may give 0 instead of a subnormal
  /// number; empty where there is none.
  const char *flushingExp2 = "";
};

class ScalarBuilder {
public:
  using Value = mlir::Value;
  using FPredicate = mlir::arith::CmpFPredicate;
  using IPredicate = mlir::arith::CmpIPredicate;

  ScalarBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                Hardware hardware = {})
      : builder(builder), loc(loc), hardware(hardware) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;
  Hardware hardware;

  /// Whether the approximations of `hardware` are there for the type.
  bool approximates(mlir::Type type) const {
    return hardware.approximatesF32 && type.isF32();
  }

  template <typename OpTy, typename... Args> Value create(Args &&...args) {
    return OpTy::create(builder, loc, std::forward<Args>(args)...);
  }

  // Constants take the type of `like`.
  Value constant(mlir::Type type, double value) {
    return create<mlir::arith::ConstantOp>(mlir::FloatAttr::get(type, value));
  }
  Value integer(mlir::Type type, int64_t value) {
    return create<mlir::arith::ConstantOp>(mlir::IntegerAttr::get(
        type, llvm::APInt(type.getIntOrFloatBitWidth(), uint64_t(value), false,
                          true)));
  }
  Value i64(int64_t value) { return integer(builder.getI64Type(), value); }

  Value add(Value a, Value b) { return flop<mlir::arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return flop<mlir::arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return flop<mlir::arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return flop<mlir::arith::DivFOp>(a, b); }
  Value add(Value a, double b) { return add(a, constant(a.getType(), b)); }
  Value mul(Value a, double b) { return mul(a, constant(a.getType(), b)); }
  /// For where `approximates` says so: quotient of moderate numbers, root, 2^a.
  Value approximateDiv(Value a, Value b) {
    return create<mlir::arith::DivFOp>(a, b, mlir::arith::FastMathFlags::afn);
  }
  Value approximateSqrt(Value a) {
    return create<mlir::math::SqrtOp>(a, mlir::arith::FastMathFlags::afn);
  }
  /// A quotient or root of which nobody says that it may be approximate.
  Value quotient(Value a, Value b) {
    return prefersApproximation(a.getType()) ? approximateDiv(a, b) : div(a, b);
  }
  Value root(Value a) {
    return prefersApproximation(a.getType()) ? approximateSqrt(a) : sqrt(a);
  }
  Value exp2(Value a) {
    return create<mlir::math::Exp2Op>(a, mlir::arith::FastMathFlags::afn);
  }
  Value neg(Value a) { return create<mlir::arith::NegFOp>(a); }
  Value fma(Value a, Value b, Value c) {
    return create<mlir::math::FmaOp>(a, b, c);
  }
  Value fma(Value a, double b, Value c) {
    return fma(a, constant(a.getType(), b), c);
  }
  Value abs(Value a) { return create<mlir::math::AbsFOp>(a); }
  Value sqrt(Value a) { return create<mlir::math::SqrtOp>(a); }
  Value trunc(Value a) { return create<mlir::math::TruncOp>(a); }
  Value floor(Value a) { return create<mlir::math::FloorOp>(a); }
  Value copySign(Value magnitude, Value sign) {
    return create<mlir::math::CopySignOp>(magnitude, sign);
  }
  Value select(Value condition, Value a, Value b) {
    return create<mlir::arith::SelectOp>(condition, a, b);
  }
  Value compare(FPredicate predicate, Value a, Value b) {
    return create<mlir::arith::CmpFOp>(predicate, a, b);
  }
  Value compare(FPredicate predicate, Value a, double b) {
    return compare(predicate, a, constant(a.getType(), b));
  }
  Value compare(IPredicate predicate, Value a, Value b) {
    return create<mlir::arith::CmpIOp>(predicate, a, b);
  }
  Value isNaN(Value a) { return compare(FPredicate::UNO, a, a); }
  Value both(Value a, Value b) { return create<mlir::arith::AndIOp>(a, b); }
  Value either(Value a, Value b) { return create<mlir::arith::OrIOp>(a, b); }

  Value addInt(Value a, Value b) { return create<mlir::arith::AddIOp>(a, b); }
  Value subInt(Value a, Value b) { return create<mlir::arith::SubIOp>(a, b); }
  Value shiftLeft(Value a, int64_t n) {
    return create<mlir::arith::ShLIOp>(a, integer(a.getType(), n));
  }
  Value shiftRight(Value a, int64_t n) {
    return create<mlir::arith::ShRSIOp>(a, integer(a.getType(), n));
  }

  /// c[0] + c[1] x + c[2] x^2 + ...
  Value polynomial(Value x, llvm::ArrayRef<double> c) {
    Value result = constant(x.getType(), c.back());
    for (double coefficient : llvm::reverse(c.drop_back()))
      result = fma(result, x, constant(x.getType(), coefficient));
    return result;
  }

  // A floating-point number's bits as an integer of its width, and back.
  mlir::Type bitsType(mlir::Type type) {
    return builder.getIntegerType(type.getIntOrFloatBitWidth());
  }
  Value bits(Value a) {
    return create<mlir::arith::BitcastOp>(bitsType(a.getType()), a);
  }
  Value fromBits(Value a, mlir::Type type) {
    return create<mlir::arith::BitcastOp>(type, a);
  }

private:
  bool prefersApproximation(mlir::Type type) const {
    return hardware.prefersApproximations && approximates(type);
  }
  template <typename OpTy> Value flop(Value a, Value b) {
    return create<OpTy>(a, b, mlir::arith::FastMathFlags::contract);
  }
};

} // namespace lockstep::emit

#endif
