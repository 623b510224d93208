//===- DerivativeRules.h - The forms in which derivatives are written -*- C++
//-*-===//
//
// Each operation has one rule, a struct in one of the Derivatives*.cpp files,
// and one of five forms says all that a rule has to say:
//
//   UnaryRule      y = f(x) elementwise:     gradient(x, y, dy)
//   BinaryRule     z = f(x, y) elementwise:  left(x, y, z, dz) and right(x, y,
//   z, dz) GradientRule   anything else:            build(op, g), with
//   g.cotangent(), g.needs(i), g.set(i, gradient) ZeroRule       no gradient
//   flows: integers, comparisons, step functions DecomposedRule the derivative
//   of its decomposition (gradients that occur in a forward pass)
//
// A rule prefers results of the forward operation to operands where that needs
// no other value to be kept (`y` in dy * y). Cotangents are those of result 0;
// a rule is not called without it, except a GradientRule's decomposition when a
// saved result (a norm's mean, attention's lse) is used by itself.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_DERIVATIVERULES_H
#define LOCKSTEP_COMPILER_AUTODIFF_DERIVATIVERULES_H

#include "compiler/autodiff/Expression.h"
#include "compiler/autodiff/ReverseMode.h"
#include "dialects/train/DecompositionUtils.h"

namespace lockstep::autodiff {

template <typename Rule, typename OpT>
using RuleModel = train::DifferentiableOpInterface::ExternalModel<Rule, OpT>;
using Gradients = llvm::SmallVector<mlir::Value>;

/// Attaches rules to the operations that they name.
template <typename... Rules> void attachRules(mlir::MLIRContext *context) {
  (Rules::Operation::template attachInterface<Rules>(*context), ...);
}

// The files of rules, in the order of the dialect's files.
void attachPointwiseRules(mlir::MLIRContext *context);
void attachDataRules(mlir::MLIRContext *context);
void attachIndexingRules(mlir::MLIRContext *context);
void attachContractionRules(mlir::MLIRContext *context);
void attachModelRules(mlir::MLIRContext *context);

template <typename Rule, typename OpT> struct UnaryRule : RuleModel<Rule, OpT> {
  using Operation = OpT;
  Gradients buildGradients(mlir::Operation *op, mlir::OpBuilder &builder,
                           mlir::ValueRange cotangents,
                           llvm::ArrayRef<bool> needed) const {
    if (!cotangents[0] || !needed[0])
      return {mlir::Value()};
    train::TensorBuilder b(builder, op->getLoc());
    return {Rule::gradient(Expression(b, op->getOperand(0)),
                           Expression(b, op->getResult(0)),
                           Expression(b, cotangents[0]))};
  }
};

template <typename Rule, typename OpT>
struct BinaryRule : RuleModel<Rule, OpT> {
  using Operation = OpT;
  Gradients buildGradients(mlir::Operation *op, mlir::OpBuilder &builder,
                           mlir::ValueRange cotangents,
                           llvm::ArrayRef<bool> needed) const {
    Gradients gradients(2);
    if (!cotangents[0])
      return gradients;
    train::TensorBuilder b(builder, op->getLoc());
    Expression x(b, op->getOperand(0)), y(b, op->getOperand(1)),
        z(b, op->getResult(0)), dz(b, cotangents[0]);
    if (needed[0])
      gradients[0] = Rule::left(x, y, z, dz);
    if (needed[1])
      gradients[1] = Rule::right(x, y, z, dz);
    return gradients;
  }
};

/// What the rule of an operation with operands of several kinds reads and
/// fills.
class GradientBuilder : public train::TensorBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Value cotangent, llvm::ArrayRef<bool> needed)
      : TensorBuilder(builder, loc), dresult(cotangent), needed(needed),
        gradients(needed.size()) {}

  /// The cotangent of result 0.
  mlir::Value cotangent() const { return dresult; }
  Expression expression(mlir::Value value) { return Expression(*this, value); }
  bool needs(unsigned operand) const { return needed[operand]; }
  void set(unsigned operand, mlir::Value gradient) {
    if (needed[operand])
      gradients[operand] = gradient;
  }
  Gradients take() { return std::move(gradients); }

private:
  mlir::Value dresult;
  llvm::ArrayRef<bool> needed;
  Gradients gradients;
};

template <typename Rule, typename OpT>
struct GradientRule : RuleModel<Rule, OpT> {
  using Operation = OpT;
  /// Rules hide this where some needed gradients come from the decomposition
  /// alone.
  static bool mustDecompose(OpT op, llvm::ArrayRef<bool> needed) {
    return false;
  }

  Gradients buildGradients(mlir::Operation *op, mlir::OpBuilder &builder,
                           mlir::ValueRange cotangents,
                           llvm::ArrayRef<bool> needed) const {
    bool savedResultUsed = llvm::any_of(cotangents.drop_front(),
                                        [](mlir::Value v) { return bool(v); });
    if (savedResultUsed || Rule::mustDecompose(llvm::cast<OpT>(op), needed))
      return buildGradientsOfDecomposition(op, builder, cotangents, needed);
    if (!cotangents[0])
      return Gradients(needed.size());
    GradientBuilder g(builder, op->getLoc(), cotangents[0], needed);
    Rule::build(llvm::cast<OpT>(op), g);
    return g.take();
  }
};

template <typename OpT> struct ZeroRule : RuleModel<ZeroRule<OpT>, OpT> {
  using Operation = OpT;
  Gradients buildGradients(mlir::Operation *, mlir::OpBuilder &,
                           mlir::ValueRange,
                           llvm::ArrayRef<bool> needed) const {
    return Gradients(needed.size());
  }
};

template <typename OpT>
struct DecomposedRule : RuleModel<DecomposedRule<OpT>, OpT> {
  using Operation = OpT;
  Gradients buildGradients(mlir::Operation *op, mlir::OpBuilder &builder,
                           mlir::ValueRange cotangents,
                           llvm::ArrayRef<bool> needed) const {
    return buildGradientsOfDecomposition(op, builder, cotangents, needed);
  }
};

} // namespace lockstep::autodiff

#endif
