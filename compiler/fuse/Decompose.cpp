//===- Decompose.cpp - Composite operations become primitive ones ---------===//
#include "compiler/fuse/Collectives.h"
#include "compiler/fuse/Passes.h"
#include "dialects/plan/AttentionForm.h"
#include "dialects/train/DecompositionUtils.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEDECOMPOSEPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

/// Composites that are kernels of their own, or are handled by a later pass of
/// the stage.
static bool staysWhole(Operation *op, fuse::AttentionKernels attention) {
  if (isa<train::AttentionOp, train::AttentionGradientOp>(op))
    return attention == fuse::AttentionKernels::Library ||
           (attention == fuse::AttentionKernels::Tiles &&
            plan::suitsAttentionTiles(op));
  return isa<train::SgdOp, train::AdamOp, train::GlobalNormOp>(op);
}

static void decompose(train::DecomposableOpInterface op) {
  OpBuilder builder(op);
  SmallVector<Value> values = op.decompose(builder);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), values))
    if (value)
      result.replaceAllUsesWith(value);
  op->erase();
}

/// Rewrites an operation along `dimension` as one along the last: transposes,
/// the operation, transposes back.
static void moveToLast(Operation *op, int64_t dimension, bool dropsDimension) {
  OpBuilder builder(op);
  train::TensorBuilder b(builder, op->getLoc());
  int64_t rank = train::getTensorType(op->getOperand(0)).getRank();
  SmallVector<int64_t> permutation = train::getDimRange(0, rank);
  permutation.erase(permutation.begin() + dimension);
  permutation.push_back(dimension);
  Value operand = b.transpose(op->getOperand(0), permutation);
  auto attribute = builder.getI64IntegerAttr(rank - 1);
  Operation *moved = builder.clone(*op);
  moved->setOperand(0, operand);
  moved->setAttr("dimension", attribute);
  if (dropsDimension) {
    // The remaining dimensions keep their order, so the type is unchanged.
    op->replaceAllUsesWith(moved->getResults());
    op->erase();
    return;
  }
  SmallVector<int64_t> inverse(rank);
  for (auto [i, dim] : llvm::enumerate(permutation))
    inverse[dim] = i;
  auto shape = train::getShape(operand);
  for (auto [result, old] :
       llvm::zip_equal(moved->getResults(), op->getResults())) {
    result.setType(cast<RankedTensorType>(result.getType()).clone(shape));
    old.replaceAllUsesWith(b.transpose(result, inverse));
  }
  op->erase();
}

/// What the composite was made of may itself be composite or in need of a turn,
/// so the walk repeats until nothing changes.
static bool decomposeOnce(ModuleOp module, fuse::AttentionKernels attention) {
  SmallVector<Operation *> work;
  module.walk([&](Operation *op) {
    bool turns =
        llvm::TypeSwitch<Operation *, bool>(op)
            .Case<train::SortOp, train::CumulativeOp, train::ArgReduceOp>(
                [](auto op) {
                  return static_cast<int64_t>(op.getDimension()) !=
                         train::getTensorType(op.getOperand()).getRank() - 1;
                })
            .Default([](auto) { return false; });
    if (turns || isa<train::StopGradientOp>(op) || fuse::needsLeadingForm(op) ||
        (isa<train::DecomposableOpInterface>(op) && !staysWhole(op, attention)))
      work.push_back(op);
  });
  for (Operation *op : work) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<train::SortOp, train::CumulativeOp>([](auto op) {
          moveToLast(op, op.getDimension(), /*dropsDimension=*/false);
        })
        .Case<train::ArgReduceOp>([](auto op) {
          moveToLast(op, op.getDimension(), /*dropsDimension=*/true);
        })
        .Case<dist::LocalSliceOp, dist::AllToAllOp, dist::AllGatherOp,
              dist::ReduceScatterOp>(
            [](auto op) { fuse::rewriteToLeadingForm(op); })
        .Case<train::StopGradientOp>([](auto op) {
          op.getResult().replaceAllUsesWith(op.getOperand());
          op.erase();
        })
        .Default([](Operation *op) {
          decompose(cast<train::DecomposableOpInterface>(op));
        });
  }
  return !work.empty();
}

namespace {

struct FuseDecompose : fuse::impl::FuseDecomposePassBase<FuseDecompose> {
  using Base::Base;

  void runOnOperation() override {
    while (decomposeOnce(getOperation(), attention)) {
    }
  }
};

} // namespace
