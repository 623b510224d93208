//===- DataParallel.cpp - The batch divided over all ranks ----------------===//
#include "compiler/partition/Passes.h"
#include "compiler/sharding/BatchArguments.h"

namespace lockstep::partition {
#define GEN_PASS_DEF_DATAPARALLELPASS
#include "compiler/partition/Passes.h.inc"
} // namespace lockstep::partition

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

static constexpr StringLiteral kMesh = "mesh", kAxis = "data";

static bool hasRoles(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, TrainDialect::kRoleAttr))
      return true;
  return false;
}

/// Micro batches per step: every one of them is divided over the ranks.
static int64_t getAccumulationSteps(func::FuncOp function) {
  int64_t steps = 1;
  function.walk([&](AccumulateOp op) {
    steps = std::max<int64_t>(steps, op.getSteps());
  });
  return steps;
}

/// Everything that is kept or reported is whole on every rank.
static void requireWholeResults(func::FuncOp function) {
  for (auto [number, type] : llvm::enumerate(function.getResultTypes())) {
    auto role =
        function.getResultAttrOfType<RoleAttr>(number, TrainDialect::kRoleAttr);
    if (role && role.getValue() != Role::Output)
      function.setResultAttr(
          number, dist::DistDialect::kShardingAttr,
          dist::ShardingAttr::getReplicated(
              function.getContext(), cast<RankedTensorType>(type).getRank()));
  }
}

namespace {
struct DataParallel : partition::impl::DataParallelPassBase<DataParallel> {
  using DataParallelPassBase::DataParallelPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (ranks < 1) {
      module.emitError("expected at least 1 rank, but got ")
          << static_cast<int64_t>(ranks);
      return signalPassFailure();
    }
    OpBuilder builder(module.getBodyRegion());
    dist::MeshOp mesh = dist::MeshOp::create(
        builder, module.getLoc(), kMesh, builder.getStrArrayAttr({kAxis}),
        builder.getDenseI64ArrayAttr({ranks}));
    if (ranks == 1)
      return;
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      if (!hasRoles(function))
        continue;
      int64_t steps = getAccumulationSteps(function);
      std::string unit = "ranks";
      if (steps > 1)
        unit = "(" + std::to_string(ranks) + " ranks times " +
               std::to_string(steps) + " accumulation steps)";
      if (failed(sharding::divideBatchArguments(function, mesh, kAxis,
                                                ranks * steps, unit)))
        return signalPassFailure();
      requireWholeResults(function);
    }
  }
};
} // namespace
