//===- UpdateKernel.cpp - Multi-tensor updates ----------------------------===//
//
// An update kernel is written for one element, tensor<1xT>, and runs over any
// number. A copy of it with a size that is never reached becomes one flat loop
// over [begin, end); what depends on scalars alone is computed before the loop.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/KernelFunction.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

static Type widen(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() == 0 ? type
                               : Type(RankedTensorType::get(
                                     {kUpdateSize}, tensor.getElementType()));
}

void emit::widenUpdate(plan::KernelOp kernel) {
  Block &block = kernel.getBlock();
  for (BlockArgument argument : block.getArguments())
    argument.setType(widen(argument.getType()));
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    for (OpResult result : op.getResults())
      result.setType(cast<RankedTensorType>(widen(result.getType())));
    if (auto constant = dyn_cast<train::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (dense)
        constant.setValueAttr(
            DenseElementsAttr::get(cast<ShapedType>(constant.getType()),
                                   dense.getSplatValue<Attribute>()));
    }
    // A reshape of a scalar has become a broadcast.
    auto reshape = dyn_cast<train::ReshapeOp>(op);
    if (reshape &&
        cast<RankedTensorType>(reshape.getOperand().getType()).getRank() == 0 &&
        cast<RankedTensorType>(reshape.getType()).getRank() == 1) {
      OpBuilder b(&op);
      auto broadcast = train::BroadcastInDimOp::create(
          b, op.getLoc(), reshape.getType(), reshape.getOperand(),
          llvm::ArrayRef<int64_t>{});
      reshape.replaceAllUsesWith(broadcast.getResult());
      op.erase();
    }
  }
}

static FailureOr<KernelShape> emitUpdateItems(HostFunction &function) {
  ElementEmitter &e = function.emitter;
  auto results = function.kernel.getBlock().getTerminator()->getOperands();
  e.loop(function.begin, function.end, [&](Value i) {
    Index index{e.makeDigit(i, kUpdateSize)};
    llvm::SmallVector<Value> elements;
    for (Value result : results)
      elements.push_back(e.emit(result, index));
    for (auto [buffer, element] : llvm::zip(function.results, elements))
      e.store(buffer, element, index);
  });
  return KernelShape{0, 16384};
}

FailureOr<KernelShape> emit::emitUpdateKernel(plan::KernelOp kernel,
                                              llvm::StringRef symbol,
                                              ModuleOp module) {
  plan::KernelOp copy = kernel.clone();
  widenUpdate(copy);
  FailureOr<KernelShape> shape =
      buildKernelFunction(copy, symbol, module, emitUpdateItems);
  copy->erase();
  return shape;
}
