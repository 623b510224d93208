//===- RulesData.cpp - Factor rules of data movement ----------------------===//
#include "compiler/partition/RuleBuilder.h"
#include <numeric>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;
using namespace lockstep::train;

/// Every dimension its own factor; an iota's offset is given by localization.
template <typename OpT> static ShardingRule generatorRule(OpT op) {
  RuleBuilder r(op);
  return r.result(0, r.factors(r.resultShape(0))).take();
}

static ShardingRule broadcastRule(BroadcastInDimOp op) {
  RuleBuilder r(op);
  SmallVector<int> dims = r.factors(r.resultShape(0));
  for (auto [from, to] : llvm::enumerate(op.getDimensions()))
    if (r.operandShape(0)[from] == r.resultShape(0)[to])
      r.addToOperand(0, from, dims[to]);
  return r.result(0, dims).take();
}

/// Both shapes are cut into common factors, major first: [B*T] -> [B, T] has B
/// and T. Where the sizes share no factor ([6] -> [2,3] has, [3, 2] -> [2, 3]
/// has not) the dimensions up to the next common boundary must stay whole.
static ShardingRule reshapeRule(ReshapeOp op) {
  RuleBuilder r(op);
  ArrayRef<int64_t> from = r.operandShape(0), to = r.resultShape(0);
  size_t i = 0, j = 0;
  // What is left of dimensions i and j, and elements of each side that are
  // already accounted for.
  int64_t restFrom = 1, restTo = 1;
  auto next = [](ArrayRef<int64_t> shape, size_t &k, int64_t &rest) {
    while (k < shape.size() && shape[k] == 1)
      ++k;
    rest = k < shape.size() ? shape[k] : 1;
  };
  next(from, i, restFrom);
  next(to, j, restTo);
  while (i < from.size() && j < to.size()) {
    int64_t common = std::gcd(restFrom, restTo);
    if (common == 1) {
      // No shared factor: whole until the sides meet again.
      int64_t doneFrom = restFrom, doneTo = restTo;
      r.addToOperand(0, i, r.factor(restFrom, FactorKind::Replicate));
      r.addToResult(0, j, r.factor(restTo, FactorKind::Replicate));
      while (doneFrom != doneTo) {
        bool advanceFrom = doneFrom < doneTo;
        size_t &k = advanceFrom ? i : j;
        ArrayRef<int64_t> shape = advanceFrom ? from : to;
        if (++k == shape.size())
          return r.take();
        (advanceFrom ? doneFrom : doneTo) *= shape[k];
        int whole = r.factor(shape[k], FactorKind::Replicate);
        advanceFrom ? r.addToOperand(0, k, whole) : r.addToResult(0, k, whole);
      }
      restFrom = restTo = 1;
    } else {
      int shared = r.factor(common);
      r.addToOperand(0, i, shared).addToResult(0, j, shared);
      restFrom /= common;
      restTo /= common;
    }
    if (restFrom == 1)
      next(from, ++i, restFrom);
    if (restTo == 1)
      next(to, ++j, restTo);
  }
  return r.take();
}

static ShardingRule transposeRule(TransposeOp op) {
  RuleBuilder r(op);
  SmallVector<int> dims = r.factors(r.operandShape(0));
  r.operand(0, dims);
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    r.addToResult(0, to, dims[from]);
  return r.take();
}

/// A dimension that passes unchanged is divided freely, another must be whole.
static void addPassing(RuleBuilder &r, int64_t dim, bool passes) {
  if (passes) {
    int f = r.factor(r.operandShape(0)[dim]);
    r.addToOperand(0, dim, f).addToResult(0, dim, f);
  } else {
    r.addToOperand(0, dim,
                   r.factor(r.operandShape(0)[dim], FactorKind::Replicate));
    r.addToResult(0, dim,
                  r.factor(r.resultShape(0)[dim], FactorKind::Replicate));
  }
}

static ShardingRule sliceRule(SliceOp op) {
  RuleBuilder r(op);
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0)))
    addPassing(r, dim,
               op.getStarts()[dim] == 0 && op.getLimits()[dim] == size &&
                   op.getStrides()[dim] == 1);
  return r.take();
}

static ShardingRule padRule(PadOp op) {
  RuleBuilder r(op);
  for (int64_t dim = 0, rank = r.operandShape(0).size(); dim < rank; ++dim)
    addPassing(r, dim,
               op.getLow()[dim] == 0 && op.getHigh()[dim] == 0 &&
                   op.getInterior()[dim] == 0);
  return r.take();
}

static ShardingRule concatenateRule(ConcatenateOp op) {
  RuleBuilder r(op);
  for (auto [dim, size] : llvm::enumerate(r.resultShape(0))) {
    bool joined =
        static_cast<int64_t>(dim) == static_cast<int64_t>(op.getDimension());
    int shared = joined ? RuleBuilder::kNone : r.factor(size);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      r.addToOperand(
          i, dim,
          joined ? r.factor(r.operandShape(i)[dim], FactorKind::Replicate)
                 : shared);
    r.addToResult(0, dim,
                  joined ? r.factor(size, FactorKind::Replicate) : shared);
  }
  return r.take();
}

/// All dimensions are shared by operand 0 and every result; those in `whole`
/// must stay whole.
static ShardingRule alongRule(Operation *op, ArrayRef<int64_t> whole) {
  RuleBuilder r(op);
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0))) {
    bool isWhole = llvm::is_contained(whole, static_cast<int64_t>(dim));
    int f =
        r.factor(size, isWhole ? FactorKind::Replicate : FactorKind::Parallel);
    r.addToOperand(0, dim, f);
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      r.addToResult(i, dim, f);
  }
  return r.take();
}

static ShardingRule reverseRule(ReverseOp op) {
  return alongRule(op, op.getDimensions());
}
static ShardingRule sortRule(SortOp op) {
  return alongRule(op, {static_cast<int64_t>(op.getDimension())});
}
static ShardingRule cumulativeRule(CumulativeOp op) {
  return alongRule(op, {static_cast<int64_t>(op.getDimension())});
}

void partition::attachDataRules(MLIRContext *context) {
  attachRule<ConstantOp, generatorRule<ConstantOp>>(context);
  attachRule<IotaOp, generatorRule<IotaOp>>(context);
  attachRule<BroadcastInDimOp, broadcastRule>(context);
  attachRule<ReshapeOp, reshapeRule>(context);
  attachRule<TransposeOp, transposeRule>(context);
  attachRule<SliceOp, sliceRule>(context);
  attachRule<PadOp, padRule>(context);
  attachRule<ConcatenateOp, concatenateRule>(context);
  attachRule<ReverseOp, reverseRule>(context);
  attachRule<SortOp, sortRule>(context);
  attachRule<CumulativeOp, cumulativeRule>(context);
}
