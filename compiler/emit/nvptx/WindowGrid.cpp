//===- WindowGrid.cpp - Pooling and its gradient --------------------------===//
//
// A thread takes one element of the result. The gradient is gathered: an
// element sums over the windows that hold it, in their order, so that no thread
// adds to what another one does.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/WindowLoops.h"
#include "compiler/emit/nvptx/GridFunction.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

/// The plane and the position in it of an item, of a tensor with these sizes.
static std::pair<Digit, llvm::SmallVector<Digit>>
splitItem(ElementEmitter &e, Value item, int64_t planes,
          llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<int64_t> groups{planes};
  groups.append(sizes.begin(), sizes.end());
  int64_t count = ShapedType::getNumElements(groups);
  Index number;
  if (count != 1)
    number.push_back(e.makeDigit(item, count));
  llvm::SmallVector<Digit> digits;
  for (const Index &group : e.splitGroups(number, groups))
    digits.push_back(group.empty() ? e.zeroDigit() : group.front());
  return {digits.front(), llvm::SmallVector<Digit>(llvm::drop_begin(digits))};
}

static FailureOr<KernelShape> emitForward(GridFunction &grid,
                                          train::ReduceWindowOp op) {
  ElementEmitter &e = grid.emitter;
  Pooling pooling(e, op, cast<RankedTensorType>(op.getOperand().getType()),
                  op.getType());
  int64_t count =
      pooling.planes * ShapedType::getNumElements(pooling.loops.out);
  return grid.forEachItem(count, [&](Value item) {
    auto [plane, at] = splitItem(e, item, pooling.planes, pooling.loops.out);
    Index index = pooling.emitWindow(op, plane, at);
    auto results = grid.kernel.getBlock().getTerminator()->getOperands();
    for (auto [buffer, value] : llvm::zip(grid.results, results))
      e.store(buffer, e.emit(value, index), index);
  });
}

static FailureOr<KernelShape> emitGradient(GridFunction &grid,
                                           train::ReduceWindowGradientOp op) {
  ElementEmitter &e = grid.emitter;
  bool planning = e.isPlanning();
  Pooling pooling(e, op, op.getType(),
                  cast<RankedTensorType>(op.getCotangent().getType()));
  Type element = op.getType().getElementType();
  int64_t count = pooling.planes * ShapedType::getNumElements(pooling.loops.in);
  return grid.forEachItem(count, [&](Value item) {
    auto [plane, place] = splitItem(e, item, pooling.planes, pooling.loops.in);
    Value zero = planning
                     ? Value()
                     : getNeutral(e.scalars(), train::ReduceKind::Sum, element);
    Value self = planning ? Value() : e.linear(place);
    Value sum = pooling.loops.forWindows(
        place, zero, getComputeType(element),
        [&, plane = plane](llvm::ArrayRef<Digit>, llvm::ArrayRef<Digit> output,
                           Value sum) -> Value {
          Value cotangent =
              e.emit(op.getCotangent(), Pooling::getIndex(plane, output));
          bool isMax = pooling.kind == train::ReduceKind::Max;
          Value largest;
          if (isMax)
            largest =
                pooling.findLargest(op.getOperand(), plane, output).second;
          if (planning)
            return {};
          ScalarBuilder &b = e.scalars();
          Value next = b.add(sum, cotangent);
          return isMax ? b.select(b.compare(IP::eq, largest, self), next, sum)
                       : next;
        });
    e.store(grid.results[0],
            planning ? Value() : roundTo(e.scalars(), sum, element),
            Pooling::getIndex(plane, place));
  });
}

FailureOr<KernelShape> emit::emitWindowThreads(GridFunction &grid) {
  Operation *anchor = grid.kernel.getAnchor();
  if (auto op = dyn_cast<train::ReduceWindowOp>(anchor))
    return emitForward(grid, op);
  auto op = cast<train::ReduceWindowGradientOp>(anchor);
  auto results = grid.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 1 || results[0] != op.getResult())
    return grid.kernel.emitOpError(
        "must return its reduce_window_gradient and nothing else");
  return emitGradient(grid, op);
}
