//===- VerifyOutput.cpp - What emit relies on -----------------------------===//
#include "compiler/schedule/Passes.h"

namespace lockstep::schedule {
#define GEN_PASS_DEF_SCHEDULEVERIFYOUTPUTPASS
#include "compiler/schedule/SchedulePasses.h.inc"
} // namespace lockstep::schedule

using namespace mlir;
using namespace lockstep;

namespace {

struct ScheduleVerifyOutput
    : schedule::impl::ScheduleVerifyOutputPassBase<ScheduleVerifyOutput> {
  void runOnOperation() override {
    for (Operation &op : *getOperation().getBody())
      if (!isa<plan::KernelOp, plan::ProgramOp, dist::MeshOp>(op)) {
        op.emitOpError(
            "expected only kernels, programs and meshes after schedule");
        return signalPassFailure();
      }
  }
};

} // namespace
