//===- RulesModel.cpp - Factor rules of layers ----------------------------===//
//
// Rows and channels divide; the dimension that a layer normalises or contracts
// inside is `Decompose`: divided, the layer falls apart into operations whose
// sums are explicit.
//
//===----------------------------------------------------------------------===//
#include "compiler/partition/RuleBuilder.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;
using namespace lockstep::train;

template <typename OpT> static ShardingRule softmaxRule(OpT op) {
  RuleBuilder r(op);
  SmallVector<int> dims;
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0)))
    dims.push_back(
        r.factor(size, static_cast<int64_t>(dim) ==
                               static_cast<int64_t>(op.getDimension())
                           ? FactorKind::Decompose
                           : FactorKind::Parallel));
  return r.operand(0, dims).result(0, dims).take();
}

namespace {
/// [rows..., normalised...] of a layer or rms norm.
struct NormDims {
  NormDims(RuleBuilder &r, ArrayRef<int64_t> shape, int64_t axes,
           FactorKind rowKind) {
    for (int64_t size : shape.drop_back(axes))
      rows.push_back(r.factor(size, rowKind));
    columns = r.factors(shape.take_back(axes), FactorKind::Decompose);
    all = rows;
    llvm::append_range(all, columns);
  }
  SmallVector<int> rows, columns, all;
};
} // namespace

static ShardingRule layerNormRule(LayerNormOp op) {
  RuleBuilder r(op);
  NormDims d(r, r.operandShape(0), op.getAxes(), FactorKind::Parallel);
  r.operand(0, d.all)
      .operand(operandNumber(op, 1), d.columns)
      .operand(operandNumber(op, 2), d.columns);
  return r.result(0, d.all).result(1, d.rows).result(2, d.rows).take();
}

static ShardingRule layerNormGradientRule(LayerNormGradientOp op) {
  RuleBuilder r(op);
  NormDims d(r, r.operandShape(0), op.getAxes(), FactorKind::Reduction);
  r.operand(0, d.all)
      .operand(1, d.all)
      .operand(2, d.rows)
      .operand(3, d.rows)
      .operand(operandNumber(op, 4), d.columns);
  return r.result(0, d.all).result(1, d.columns).result(2, d.columns).take();
}

static ShardingRule rmsNormRule(RmsNormOp op) {
  RuleBuilder r(op);
  NormDims d(r, r.operandShape(0), op.getAxes(), FactorKind::Parallel);
  r.operand(0, d.all).operand(operandNumber(op, 1), d.columns);
  return r.result(0, d.all).result(1, d.rows).take();
}

static ShardingRule rmsNormGradientRule(RmsNormGradientOp op) {
  RuleBuilder r(op);
  NormDims d(r, r.operandShape(0), op.getAxes(), FactorKind::Reduction);
  r.operand(0, d.all).operand(1, d.all).operand(2, d.rows).operand(
      operandNumber(op, 3), d.columns);
  return r.result(0, d.all).result(1, d.columns).take();
}

/// [N, C, space...]: N alone may be divided without its statistics
/// (local_statistics), and all of it when they are given.
static SmallVector<int> batchNormDims(RuleBuilder &r, bool inference,
                                      bool local, FactorKind freeKind,
                                      int &channel) {
  SmallVector<int> dims;
  for (auto [dim, size] : llvm::enumerate(r.operandShape(0))) {
    bool free = dim == 1 || inference || (local && dim == 0);
    dims.push_back(r.factor(size, dim == 1 ? FactorKind::Parallel
                                  : free   ? freeKind
                                           : FactorKind::Decompose));
  }
  channel = dims[1];
  return dims;
}

static ShardingRule batchNormRule(BatchNormOp op) {
  RuleBuilder r(op);
  int channel = 0;
  SmallVector<int> dims =
      batchNormDims(r, op.getInference(), op.getLocalStatistics(),
                    FactorKind::Parallel, channel);
  r.operand(0, dims).result(0, dims);
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    r.operand(i, {channel});
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    r.result(i, {channel});
  return r.take();
}

static ShardingRule batchNormGradientRule(BatchNormGradientOp op) {
  RuleBuilder r(op);
  int channel = 0;
  SmallVector<int> dims =
      batchNormDims(r, op.getInference(), op.getLocalStatistics(),
                    FactorKind::Reduction, channel);
  r.operand(0, dims).operand(1, dims).result(0, dims);
  for (unsigned i = 2; i < op->getNumOperands(); ++i)
    r.operand(i, {channel});
  return r.result(1, {channel}).result(2, {channel}).take();
}

namespace {
/// Query [B, group, head of the group, T, D], key [B, group, S, D], value [B,
/// group, S, E].
struct AttentionDims {
  template <typename OpT>
  AttentionDims(RuleBuilder &r, OpT op, bool isGradient)
      : query(cast<RankedTensorType>(op.getQuery().getType()).getShape()),
        key(cast<RankedTensorType>(op.getKey().getType()).getShape()) {
    bool positional = op.getCausal() || op.getWindow();
    FactorKind rowKind =
        isGradient ? FactorKind::Reduction : FactorKind::Parallel;
    batch = r.factor(query[0]);
    group = r.factor(key[1]);
    head = r.factor(query[1] / key[1], rowKind);
    row = r.factor(query[2], positional ? FactorKind::Decompose : rowKind);
    column = r.factor(key[2], FactorKind::Decompose);
    width = r.factor(query[3], FactorKind::Decompose);
    valueWidth =
        r.factor(cast<RankedTensorType>(op.getValue().getType()).getShape()[3],
                 isGradient ? FactorKind::Decompose : FactorKind::Parallel);
  }
  /// [B, H, T, last]
  template <typename Add> void heads(Add add, int last) {
    add(0, batch), add(1, group), add(1, head), add(2, row), add(3, last);
  }
  /// [B, G, S, last]
  template <typename Add> void groups(Add add, int last) {
    add(0, batch), add(1, group), add(2, column), add(3, last);
  }
  ArrayRef<int64_t> query, key;
  int batch, group, head, row, column, width, valueWidth;
};

struct Adder {
  RuleBuilder &r;
  int number;
  bool isResult;
  bool hasLast = true;
  void operator()(int64_t dim, int factor) const {
    if (dim == 3 && !hasLast)
      return;
    isResult ? r.addToResult(number, dim, factor)
             : r.addToOperand(number, dim, factor);
  }
};
} // namespace

/// Dimensions of size 1 are broadcast and have no factor.
static void addMask(RuleBuilder &r, AttentionDims &d, int number) {
  if (number < 0)
    return;
  ArrayRef<int64_t> shape = r.operandShape(number);
  if (shape[0] != 1)
    r.addToOperand(number, 0, d.batch);
  if (shape[1] != 1)
    r.addToOperand(number, 1, d.group).addToOperand(number, 1, d.head);
  if (shape[2] != 1)
    r.addToOperand(number, 2, d.row);
  if (shape[3] != 1)
    r.addToOperand(number, 3, d.column);
}

static ShardingRule attentionRule(AttentionOp op) {
  RuleBuilder r(op);
  AttentionDims d(r, op, /*isGradient=*/false);
  d.heads(Adder{r, 0, false}, d.width);
  d.groups(Adder{r, 1, false}, d.width);
  d.groups(Adder{r, 2, false}, d.valueWidth);
  addMask(r, d, operandNumber(op, 3));
  d.heads(Adder{r, 0, true}, d.valueWidth);
  d.heads(Adder{r, 1, true, /*hasLast=*/false}, RuleBuilder::kNone);
  return r.take();
}

static ShardingRule attentionGradientRule(AttentionGradientOp op) {
  RuleBuilder r(op);
  AttentionDims d(r, op, /*isGradient=*/true);
  d.heads(Adder{r, 0, false}, d.valueWidth);
  d.heads(Adder{r, 1, false}, d.width);
  d.groups(Adder{r, 2, false}, d.width);
  d.groups(Adder{r, 3, false}, d.valueWidth);
  d.heads(Adder{r, 4, false}, d.valueWidth);
  d.heads(Adder{r, 5, false, /*hasLast=*/false}, RuleBuilder::kNone);
  addMask(r, d, operandNumber(op, 6));
  d.heads(Adder{r, 0, true}, d.width);
  d.groups(Adder{r, 1, true}, d.width);
  d.groups(Adder{r, 2, true}, d.valueWidth);
  return r.take();
}

void partition::attachModelRules(MLIRContext *context) {
  attachRule<SoftmaxOp, softmaxRule<SoftmaxOp>>(context);
  attachRule<LogSoftmaxOp, softmaxRule<LogSoftmaxOp>>(context);
  attachRule<LayerNormOp, layerNormRule>(context);
  attachRule<LayerNormGradientOp, layerNormGradientRule>(context);
  attachRule<RmsNormOp, rmsNormRule>(context);
  attachRule<RmsNormGradientOp, rmsNormGradientRule>(context);
  attachRule<BatchNormOp, batchNormRule>(context);
  attachRule<BatchNormGradientOp, batchNormGradientRule>(context);
  attachRule<AttentionOp, attentionRule>(context);
  attachRule<AttentionGradientOp, attentionGradientRule>(context);
}
