//===- KernelFunction.cpp - The function of a generated kernel ------------===//
#include "compiler/emit/loops/KernelFunction.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

void HostFunction::forEachItem(int64_t count,
                               llvm::function_ref<void(Value)> body) {
  if (count == 1)
    return body(emitter.isPlanning() ? Value() : emitter.scalars().i64(0));
  emitter.loop(begin, end, body);
}

LogicalResult emit::checkOperations(plan::KernelOp kernel) {
  Operation *anchor = kernel.getAnchor();
  for (Operation &op : kernel.getBlock().without_terminator()) {
    if (&op == anchor || isScalarOp(&op))
      continue;
    if (auto constant = dyn_cast<train::ConstantOp>(op)) {
      if (!isa<DenseElementsAttr>(constant.getValue()))
        return op.emitOpError("has data that is not in memory, in kernel ")
               << kernel.getSymName();
      continue;
    }
    if (!isa<train::ReshapeOp, train::TransposeOp, train::SliceOp,
             train::BroadcastInDimOp, train::ReverseOp, train::PadOp,
             train::ConcatenateOp, train::GatherOp, train::IotaOp,
             train::ReduceOp, train::DropoutOp>(op))
      return op.emitOpError("cannot be lowered inside a kernel of kind ")
             << plan::stringifyKernelKind(kernel.getKind());
  }
  return success();
}

LogicalResult
emit::planLoops(plan::KernelOp kernel, LoopShapes &shapes,
                const ScalarModel &model,
                llvm::function_ref<LogicalResult(KernelFunction)> emitItems) {
  // Each pass splits loops further; a split's size divides a loop, so that this
  // ends.
  for (;;) {
    ElementEmitter planner(nullptr, kernel.getLoc(), shapes, model);
    KernelFunction function{kernel, planner, {}};
    for (BlockArgument argument : kernel.getBlock().getArguments())
      planner.bind(argument, {{}, getElementTypeOrSelf(argument.getType())});
    for (Type type : kernel.getResultTypes())
      function.results.push_back({{}, getElementTypeOrSelf(type)});
    if (failed(emitItems(function)))
      return failure();
    if (!shapes.refine(planner.wantedSplits))
      return success();
  }
}

/// Binds arguments and results to the pointers in `args`.
static void bindBuffers(HostFunction &function, OpBuilder &b, Value args) {
  Location loc = function.kernel.getLoc();
  unsigned next = 0;
  auto nextBuffer = [&](Type tensor) {
    Type element = getElementTypeOrSelf(tensor);
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value address =
        LLVM::GEPOp::create(b, loc, pointer, pointer, args,
                            llvm::ArrayRef<LLVM::GEPArg>{int32_t(next++)});
    return Buffer{LLVM::LoadOp::create(b, loc, pointer, address), element};
  };
  for (BlockArgument argument : function.kernel.getBlock().getArguments())
    function.emitter.bind(argument, nextBuffer(argument.getType()));
  for (Type type : function.kernel.getResultTypes())
    function.results.push_back(nextBuffer(type));
}

FailureOr<KernelShape> emit::buildKernelFunction(plan::KernelOp kernel,
                                                 llvm::StringRef symbol,
                                                 ModuleOp module,
                                                 EmitItems emitItems) {
  if (failed(checkOperations(kernel)))
    return failure();
  Location loc = kernel.getLoc();
  LoopShapes shapes;
  if (failed(planLoops(kernel, shapes, ScalarModel(),
                       [&](KernelFunction function) {
                         HostFunction host{function, {}, {}};
                         return LogicalResult(emitItems(host));
                       })))
    return failure();

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()),
       i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer, i64, i64});
  auto func = LLVM::LLVMFuncOp::create(b, loc, symbol, type);
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  // Everything is inserted before the return.
  b.setInsertionPoint(LLVM::ReturnOp::create(b, loc, ValueRange()));
  OpBuilder argumentBuilder = b;
  ElementEmitter emitter(&b, loc, shapes);
  HostFunction function{
      {kernel, emitter, {}}, entry->getArgument(1), entry->getArgument(2)};
  bindBuffers(function, argumentBuilder, entry->getArgument(0));
  return emitItems(function);
}

FailureOr<KernelShape> emit::emitKernel(plan::KernelOp kernel,
                                        llvm::StringRef symbol,
                                        ModuleOp module) {
  switch (kernel.getKind()) {
  case plan::KernelKind::Loop:
    return buildKernelFunction(kernel, symbol, module, emitLoopItems);
  case plan::KernelKind::Update:
    return emitUpdateKernel(kernel, symbol, module);
  case plan::KernelKind::Scatter:
    return buildKernelFunction(kernel, symbol, module, emitScatterItems);
  case plan::KernelKind::Scan:
    return buildKernelFunction(kernel, symbol, module, emitScanItems);
  case plan::KernelKind::Window:
    return buildKernelFunction(kernel, symbol, module, emitWindowItems);
  default:
    return kernel.emitOpError("has no generated code for its kind");
  }
}
