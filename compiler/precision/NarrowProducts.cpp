//===- NarrowProducts.cpp - Products in bf16 ------------------------------===//
#include "compiler/precision/Passes.h"
#include "dialects/train/DecompositionUtils.h"
#include "dialects/train/Train.h"

namespace lockstep {
#define GEN_PASS_DEF_NARROWPRODUCTSPASS
#include "compiler/precision/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

static bool isSingle(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

static Value rounded(TensorBuilder &b, Value value) {
  return b.convert(value, b.getBuilder().getBF16Type());
}

/// Puts the operands `which` and the result into bf16.
static void narrow(Operation *op, ArrayRef<unsigned> which) {
  OpBuilder builder(op);
  TensorBuilder b(builder, op->getLoc());
  for (unsigned i : which)
    op->setOperand(i, rounded(b, op->getOperand(i)));
  OpResult result = op->getResult(0);
  auto wide = cast<RankedTensorType>(result.getType());
  result.setType(wide.clone(builder.getBF16Type()));
  builder.setInsertionPointAfter(op);
  Value widened = b.convert(result, wide.getElementType());
  result.replaceAllUsesExcept(widened, widened.getDefiningOp());
}

namespace {

struct NarrowProducts : lockstep::impl::NarrowProductsPassBase<NarrowProducts> {
  void runOnOperation() override {
    SmallVector<Operation *> work;
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp, AttentionOp>(op) &&
          isSingle(op->getResult(0)))
        work.push_back(op);
    });
    // Attention: query, key and value; a mask of numbers is added to f32 sums.
    for (Operation *op : work)
      narrow(op, isa<AttentionOp>(op) ? ArrayRef<unsigned>{0, 1, 2}
                                      : ArrayRef<unsigned>{0, 1});
  }
};

} // namespace
