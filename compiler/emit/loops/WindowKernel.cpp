//===- WindowKernel.cpp - Pooling and its gradient ------------------------===//
//
// A work item is one plane: the windowed dimensions for fixed leading ones.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/KernelFunction.h"
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/WindowLoops.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

namespace {

class WindowKernel {
public:
  template <typename OpTy>
  WindowKernel(HostFunction &function, OpTy op, RankedTensorType operand,
               RankedTensorType windowed)
      : function(function), e(function.emitter),
        pooling(e, op, operand, windowed) {}

  KernelShape emitForward(train::ReduceWindowOp op);
  KernelShape emitGradient(train::ReduceWindowGradientOp op);

private:
  void forEachOutput(llvm::function_ref<void(llvm::ArrayRef<Digit>)> body);
  Index inPlane(llvm::ArrayRef<Digit> digits) {
    return Pooling::getIndex(plane, digits);
  }
  void emitMaxGradient(train::ReduceWindowGradientOp op,
                       llvm::ArrayRef<Digit> at, Value cotangent);
  /// Adds to the element of the result at `index`.
  void addTo(llvm::ArrayRef<Digit> index, Value cotangent);

  HostFunction &function;
  ElementEmitter &e;
  Pooling pooling;
  Digit plane;
};

} // namespace

void WindowKernel::forEachOutput(
    llvm::function_ref<void(llvm::ArrayRef<Digit>)> body) {
  llvm::ArrayRef<int64_t> out = pooling.loops.out;
  llvm::SmallVector<Digit> at;
  std::function<void(size_t)> nest = [&](size_t d) {
    if (d == out.size())
      return body(at);
    e.loop(
        e.number(0), e.number(out[d]),
        [&](Value i) {
          at.push_back(e.makeDigit(i, out[d]));
          nest(d + 1);
          at.pop_back();
        },
        /*parallel=*/false);
  };
  nest(0);
}

KernelShape WindowKernel::emitForward(train::ReduceWindowOp op) {
  function.forEachItem(pooling.planes, [&](Value item) {
    plane = e.makeDigit(item, pooling.planes);
    forEachOutput([&](llvm::ArrayRef<Digit> at) {
      Index index = pooling.emitWindow(op, plane, at);
      auto results = function.kernel.getBlock().getTerminator()->getOperands();
      for (auto [buffer, value] : llvm::zip(function.results, results))
        e.store(buffer, e.emit(value, index), index);
    });
  });
  return {pooling.planes, 1};
}

void WindowKernel::addTo(llvm::ArrayRef<Digit> index, Value cotangent) {
  Value old = e.load(function.results[0], index);
  e.store(function.results[0],
          e.isPlanning() ? Value() : e.scalars().add(old, cotangent), index);
}

void WindowKernel::emitMaxGradient(train::ReduceWindowGradientOp op,
                                   llvm::ArrayRef<Digit> at, Value cotangent) {
  auto [value, number] = pooling.findLargest(op.getOperand(), plane, at);
  int64_t planeSize = 1;
  for (int64_t size : pooling.loops.in)
    planeSize *= size;
  Value found;
  if (!e.isPlanning())
    found = e.scalars().compare(IP::sge, number, e.number(0));
  e.branch(found, [&, number = number] {
    addTo(inPlane({e.makeDigit(number, planeSize)}), cotangent);
  });
}

KernelShape WindowKernel::emitGradient(train::ReduceWindowGradientOp op) {
  function.forEachItem(pooling.planes, [&](Value item) {
    plane = e.makeDigit(item, pooling.planes);
    int64_t planeSize = 1;
    for (int64_t size : pooling.loops.in)
      planeSize *= size;
    e.loop(e.number(0), e.number(planeSize), [&](Value i) {
      e.store(function.results[0],
              e.isPlanning() ? Value()
                             : getNeutral(e.scalars(), train::ReduceKind::Sum,
                                          pooling.element),
              inPlane({e.makeDigit(i, planeSize)}));
    });
    forEachOutput([&](llvm::ArrayRef<Digit> at) {
      Value cotangent = e.emit(op.getCotangent(), inPlane(at));
      if (pooling.kind == train::ReduceKind::Max)
        return emitMaxGradient(op, at, cotangent);
      pooling.loops.forTaps(
          at, {},
          [&](llvm::ArrayRef<Digit>, llvm::ArrayRef<Digit> places,
              llvm::ArrayRef<Value>) -> WindowLoops::Values {
            addTo(inPlane(places), cotangent);
            return {};
          },
          false);
    });
  });
  return {pooling.planes, 1};
}

FailureOr<KernelShape> emit::emitWindowItems(HostFunction &function) {
  Operation *anchor = function.kernel.getAnchor();
  if (auto op = dyn_cast<train::ReduceWindowOp>(anchor))
    return WindowKernel(function, op,
                        cast<RankedTensorType>(op.getOperand().getType()),
                        op.getType())
        .emitForward(op);
  auto op = cast<train::ReduceWindowGradientOp>(anchor);
  auto results = function.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 1 || results[0] != op.getResult())
    return function.kernel.emitOpError(
        "must return its reduce_window_gradient and nothing else");
  return WindowKernel(function, op, op.getType(),
                      cast<RankedTensorType>(op.getCotangent().getType()))
      .emitGradient(op);
}
