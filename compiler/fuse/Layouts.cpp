//===- Layouts.cpp - Layouts that library kernels can read and write ------===//
#include "compiler/fuse/Passes.h"
#include "dialects/plan/StridedView.h"
#include "dialects/train/DecompositionUtils.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSELAYOUTSPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

/// The transposes and reshapes that follow from `value` through `first`, each
/// the only use of the one before.
static SmallVector<Operation *> getChain(Operation *first) {
  SmallVector<Operation *> chain{first};
  while (chain.back()->getResult(0).hasOneUse()) {
    Operation *user = *chain.back()->getResult(0).user_begin();
    if (!isa<train::ReshapeOp, train::TransposeOp>(user) ||
        user->getBlock() != first->getBlock())
      break;
    chain.push_back(user);
  }
  while (chain.size() > 1 && isa<train::ReshapeOp>(chain.back()))
    chain.pop_back();
  return chain;
}

/// The value from which `chain` computes its last result, computed from that
/// result.
static Value buildInverse(OpBuilder &builder, ArrayRef<Operation *> chain) {
  train::TensorBuilder b(builder, chain.front()->getLoc());
  Value value = chain.back()->getResult(0);
  for (Operation *op : llvm::reverse(chain)) {
    if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
      SmallVector<int64_t> inverse(transpose.getPermutation().size());
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        inverse[dim] = i;
      value = b.transpose(value, inverse);
    } else {
      value = b.reshape(value, train::getShape(op->getOperand(0)));
    }
  }
  return value;
}

static void chooseLayout(Value result) {
  if (result.use_empty() || result.hasOneUse())
    return;
  // The first transpose in program order; users come in no useful order.
  Operation *first = nullptr;
  for (Operation *user : result.getUsers())
    if (isa<train::TransposeOp>(user) &&
        user->getBlock() == result.getParentBlock() &&
        (!first || user->isBeforeInBlock(first)))
      first = user;
  if (!first)
    return;
  SmallVector<Operation *> chain = getChain(first);
  Operation *last = result.getDefiningOp();
  for (Operation *op : chain) {
    op->moveAfter(last);
    last = op;
  }
  OpBuilder builder(first->getContext());
  builder.setInsertionPointAfter(last);
  Value inverse = buildInverse(builder, chain);
  result.replaceUsesWithIf(
      inverse, [&](OpOperand &use) { return use.getOwner() != first; });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// A product whose `turned` operands have their batching dimensions first and
/// their contracted dimensions last.
static train::DotGeneralOp turnOperands(train::DotGeneralOp dot,
                                        std::array<bool, 2> turned) {
  OpBuilder builder(dot);
  train::TensorBuilder b(builder, dot.getLoc());
  SmallVector<int64_t> batch[2] = {SmallVector<int64_t>(dot.getLhsBatch()),
                                   SmallVector<int64_t>(dot.getRhsBatch())};
  SmallVector<int64_t> contract[2] = {
      SmallVector<int64_t>(dot.getLhsContract()),
      SmallVector<int64_t>(dot.getRhsContract())};
  SmallVector<int64_t> free[2] = {dot.getLhsFree(), dot.getRhsFree()};
  // Pairs in the order of the operand that stays.
  size_t kept = turned[0] ? 1 : 0;
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [kept, other] : llvm::zip_equal(contract[kept], contract[1 - kept]))
    pairs.push_back({kept, other});
  llvm::sort(pairs);
  for (auto [i, pair] : llvm::enumerate(pairs)) {
    contract[kept][i] = pair.first;
    contract[1 - kept][i] = pair.second;
  }
  Value operands[2] = {dot.getLhs(), dot.getRhs()};
  for (size_t side = 0; side < 2; ++side) {
    if (!turned[side])
      continue;
    SmallVector<int64_t> permutation = batch[side];
    llvm::append_range(permutation, free[side]);
    llvm::append_range(permutation, contract[side]);
    operands[side] = b.transpose(operands[side], permutation);
    batch[side] = train::getDimRange(0, batch[side].size());
    int64_t rank = permutation.size();
    contract[side] = train::getDimRange(rank - contract[side].size(), rank);
  }
  return b
      .dotGeneral(operands[0], operands[1], batch[0], batch[1], contract[0],
                  contract[1])
      .getDefiningOp<train::DotGeneralOp>();
}

static bool isContractible(train::DotGeneralOp dot) {
  return plan::foldContraction(dot, plan::getContiguousView(dot.getLhs()),
                               plan::getContiguousView(dot.getRhs()),
                               plan::getContiguousView(dot.getResult()))
      .has_value();
}

/// Several contracted dimensions must have a common stride in both operands;
/// where they have not, an operand is turned so that they are neighbours.
static void makeContractible(train::DotGeneralOp dot) {
  if (isContractible(dot))
    return;
  for (std::array<bool, 2> turned :
       {std::array{false, true}, std::array{true, false},
        std::array{true, true}}) {
    train::DotGeneralOp candidate = turnOperands(dot, turned);
    if (isContractible(candidate)) {
      dot.getResult().replaceAllUsesWith(candidate.getResult());
      dot.erase();
      return;
    }
    SmallVector<Value> operands(candidate->getOperands());
    candidate.erase();
    for (Value operand : operands)
      if (Operation *op = operand.getDefiningOp(); op && op->use_empty())
        op->erase();
  }
}

namespace {

struct FuseLayouts : fuse::impl::FuseLayoutsPassBase<FuseLayouts> {
  void runOnOperation() override {
    SmallVector<train::AttentionOp> work;
    getOperation().walk([&](train::AttentionOp op) { work.push_back(op); });
    for (train::AttentionOp op : work)
      chooseLayout(op.getResult());
    SmallVector<train::DotGeneralOp> dots;
    getOperation().walk([&](train::DotGeneralOp op) { dots.push_back(op); });
    for (train::DotGeneralOp op : dots)
      makeContractible(op);
  }
};

} // namespace
