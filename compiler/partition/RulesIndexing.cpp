//===- RulesIndexing.cpp - Factor rules of gather, scatter, embedding -----===//
//
// Positions are global: a dimension that is indexed must be whole on every
// rank, whichever positions a rank holds. A scatter whose updates are divided
// gives, per rank, the combination of that rank's updates, that is a partial
// result, provided that what it scatters into is neutral; otherwise it is first
// split into a scatter into the neutral element and a combination.
//
//===----------------------------------------------------------------------===//
#include "compiler/partition/RuleBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;
using namespace lockstep::train;

/// The dimensions of [batch..., I..., other...], shared by gather's result and
/// scatter's updates.
static SmallVector<int>
addIndexedFactors(RuleBuilder &r, ArrayRef<int64_t> dims, int64_t batchDims,
                  unsigned numIndices, FactorKind indexKind,
                  ReduceKind reduction, SmallVector<int> &operandDims) {
  ArrayRef<int64_t> operandShape = r.operandShape(0);
  SmallVector<int> moved;
  for (int64_t dim = 0; dim < batchDims; ++dim)
    moved.push_back(r.factor(operandShape[dim]));
  if (numIndices > 0) {
    ArrayRef<int64_t> indexShape = r.operandShape(1);
    for (int64_t size : indexShape.drop_front(batchDims))
      moved.push_back(r.factor(size, indexKind, reduction));
    for (unsigned i = 0; i < numIndices; ++i)
      r.operand(1 + i, ArrayRef(moved).take_front(indexShape.size()));
  }
  operandDims.assign(moved.begin(), moved.begin() + batchDims);
  for (int64_t dim = batchDims, rank = operandShape.size(); dim < rank; ++dim) {
    bool indexed = llvm::is_contained(dims, dim);
    int f = r.factor(operandShape[dim],
                     indexed ? FactorKind::Replicate : FactorKind::Parallel);
    operandDims.push_back(f);
    if (!indexed)
      moved.push_back(f);
  }
  return moved;
}

static ShardingRule gatherRule(GatherOp op) {
  RuleBuilder r(op);
  SmallVector<int> operandDims;
  SmallVector<int> moved = addIndexedFactors(
      r, op.getDims(), op.getBatchDims(), op.getIndices().size(),
      FactorKind::Parallel, ReduceKind::Sum, operandDims);
  return r.operand(0, operandDims).result(0, moved).take();
}

/// How updates on several ranks combine; nothing where their order matters.
static std::optional<ReduceKind> getCombination(ScatterKind kind) {
  switch (kind) {
  case ScatterKind::Add:
    return ReduceKind::Sum;
  case ScatterKind::Multiply:
    return ReduceKind::Product;
  case ScatterKind::Max:
    return ReduceKind::Max;
  case ScatterKind::Min:
    return ReduceKind::Min;
  case ScatterKind::Replace:
    return std::nullopt;
  }
  return std::nullopt;
}

/// The base may stand on every rank: it is neutral, or taking it twice changes
/// nothing.
static bool isBaseNeutral(ScatterOp op) {
  if (op.getKind() == ScatterKind::Max || op.getKind() == ScatterKind::Min)
    return true;
  Value base = op.getOperand();
  while (Operation *producer = base.getDefiningOp()) {
    if (!isa<BroadcastInDimOp, ReshapeOp, TransposeOp, ConvertOp>(producer))
      break;
    base = producer->getOperand(0);
  }
  bool one = op.getKind() == ScatterKind::Multiply;
  return one ? matchPattern(base, m_One()) || matchPattern(base, m_OneFloat())
             : matchPattern(base, m_Zero()) ||
                   matchPattern(base, m_AnyZeroFloat());
}

static ShardingRule scatterRule(ScatterOp op) {
  RuleBuilder r(op);
  std::optional<ReduceKind> combination = getCombination(op.getKind());
  FactorKind kind = !combination        ? FactorKind::Replicate
                    : isBaseNeutral(op) ? FactorKind::Reduction
                                        : FactorKind::Decompose;
  SmallVector<int> operandDims;
  unsigned numIndices = op.getIndices().size();
  SmallVector<int> moved =
      addIndexedFactors(r, op.getDims(), op.getBatchDims(), numIndices, kind,
                        combination.value_or(ReduceKind::Sum), operandDims);
  return r.operand(0, operandDims)
      .operand(1 + numIndices, moved)
      .result(0, operandDims)
      .take();
}

static ShardingRule embeddingRule(EmbeddingOp op) {
  RuleBuilder r(op);
  SmallVector<int> ids = r.factors(r.operandShape(1));
  int row = r.factor(r.operandShape(0)[0], FactorKind::Replicate),
      width = r.factor(r.operandShape(0)[1]);
  r.operand(0, {row, width}).operand(1, ids);
  ids.push_back(width);
  return r.result(0, ids).take();
}

static ShardingRule embeddingGradientRule(EmbeddingGradientOp op) {
  RuleBuilder r(op);
  SmallVector<int> ids = r.factors(r.operandShape(1), FactorKind::Reduction);
  int row = r.factor(r.resultShape(0)[0], FactorKind::Replicate),
      width = r.factor(r.resultShape(0)[1]);
  r.operand(1, ids);
  ids.push_back(width);
  return r.operand(0, ids).result(0, {row, width}).take();
}

void partition::attachIndexingRules(MLIRContext *context) {
  attachRule<GatherOp, gatherRule>(context);
  attachRule<ScatterOp, scatterRule>(context);
  attachRule<EmbeddingOp, embeddingRule>(context);
  attachRule<EmbeddingGradientOp, embeddingGradientRule>(context);
}
