//===- WindowKernel.cpp - Pooling and its gradient ------------------------===//
//
// A work item is one plane: the windowed dimensions for fixed leading ones. The
// bounds of the loops over a window leave out padding.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/KernelFunction.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

namespace {

class WindowKernel {
public:
  template <typename OpTy>
  WindowKernel(KernelFunction &function, OpTy op, RankedTensorType operand,
               RankedTensorType windowed)
      : function(function), e(function.emitter),
        in(operand.getShape().take_back(op.getWindow().size())),
        out(windowed.getShape().take_back(in.size())), window(op.getWindow()),
        strides(op.getStrides()), low(op.getPaddingLow()),
        dilation(op.getDilation()), kind(op.getKind()),
        element(operand.getElementType()) {
    for (int64_t size : operand.getShape().drop_back(in.size()))
      planes *= size;
  }

  KernelShape emitForward(train::ReduceWindowOp op);
  KernelShape emitGradient(train::ReduceWindowGradientOp op);

private:
  using Values = llvm::SmallVector<Value>;
  void forEachOutput(llvm::function_ref<void(llvm::ArrayRef<Digit>)> body);
  /// Loops over the elements of a window that are not padding.
  Values forWindow(
      llvm::ArrayRef<Digit> at, Values init,
      llvm::function_ref<Values(llvm::ArrayRef<Digit>, llvm::ArrayRef<Value>)>
          body,
      bool parallel);
  Index inPlane(llvm::ArrayRef<Digit> digits);
  Value number(int64_t value) {
    return e.isPlanning() ? Value() : e.scalars().i64(value);
  }
  void emitMaxGradient(train::ReduceWindowGradientOp op,
                       llvm::ArrayRef<Digit> at, Value cotangent);

  KernelFunction &function;
  ElementEmitter &e;
  llvm::ArrayRef<int64_t> in, out, window, strides, low, dilation;
  train::ReduceKind kind;
  Type element;
  int64_t planes = 1;
  Digit plane;
};

} // namespace

Index WindowKernel::inPlane(llvm::ArrayRef<Digit> digits) {
  Index index;
  if (plane.size != 1)
    index.push_back(plane);
  for (const Digit &digit : digits)
    if (digit.size != 1)
      index.push_back(digit);
  return index;
}

void WindowKernel::forEachOutput(
    llvm::function_ref<void(llvm::ArrayRef<Digit>)> body) {
  llvm::SmallVector<Digit> at;
  std::function<void(size_t)> nest = [&](size_t d) {
    if (d == out.size())
      return body(at);
    e.loop(
        number(0), number(out[d]),
        [&](Value i) {
          at.push_back(e.makeDigit(i, out[d]));
          nest(d + 1);
          at.pop_back();
        },
        /*parallel=*/false);
  };
  nest(0);
}

WindowKernel::Values WindowKernel::forWindow(
    llvm::ArrayRef<Digit> at, Values init,
    llvm::function_ref<Values(llvm::ArrayRef<Digit>, llvm::ArrayRef<Value>)>
        body,
    bool parallel) {
  llvm::SmallVector<Digit> places;
  std::function<Values(size_t, llvm::ArrayRef<Value>)> nest =
      [&](size_t d, llvm::ArrayRef<Value> carried) -> Values {
    if (d == in.size())
      return body(places, carried);
    Value first, lower, upper;
    if (!e.isPlanning()) {
      // place = first + tap * dilation lies in [0, in).
      ScalarBuilder &b = e.scalars();
      auto floorZero = [&](Value v, int64_t least) {
        return b.create<arith::MaxSIOp>(v, b.i64(least));
      };
      first = b.subInt(b.create<arith::MulIOp>(at[d].value, b.i64(strides[d])),
                       b.i64(low[d]));
      Value before = floorZero(b.subInt(b.i64(0), first), 0);
      lower = b.create<arith::DivUIOp>(b.addInt(before, b.i64(dilation[d] - 1)),
                                       b.i64(dilation[d]));
      Value last = floorZero(b.subInt(b.i64(in[d] - 1), first), -1);
      upper = b.create<arith::MinSIOp>(
          b.create<arith::DivUIOp>(b.addInt(last, b.i64(dilation[d])),
                                   b.i64(dilation[d])),
          b.i64(window[d]));
    }
    return e.loop(
        lower, upper, carried,
        [&](Value tap, llvm::ArrayRef<Value> inner) {
          Value place;
          if (!e.isPlanning())
            place = e.scalars().addInt(first,
                                       e.scalars().create<arith::MulIOp>(
                                           tap, e.scalars().i64(dilation[d])));
          places.push_back(e.makeDigit(place, in[d]));
          Values next = nest(d + 1, inner);
          places.pop_back();
          return next;
        },
        parallel);
  };
  return nest(0, init);
}

KernelShape WindowKernel::emitForward(train::ReduceWindowOp op) {
  function.forEachItem(planes, [&](Value item) {
    plane = e.makeDigit(item, planes);
    forEachOutput([&](llvm::ArrayRef<Digit> at) {
      Value neutral =
          e.isPlanning() ? Value() : getNeutral(e.scalars(), kind, element);
      Values result = forWindow(
          at, {neutral},
          [&](llvm::ArrayRef<Digit> places,
              llvm::ArrayRef<Value> carried) -> Values {
            Value x = e.emit(op.getOperand(), inPlane(places));
            return {e.isPlanning() ? Value()
                                   : combine(e.scalars(), kind, carried[0], x,
                                             element, false)};
          },
          true);
      Index index = inPlane(at);
      e.remember(op.getResult(), index,
                 e.isPlanning() ? Value()
                                : roundTo(e.scalars(), result[0], element));
      auto results = function.kernel.getBlock().getTerminator()->getOperands();
      for (auto [buffer, value] : llvm::zip(function.results, results))
        e.store(buffer, e.emit(value, index), index);
    });
  });
  return {planes, 1};
}

void WindowKernel::emitMaxGradient(train::ReduceWindowGradientOp op,
                                   llvm::ArrayRef<Digit> at, Value cotangent) {
  // The first largest element of the window, or the first NaN: its value, its
  // number in the plane (-1: none yet).
  bool planning = e.isPlanning();
  Value none = planning
                   ? Value()
                   : getNeutral(e.scalars(), train::ReduceKind::Max, element);
  Values best = forWindow(
      at, {none, number(-1)},
      [&](llvm::ArrayRef<Digit> places,
          llvm::ArrayRef<Value> carried) -> Values {
        Value x = e.emit(op.getOperand(), inPlane(places));
        if (planning)
          return {Value(), Value()};
        ScalarBuilder &b = e.scalars();
        Value keeps =
            b.either(b.isNaN(carried[0]), b.compare(FP::OLE, x, carried[0]));
        keeps = b.both(keeps, b.compare(IP::sge, carried[1], b.i64(0)));
        return {b.select(keeps, carried[0], x),
                b.select(keeps, carried[1], e.linear(places))};
      },
      true);
  int64_t planeSize = 1;
  for (int64_t size : in)
    planeSize *= size;
  Value found = planning
                    ? Value()
                    : e.scalars().compare(IP::sge, best[1], e.scalars().i64(0));
  e.branch(found, [&] {
    Digit place = e.makeDigit(best[1], planeSize);
    Index index = inPlane({place});
    Value old = e.load(function.results[0], index);
    e.store(function.results[0],
            planning ? Value() : e.scalars().add(old, cotangent), index);
  });
}

KernelShape WindowKernel::emitGradient(train::ReduceWindowGradientOp op) {
  bool planning = e.isPlanning();
  function.forEachItem(planes, [&](Value item) {
    plane = e.makeDigit(item, planes);
    int64_t planeSize = 1;
    for (int64_t size : in)
      planeSize *= size;
    e.loop(number(0), number(planeSize), [&](Value i) {
      e.store(function.results[0],
              planning
                  ? Value()
                  : getNeutral(e.scalars(), train::ReduceKind::Sum, element),
              inPlane({e.makeDigit(i, planeSize)}));
    });
    forEachOutput([&](llvm::ArrayRef<Digit> at) {
      Value cotangent = e.emit(op.getCotangent(), inPlane(at));
      if (kind == train::ReduceKind::Max)
        return emitMaxGradient(op, at, cotangent);
      forWindow(
          at, {},
          [&](llvm::ArrayRef<Digit> places, llvm::ArrayRef<Value>) -> Values {
            Index index = inPlane(places);
            Value old = e.load(function.results[0], index);
            e.store(function.results[0],
                    planning ? Value() : e.scalars().add(old, cotangent),
                    index);
            return {};
          },
          false);
    });
  });
  return {planes, 1};
}

FailureOr<KernelShape> emit::emitWindowItems(KernelFunction &function) {
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
