//===- WidenProducts.cpp - Narrow products in f32 -------------------------===//
#include "compiler/fuse/Passes.h"
#include "dialects/plan/AttentionForm.h"
#include "dialects/train/DecompositionUtils.h"
#include "dialects/train/Train.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEWIDENPRODUCTSPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

static bool isNarrow(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  return type && type.getWidth() < 32;
}

/// Puts narrow operands and results into f32, with conversions around.
static void widen(Operation *op) {
  OpBuilder builder(op);
  train::TensorBuilder b(builder, op->getLoc());
  for (OpOperand &operand : op->getOpOperands())
    if (isNarrow(operand.get()))
      operand.set(b.convert(operand.get(), builder.getF32Type()));
  builder.setInsertionPointAfter(op);
  for (OpResult result : op->getResults()) {
    if (!isNarrow(result))
      continue;
    auto narrow = cast<RankedTensorType>(result.getType());
    result.setType(narrow.clone(builder.getF32Type()));
    Value rounded = b.convert(result, narrow.getElementType());
    result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
  }
}

namespace {

struct FuseWidenProducts
    : fuse::impl::FuseWidenProductsPassBase<FuseWidenProducts> {
  using FuseWidenProductsPassBase::FuseWidenProductsPassBase;

  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      bool isProduct =
          isa<train::ConvolutionOp, train::ConvolutionInputGradientOp,
              train::ConvolutionFilterGradientOp, train::AttentionOp,
              train::AttentionGradientOp>(op) ||
          (dots && isa<train::DotGeneralOp>(op));
      bool hasKernel = attention && plan::suitsAttentionTiles(op);
      if (isProduct && !hasKernel && llvm::any_of(op->getOperands(), isNarrow))
        widen(op);
    });
  }
};

} // namespace
