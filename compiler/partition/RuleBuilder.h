//===- RuleBuilder.h - How factor rules are written -------------*- C++ -*-===//
//
// A rule names the operation's factors and says in which dimensions of which
// tensors each appears, as one writes an einsum:
//
//   RuleBuilder r(op);
//   int row = r.factor(n), sum = r.factor(k, FactorKind::Reduction);
//   r.operand(0, {row, sum}).operand(1, {sum}).result(0, {row});
//
// A dimension of size 1 has no factor: factor() gives kNone for it, and kNone
// is left out wherever it stands.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_PARTITION_RULEBUILDER_H
#define LOCKSTEP_COMPILER_PARTITION_RULEBUILDER_H

#include "dialects/train/Train.h"

namespace lockstep::partition {

using train::FactorKind;
using train::ReduceKind;
using train::ShardingRule;

class RuleBuilder {
public:
  static constexpr int kNone = -1;

  explicit RuleBuilder(mlir::Operation *op) : op(op) {
    for (mlir::Type type : op->getOperandTypes())
      rule.operands.emplace_back(getRank(type));
    for (mlir::Type type : op->getResultTypes())
      rule.results.emplace_back(getRank(type));
  }

  int factor(int64_t size, FactorKind kind = FactorKind::Parallel,
             ReduceKind reduction = ReduceKind::Sum) {
    if (size == 1)
      return kNone;
    rule.factors.push_back({size, kind, reduction});
    return rule.factors.size() - 1;
  }
  /// One factor per size, all of one kind.
  llvm::SmallVector<int> factors(llvm::ArrayRef<int64_t> sizes,
                                 FactorKind kind = FactorKind::Parallel) {
    return llvm::map_to_vector(
        sizes, [&](int64_t size) { return factor(size, kind); });
  }

  /// One factor per dimension. Operands that are absent are given as a negative
  /// number, and left out.
  RuleBuilder &operand(int number, llvm::ArrayRef<int> perDim) {
    return set(rule.operands, number, perDim);
  }
  RuleBuilder &result(int number, llvm::ArrayRef<int> perDim) {
    return set(rule.results, number, perDim);
  }

  /// Appends a factor to one dimension, after those that are there (major
  /// first).
  RuleBuilder &addToOperand(int number, int64_t dim, int factor) {
    return add(rule.operands, number, dim, factor);
  }
  RuleBuilder &addToResult(int number, int64_t dim, int factor) {
    return add(rule.results, number, dim, factor);
  }

  llvm::ArrayRef<int64_t> operandShape(int number) {
    return llvm::cast<mlir::RankedTensorType>(op->getOperand(number).getType())
        .getShape();
  }
  llvm::ArrayRef<int64_t> resultShape(int number) {
    return llvm::cast<mlir::RankedTensorType>(op->getResult(number).getType())
        .getShape();
  }
  ShardingRule take() { return std::move(rule); }

private:
  using Lists = llvm::SmallVector<llvm::SmallVector<llvm::SmallVector<int>>>;
  static int64_t getRank(mlir::Type type) {
    return llvm::cast<mlir::RankedTensorType>(type).getRank();
  }
  RuleBuilder &add(Lists &lists, int number, int64_t dim, int factor) {
    if (number >= 0 && factor != kNone)
      lists[number][dim].push_back(factor);
    return *this;
  }
  RuleBuilder &set(Lists &lists, int number, llvm::ArrayRef<int> perDim) {
    for (auto [dim, factor] : llvm::enumerate(perDim))
      add(lists, number, dim, factor);
    return *this;
  }

  mlir::Operation *op;
  ShardingRule rule;
};

/// The operand number of an operation's `index`-th named operand, or -1 where
/// it is absent.
template <typename OpT> int operandNumber(OpT op, unsigned index) {
  auto [begin, length] = op.getODSOperandIndexAndLength(index);
  return length == 0 ? -1 : static_cast<int>(begin);
}

/// Attaches `rule` to OpT.
template <typename OpT, ShardingRule (*rule)(OpT)>
struct RuleModel
    : train::PartitionableOpInterface::ExternalModel<RuleModel<OpT, rule>,
                                                     OpT> {
  ShardingRule getShardingRule(mlir::Operation *op) const {
    return rule(llvm::cast<OpT>(op));
  }
};
template <typename OpT, ShardingRule (*rule)(OpT)>
void attachRule(mlir::MLIRContext *context) {
  OpT::template attachInterface<RuleModel<OpT, rule>>(*context);
}

/// The files of rules, in the order of the dialect's files.
void attachPointwiseRules(mlir::MLIRContext *context);
void attachDataRules(mlir::MLIRContext *context);
void attachIndexingRules(mlir::MLIRContext *context);
void attachContractionRules(mlir::MLIRContext *context);
void attachModelRules(mlir::MLIRContext *context);
void attachStepRules(mlir::MLIRContext *context);

} // namespace lockstep::partition

#endif
