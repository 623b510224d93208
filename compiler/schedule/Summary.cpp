//===- Summary.cpp - What a schedule amounts to ---------------------------===//
#include "compiler/schedule/Summary.h"

using namespace mlir;
using namespace lockstep;

static void count(ModuleOp module, Block &block, int64_t times,
                  schedule::ScheduleSummary &summary) {
  SymbolTable symbols(module);
  for (Operation &op : block) {
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      summary.launches += times;
      auto kernel = symbols.lookup<plan::KernelOp>(launch.getKernel());
      double elements = 1;
      if (kernel.getKind() == plan::KernelKind::Update) {
        elements = 0;
        for (int64_t segment = 0;
             segment < static_cast<int64_t>(launch.getSegments()); ++segment)
          elements += static_cast<double>(
              cast<plan::BufferType>(
                  launch.getSegmentOutputs(segment).front().getType())
                  .getTensor()
                  .getNumElements());
      }
      summary.flops += static_cast<double>(times) * elements *
                       kernel.getFlops().convertToDouble();
      for (Value buffer : op.getOperands())
        summary.bytes +=
            static_cast<double>(times) *
            static_cast<double>(
                cast<plan::BufferType>(buffer.getType()).getBytes());
    } else if (auto start = dyn_cast<plan::CollectiveStartOp>(op)) {
      summary.collectives += times;
      for (Value input : start.getInputs())
        summary.collectiveBytes +=
            times * cast<plan::BufferType>(input.getType()).getBytes();
    } else if (auto loop = dyn_cast<plan::LoopOp>(op)) {
      count(module, loop.getBody().front(),
            times * static_cast<int64_t>(loop.getSteps()), summary);
    }
  }
}

schedule::ScheduleSummary schedule::summarize(ModuleOp module,
                                              llvm::StringRef entry) {
  ScheduleSummary summary;
  for (auto program : module.getOps<plan::ProgramOp>()) {
    if (program.getEntry() != entry)
      continue;
    summary.kernels = llvm::range_size(module.getOps<plan::KernelOp>());
    summary.arenaBytes = program.getArenaBytes();
    summary.persistentBytes = program.getPersistentBytes();
    summary.aliveBytes = program.getPeakBytes();
    count(module, program.getBody().front(), 1, summary);
    if (auto recompute =
            program->getAttrOfType<DictionaryAttr>(plan::kRecomputeAttr)) {
      summary.recomputedCalls = recompute.getAs<IntegerAttr>("calls").getInt();
      if (auto merged = recompute.getAs<IntegerAttr>("merged"))
        summary.recomputedResults = merged.getInt();
      summary.recomputedBytes = recompute.getAs<IntegerAttr>("bytes").getInt();
      summary.recomputedSeconds =
          recompute.getAs<FloatAttr>("seconds").getValueAsDouble();
    }
    break;
  }
  return summary;
}
