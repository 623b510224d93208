//===- RulesStep.cpp - Factor rules of loss, update, accumulation ---------===//
#include "compiler/partition/RuleBuilder.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;
using namespace lockstep::train;

/// [position..., class at `dimension`]
static void lossDims(RuleBuilder &r, int64_t dimension, FactorKind rowKind,
                     SmallVector<int> &rows, SmallVector<int> &all) {
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0))) {
    bool isClass = static_cast<int64_t>(dim) == dimension;
    all.push_back(r.factor(size, isClass ? FactorKind::Decompose : rowKind));
    if (!isClass)
      rows.push_back(all.back());
  }
}

static ShardingRule crossEntropyRule(CrossEntropyOp op) {
  RuleBuilder r(op);
  SmallVector<int> rows, all;
  lossDims(r, op.getDimension(), FactorKind::Reduction, rows, all);
  return r.operand(0, all).operand(1, rows).result(1, rows).take();
}

static ShardingRule crossEntropyGradientRule(CrossEntropyGradientOp op) {
  RuleBuilder r(op);
  SmallVector<int> rows, all;
  lossDims(r, op.getDimension(), FactorKind::Parallel, rows, all);
  return r.operand(0, all)
      .operand(1, rows)
      .operand(2, rows)
      .result(0, all)
      .take();
}

static ShardingRule labelCountRule(LabelCountOp op) {
  RuleBuilder r(op);
  return r.operand(0, r.factors(r.operandShape(0), FactorKind::Reduction))
      .take();
}

static ShardingRule globalNormRule(GlobalNormOp op) {
  RuleBuilder r(op);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    r.operand(i, r.factors(r.operandShape(i), FactorKind::Decompose));
  return r.take();
}

/// Elementwise in the parameter; its scalars are whole.
template <typename OpT> static ShardingRule updateRule(OpT op) {
  RuleBuilder r(op);
  SmallVector<int> dims = r.factors(r.operandShape(0));
  for (auto [number, type] : llvm::enumerate(op->getOperandTypes()))
    if (type == op->getOperandTypes()[0] ||
        cast<RankedTensorType>(type).getShape() == r.operandShape(0))
      r.operand(number, dims);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    r.result(i, dims);
  return r.take();
}

/// Its body is propagated through by itself; from outside it divides nothing.
static ShardingRule accumulateRule(AccumulateOp op) {
  return RuleBuilder(op).take();
}

void partition::attachStepRules(MLIRContext *context) {
  attachRule<CrossEntropyOp, crossEntropyRule>(context);
  attachRule<CrossEntropyGradientOp, crossEntropyGradientRule>(context);
  attachRule<LabelCountOp, labelCountRule>(context);
  attachRule<GlobalNormOp, globalNormRule>(context);
  attachRule<SgdOp, updateRule<SgdOp>>(context);
  attachRule<AdamOp, updateRule<AdamOp>>(context);
  attachRule<AccumulateOp, accumulateRule>(context);
}
