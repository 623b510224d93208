//===- Layouts.cpp - In which layout attention writes its result ----------===//
#include "compiler/fuse/Passes.h"
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

namespace {

struct FuseLayouts : fuse::impl::FuseLayoutsPassBase<FuseLayouts> {
  void runOnOperation() override {
    SmallVector<train::AttentionOp> work;
    getOperation().walk([&](train::AttentionOp op) { work.push_back(op); });
    for (train::AttentionOp op : work)
      chooseLayout(op.getResult());
  }
};

} // namespace
