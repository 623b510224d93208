//===- VerifyFullPrecision.cpp - The policy f32 ---------------------------===//
#include "compiler/precision/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep {
#define GEN_PASS_DEF_VERIFYFULLPRECISIONPASS
#include "compiler/precision/Passes.h.inc"
} // namespace lockstep

using namespace mlir;

static bool isNarrow(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto element =
      tensor ? dyn_cast<FloatType>(tensor.getElementType()) : FloatType();
  return element && element.getWidth() < 32;
}

namespace {

struct VerifyFullPrecision
    : lockstep::impl::VerifyFullPrecisionPassBase<VerifyFullPrecision> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) {
      auto report = [&](Type type) {
        op->emitError("computes in ")
            << cast<RankedTensorType>(type).getElementType()
            << ", but --precision f32 needs float32 throughout; leave the "
               "conversion out of the model";
        return WalkResult::interrupt();
      };
      if (auto function = dyn_cast<func::FuncOp>(op))
        for (Type type : function.getArgumentTypes())
          if (isNarrow(type))
            return report(type);
      for (Type type : op->getResultTypes())
        if (isNarrow(type))
          return report(type);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
