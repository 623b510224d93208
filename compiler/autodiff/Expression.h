//===- Expression.h - Tensor formulas that read as such ---------*- C++ -*-===//
//
// An Expression is a tensor value with arithmetic operators, so that a
// derivative reads as on paper: dy * (1 - y * y). A number stands for a
// constant of the other side's type.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_EXPRESSION_H
#define LOCKSTEP_COMPILER_AUTODIFF_EXPRESSION_H

#include "dialects/train/DecompositionUtils.h"

namespace lockstep::autodiff {

class Expression {
public:
  Expression(train::TensorBuilder &builder, mlir::Value value)
      : builder(&builder), value(value) {}

  operator mlir::Value() const { return value; }
  mlir::Value getValue() const { return value; }
  train::TensorBuilder &getBuilder() const { return *builder; }
  Expression with(mlir::Value other) const {
    return Expression(*builder, other);
  }
  /// A constant of this expression's type.
  Expression constant(double number) const {
    return with(builder->constantLike(value, number));
  }

private:
  train::TensorBuilder *builder;
  mlir::Value value;
};

inline Expression operator+(Expression a, Expression b) {
  return a.with(a.getBuilder().add(a, b));
}
inline Expression operator-(Expression a, Expression b) {
  return a.with(a.getBuilder().subtract(a, b));
}
inline Expression operator*(Expression a, Expression b) {
  return a.with(a.getBuilder().multiply(a, b));
}
inline Expression operator/(Expression a, Expression b) {
  return a.with(a.getBuilder().divide(a, b));
}
inline Expression operator-(Expression a) {
  return a.with(a.getBuilder().negate(a));
}
inline Expression operator+(Expression a, double b) {
  return a + a.constant(b);
}
inline Expression operator-(Expression a, double b) {
  return a - a.constant(b);
}
inline Expression operator-(double a, Expression b) {
  return b.constant(a) - b;
}
inline Expression operator*(Expression a, double b) {
  return a * a.constant(b);
}
inline Expression operator*(double a, Expression b) {
  return b * b.constant(a);
}
inline Expression operator/(double a, Expression b) {
  return b.constant(a) / b;
}

inline Expression compare(train::CompareDirection direction, Expression a,
                          Expression b) {
  return a.with(a.getBuilder().compare(direction, a, b));
}
inline Expression operator==(Expression a, Expression b) {
  return compare(train::CompareDirection::EQ, a, b);
}
inline Expression operator<(Expression a, Expression b) {
  return compare(train::CompareDirection::LT, a, b);
}
inline Expression operator>(Expression a, Expression b) {
  return compare(train::CompareDirection::GT, a, b);
}
inline Expression operator>=(Expression a, Expression b) {
  return compare(train::CompareDirection::GE, a, b);
}
inline Expression operator==(Expression a, double b) {
  return a == a.constant(b);
}
inline Expression operator>=(Expression a, double b) {
  return a >= a.constant(b);
}
inline Expression operator&&(Expression a, Expression b) {
  return a.with(a.getBuilder().logicalAnd(a, b));
}

/// `a` where `condition` holds, else `b`.
inline Expression select(Expression condition, Expression a, Expression b) {
  return a.with(a.getBuilder().select(condition, a, b));
}
inline Expression select(Expression condition, Expression a, double b) {
  return select(condition, a, a.constant(b));
}
inline Expression select(Expression condition, double a, Expression b) {
  return select(condition, b.constant(a), b);
}

/// An elementwise operation of one operand.
template <typename OpT> Expression apply(Expression a) {
  train::TensorBuilder &b = a.getBuilder();
  return a.with(OpT::create(b.getBuilder(), b.getLoc(), a.getValue().getType(),
                            a.getValue()));
}
inline Expression exp(Expression a) { return apply<train::ExponentialOp>(a); }
inline Expression log(Expression a) { return apply<train::LogOp>(a); }
inline Expression sin(Expression a) { return apply<train::SineOp>(a); }
inline Expression cos(Expression a) { return apply<train::CosineOp>(a); }
inline Expression sign(Expression a) { return apply<train::SignOp>(a); }
inline Expression floor(Expression a) { return apply<train::FloorOp>(a); }
inline Expression truncate(Expression a) { return apply<train::TruncateOp>(a); }
inline Expression power(Expression a, Expression b) {
  train::TensorBuilder &builder = a.getBuilder();
  return a.with(train::PowerOp::create(builder.getBuilder(), builder.getLoc(),
                                       a.getValue().getType(), a.getValue(),
                                       b.getValue()));
}

} // namespace lockstep::autodiff

#endif
