//===- VerifyOutput.cpp - What schedule relies on -------------------------===//
#include "compiler/fuse/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEVERIFYOUTPUTPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

namespace {

struct FuseVerifyOutput
    : fuse::impl::FuseVerifyOutputPassBase<FuseVerifyOutput> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      auto result = function.walk([](Operation *op) -> WalkResult {
        if (isa<func::FuncOp, func::ReturnOp, plan::CallOp, plan::ViewOp,
                plan::JoinOp, train::AccumulateOp, train::YieldOp,
                dist::CollectiveOpInterface, dist::CoordinateOp>(op))
          return WalkResult::advance();
        return op->emitOpError(
            "expected only kernel calls, views and collectives after fuse");
      });
      if (result.wasInterrupted())
        return signalPassFailure();
    }
  }
};

} // namespace
