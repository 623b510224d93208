//===- VerifyOutput.cpp - The boundary of the stage -----------------------===//
#include "compiler/partition/Passes.h"

namespace lockstep::partition {
#define GEN_PASS_DEF_VERIFYPARTITIONOUTPUTPASS
#include "compiler/partition/Passes.h.inc"
} // namespace lockstep::partition

using namespace mlir;
using namespace lockstep;
using dist::DistDialect;

static LogicalResult checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && tensor.getEncoding())
      return op->emitOpError("expected local types after partition, but got ")
             << type;
  return success();
}

static LogicalResult checkOp(Operation *op) {
  for (StringRef name :
       {DistDialect::kOperandShardingsAttr, DistDialect::kResultShardingsAttr})
    if (op->hasAttr(name))
      return op->emitOpError("expected no attribute '")
             << name << "' after partition";
  if (isa<dist::CollectiveOpInterface>(op) &&
      !isa<func::FuncOp, train::AccumulateOp, dist::StartOp>(op->getParentOp()))
    return op->emitOpError(
               "expected collectives where every rank passes, but got one in '")
           << op->getParentOp()->getName() << "'";
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(checkTypes(op, block.getArgumentTypes())))
        return failure();
  return checkTypes(op, op->getResultTypes());
}

static LogicalResult checkFunction(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, DistDialect::kShardingAttr))
      return function.emitOpError("expected no '")
             << DistDialect::kShardingAttr << "' on argument " << i
             << " after partition";
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, DistDialect::kShardingAttr))
      return function.emitOpError("expected no '")
             << DistDialect::kShardingAttr << "' on result " << i
             << " after partition";
  return success();
}

namespace {
struct VerifyPartitionOutput
    : partition::impl::VerifyPartitionOutputPassBase<VerifyPartitionOutput> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) {
      auto function = dyn_cast<func::FuncOp>(op);
      return failed(checkOp(op)) ||
                     (function && failed(checkFunction(function)))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
