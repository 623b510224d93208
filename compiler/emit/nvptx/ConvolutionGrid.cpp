//===- ConvolutionGrid.cpp - Convolutions and their gradients -------------===//
//
// Direct sums: a thread takes one element of the result; of the filter's
// gradient, whose sums are over all images and places, a block does.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScanRows.h"
#include "compiler/emit/loops/WindowLoops.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

namespace {

/// The dimensions of a convolution as numbers. Channels are (group, channel of
/// the group).
class ConvolutionGrid {
public:
  template <typename OpTy>
  ConvolutionGrid(GridFunction &grid, OpTy op, Value input, Value filter,
                  Value output)
      : grid(grid), e(grid.emitter), inputType(typeOf(input)),
        filterType(typeOf(filter)), outputType(typeOf(output)),
        loops(WindowLoops::get(e, op, filterType.getShape().drop_front(2),
                               inputType, outputType)),
        images(inputType.getDimSize(0)), groups(op.getGroups()),
        inputs(filterType.getDimSize(1)),
        outputs(filterType.getDimSize(0) / groups),
        element(outputType.getElementType()) {}

  KernelShape emitForward(train::ConvolutionOp op);
  KernelShape emitInputGradient(train::ConvolutionInputGradientOp op);
  KernelShape emitFilterGradient(train::ConvolutionFilterGradientOp op);

private:
  using Digits = llvm::SmallVector<Digit>;

  static RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  /// A number as digits of these sizes; those of size 1 are constants.
  Digits split(Value number, llvm::ArrayRef<int64_t> leading,
               llvm::ArrayRef<int64_t> trailing);
  static Index join(llvm::ArrayRef<Digit> leading,
                    llvm::ArrayRef<Digit> trailing) {
    Digits digits(leading);
    digits.append(trailing.begin(), trailing.end());
    return makeIndex(digits);
  }
  Value zero() {
    return e.isPlanning()
               ? Value()
               : getNeutral(e.scalars(), train::ReduceKind::Sum, element);
  }
  /// sum + a b
  Value accumulate(Value sum, Value a, Value b) {
    return e.isPlanning() ? Value()
                          : e.scalars().add(sum, e.scalars().mul(a, b));
  }
  void store(Value sum, llvm::ArrayRef<Digit> digits) {
    e.store(grid.results[0],
            e.isPlanning() ? Value() : roundTo(e.scalars(), sum, element),
            makeIndex(digits));
  }

  GridFunction &grid;
  ElementEmitter &e;
  RankedTensorType inputType, filterType, outputType;
  WindowLoops loops;
  int64_t images, groups;
  int64_t inputs, outputs; ///< channels of a group
  Type element;
};

} // namespace

ConvolutionGrid::Digits
ConvolutionGrid::split(Value number, llvm::ArrayRef<int64_t> leading,
                       llvm::ArrayRef<int64_t> trailing) {
  llvm::SmallVector<int64_t> sizes(leading);
  sizes.append(trailing.begin(), trailing.end());
  int64_t count = ShapedType::getNumElements(sizes);
  Index index;
  if (count != 1)
    index.push_back(e.makeDigit(number, count));
  Digits digits;
  for (const Index &group : e.splitGroups(index, sizes))
    digits.push_back(group.empty() ? e.zeroDigit() : group.front());
  return digits;
}

KernelShape ConvolutionGrid::emitForward(train::ConvolutionOp op) {
  return grid.forEachItem(outputType.getNumElements(), [&](Value item) {
    Digits item_ = split(item, {images, groups, outputs}, loops.out);
    Digit image = item_[0], group = item_[1], output = item_[2];
    llvm::ArrayRef<Digit> at = llvm::ArrayRef(item_).drop_front(3);
    GridFunction::Values sum = e.loop(
        e.number(0), e.number(inputs), {zero()},
        [&](Value i, llvm::ArrayRef<Value> carried) {
          Digit input = e.makeDigit(i, inputs);
          return loops.forTaps(
              at, carried,
              [&](llvm::ArrayRef<Digit> taps, llvm::ArrayRef<Digit> places,
                  llvm::ArrayRef<Value> inner) -> WindowLoops::Values {
                Value x =
                    e.emit(op.getInput(), join({image, group, input}, places));
                Value w =
                    e.emit(op.getFilter(), join({group, output, input}, taps));
                return {accumulate(inner[0], x, w)};
              });
        });
    store(sum[0], item_);
  });
}

KernelShape
ConvolutionGrid::emitInputGradient(train::ConvolutionInputGradientOp op) {
  return grid.forEachItem(inputType.getNumElements(), [&](Value item) {
    Digits item_ = split(item, {images, groups, inputs}, loops.in);
    Digit image = item_[0], group = item_[1], input = item_[2];
    llvm::ArrayRef<Digit> place = llvm::ArrayRef(item_).drop_front(3);
    Value sum = loops.forWindows(
        place, zero(), getComputeType(element),
        [&](llvm::ArrayRef<Digit> taps, llvm::ArrayRef<Digit> at,
            Value sum) -> Value {
          return e.loop(
              e.number(0), e.number(outputs), {sum},
              [&](Value i,
                  llvm::ArrayRef<Value> carried) -> GridFunction::Values {
                Digit output = e.makeDigit(i, outputs);
                Value dy =
                    e.emit(op.getCotangent(), join({image, group, output}, at));
                Value w =
                    e.emit(op.getFilter(), join({group, output, input}, taps));
                return {accumulate(carried[0], dy, w)};
              })[0];
        });
    store(sum, item_);
  });
}

KernelShape
ConvolutionGrid::emitFilterGradient(train::ConvolutionFilterGradientOp op) {
  int64_t places = images * ShapedType::getNumElements(loops.out);
  int64_t threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(places / 4),
                                        kWarpSize, kBlockThreads);
  grid.setGrid(filterType.getNumElements(), threads);
  Digits item = split(grid.block, {groups, outputs, inputs}, loops.window);
  Digit group = item[0], output = item[1], input = item[2];
  llvm::ArrayRef<Digit> taps = llvm::ArrayRef(item).drop_front(3);
  GridFunction::Values sum = e.loop(
      grid.thread, e.number(places), {zero()},
      [&](Value i, llvm::ArrayRef<Value> carried) -> GridFunction::Values {
        Digits digits = split(i, {images}, loops.out);
        llvm::ArrayRef<Digit> at = llvm::ArrayRef(digits).drop_front(1);
        Value inside;
        llvm::SmallVector<Value> numbers(loops.in.size());
        for (size_t d = 0; d < loops.in.size() && !e.isPlanning(); ++d) {
          ScalarBuilder &b = e.scalars();
          numbers[d] =
              b.addInt(b.subInt(b.create<arith::MulIOp>(
                                    at[d].value, e.number(loops.strides[d])),
                                e.number(loops.low[d])),
                       b.create<arith::MulIOp>(taps[d].value,
                                               e.number(loops.dilation[d])));
          // Unsigned: what lies before the image is far behind it.
          Value here = b.compare(IP::ult, numbers[d], e.number(loops.in[d]));
          inside = inside ? b.both(inside, here) : here;
        }
        auto accumulateHere = [&] {
          Digits here;
          for (auto [number, size] : llvm::zip(numbers, loops.in))
            here.push_back(e.makeDigit(number, size));
          Value x =
              e.emit(op.getInput(), join({digits[0], group, input}, here));
          Value dy =
              e.emit(op.getCotangent(), join({digits[0], group, output}, at));
          return accumulate(carried[0], x, dy);
        };
        return {e.branch(inside, getComputeType(element), accumulateHere,
                         [&] { return carried[0]; })};
      },
      /*parallel=*/true, e.number(threads));
  sum =
      grid.reduceThreads(sum, threads,
                         [&](llvm::ArrayRef<Value> x,
                             llvm::ArrayRef<Value> y) -> GridFunction::Values {
                           return {e.scalars().add(x[0], y[0])};
                         });
  Value isFirst;
  if (!e.isPlanning())
    isFirst = e.scalars().compare(IP::eq, grid.thread, e.number(0));
  e.branch(isFirst, [&] { store(sum[0], item); });
  return grid.getBlockShape();
}

FailureOr<KernelShape> emit::emitConvolutionThreads(GridFunction &grid) {
  Operation *anchor = grid.kernel.getAnchor();
  auto results = grid.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 1 || results[0] != anchor->getResult(0))
    return grid.kernel.emitOpError("must return its ")
           << anchor->getName() << " and nothing else";
  if (auto op = dyn_cast<train::ConvolutionOp>(anchor))
    return ConvolutionGrid(grid, op, op.getInput(), op.getFilter(),
                           op.getResult())
        .emitForward(op);
  if (auto op = dyn_cast<train::ConvolutionInputGradientOp>(anchor))
    return ConvolutionGrid(grid, op, op.getResult(), op.getFilter(),
                           op.getCotangent())
        .emitInputGradient(op);
  auto op = cast<train::ConvolutionFilterGradientOp>(anchor);
  return ConvolutionGrid(grid, op, op.getInput(), op.getResult(),
                         op.getCotangent())
      .emitFilterGradient(op);
}
