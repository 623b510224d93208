//===- DivideBatch.cpp - A program for one micro batch --------------------===//
#include "compiler/sharding/DivideBatch.h"
#include "compiler/sharding/BatchArguments.h"
#include "compiler/sharding/Localization.h"
#include "compiler/sharding/Propagation.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;
using namespace lockstep::train;

static constexpr StringLiteral kAxis = "micro_batch";

/// A buffer's new value is carried, which no partial sum can be.
static LogicalResult checkResults(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [number, sharding] :
       llvm::enumerate(getOperandShardings(terminator))) {
    auto role =
        function.getResultAttrOfType<RoleAttr>(number, TrainDialect::kRoleAttr);
    bool isBuffer = role && role.getValue() == Role::Buffer;
    bool isSum = sharding.isPartial() && sharding.getKind() == ReduceKind::Sum;
    if (sharding.isPartial() && (isBuffer || !isSum)) {
      auto name = function.getResultAttrOfType<StringAttr>(
          number, TrainDialect::kNameAttr);
      return emitError(function.getLoc(),
                       "gradient accumulation cannot be used: result '")
             << (name ? name.getValue() : "")
             << "' needs the whole batch; compile with "
                "--gradient-accumulation-steps 1";
    }
  }
  return success();
}

LogicalResult sharding::divideBatch(func::FuncOp forward, int64_t steps) {
  if (steps == 1)
    return success();
  auto module = forward->getParentOfType<ModuleOp>();
  OpBuilder builder(module.getBodyRegion());
  MeshOp mesh = MeshOp::create(builder, forward.getLoc(), "micro_batches",
                               builder.getStrArrayAttr({kAxis}),
                               builder.getDenseI64ArrayAttr({steps}));
  // Batch statistics are per micro batch, whatever they are over ranks.
  SmallVector<BatchNormOp> marked;
  forward.walk([&](BatchNormOp op) {
    if (!op.getLocalStatistics()) {
      op.setLocalStatistics(true);
      marked.push_back(op);
    }
  });
  LogicalResult result =
      divideBatchArguments(forward, mesh, kAxis, steps, "accumulation steps");
  if (succeeded(result))
    result = propagate(forward, mesh, /*temporal=*/true);
  if (succeeded(result))
    result = checkResults(forward);
  if (succeeded(result))
    result = localize(forward, mesh, /*temporal=*/true);
  for (BatchNormOp op : marked)
    op.setLocalStatistics(false);
  mesh.erase();
  return result;
}
