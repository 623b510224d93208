//===- WindowLoops.cpp - Loops over sliding windows -----------------------===//
#include "compiler/emit/loops/WindowLoops.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

namespace {
/// The taps [lower, upper) that lie in the operand, and the place of tap 0.
struct TapRange {
  Value first, lower, upper;
};
} // namespace

static TapRange getTapRange(const WindowLoops &w, size_t d, Value at) {
  ElementEmitter &e = w.e;
  if (e.isPlanning())
    return {};
  ScalarBuilder &b = e.scalars();
  auto atLeast = [&](Value v, int64_t least) {
    return b.create<arith::MaxSIOp>(v, e.number(least));
  };
  Value step = e.number(w.dilation[d]);
  Value first = b.subInt(b.create<arith::MulIOp>(at, e.number(w.strides[d])),
                         e.number(w.low[d]));
  Value before = atLeast(b.subInt(e.number(0), first), 0);
  Value lower = b.create<arith::DivUIOp>(
      b.addInt(before, e.number(w.dilation[d] - 1)), step);
  Value last = atLeast(b.subInt(e.number(w.in[d] - 1), first), -1);
  Value upper = b.create<arith::MinSIOp>(
      b.create<arith::DivUIOp>(b.addInt(last, step), step),
      e.number(w.window[d]));
  return {first, lower, upper};
}

WindowLoops::Values WindowLoops::forTaps(
    Digits at, llvm::ArrayRef<Value> init,
    llvm::function_ref<Values(Digits, Digits, llvm::ArrayRef<Value>)> body,
    bool parallel) {
  llvm::SmallVector<Digit> taps, places;
  std::function<Values(size_t, llvm::ArrayRef<Value>)> nest =
      [&](size_t d, llvm::ArrayRef<Value> carried) -> Values {
    if (d == in.size())
      return body(taps, places, carried);
    TapRange range = getTapRange(*this, d, at[d].value);
    return e.loop(
        range.lower, range.upper, carried,
        [&](Value tap, llvm::ArrayRef<Value> inner) {
          Value place;
          if (!e.isPlanning())
            place = e.scalars().addInt(
                range.first,
                e.scalars().create<arith::MulIOp>(tap, e.number(dilation[d])));
          taps.push_back(e.makeDigit(tap, window[d]));
          places.push_back(e.makeDigit(place, in[d]));
          Values next = nest(d + 1, inner);
          taps.pop_back();
          places.pop_back();
          return next;
        },
        parallel);
  };
  return nest(0, init);
}

Value WindowLoops::forWindows(
    Digits place, Value init, Type type,
    llvm::function_ref<Value(Digits, Digits, Value)> body) {
  llvm::SmallVector<Digit> taps, outputs;
  Value inside;
  std::function<Value(size_t, Value)> nest = [&](size_t d,
                                                 Value carried) -> Value {
    if (d == in.size())
      return e.branch(
          inside, type,
          [&] {
            // At this level, so that nothing of it is hoisted out.
            llvm::SmallVector<Digit> here;
            for (const Digit &digit : outputs)
              here.push_back(e.makeDigit(digit.value, digit.size));
            return body(taps, here, carried);
          },
          [&] { return carried; });
    Value outer = inside;
    Values result = e.loop(
        e.number(0), e.number(window[d]), {carried},
        [&](Value i, llvm::ArrayRef<Value> inner) -> Values {
          // Later taps belong to earlier windows.
          Value tap, output;
          if (!e.isPlanning()) {
            ScalarBuilder &b = e.scalars();
            tap = b.subInt(e.number(window[d] - 1), i);
            // output * stride = place + low - tap * dilation; below 0 counts as
            // far behind the last.
            Value position =
                b.subInt(b.addInt(place[d].value, e.number(low[d])),
                         b.create<arith::MulIOp>(tap, e.number(dilation[d])));
            Value stride = e.number(strides[d]);
            output = b.create<arith::DivUIOp>(position, stride);
            Value here = b.both(b.compare(IP::sge, position, e.number(0)),
                                b.compare(IP::ult, output, e.number(out[d])));
            if (strides[d] > 1)
              here = b.both(
                  here,
                  b.compare(IP::eq, b.create<arith::RemUIOp>(position, stride),
                            e.number(0)));
            inside = outer ? b.both(outer, here) : here;
          }
          taps.push_back(e.makeDigit(tap, window[d]));
          outputs.push_back(e.makeDigit(output, out[d]));
          Value next = nest(d + 1, inner[0]);
          taps.pop_back();
          outputs.pop_back();
          return {next};
        },
        /*parallel=*/false);
    inside = outer;
    return result[0];
  };
  return nest(0, init);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

Index Pooling::getIndex(Digit plane, llvm::ArrayRef<Digit> digits) {
  Index index;
  if (plane.size != 1)
    index.push_back(plane);
  for (const Digit &digit : digits)
    if (digit.size != 1)
      index.push_back(digit);
  return index;
}

Index Pooling::emitWindow(train::ReduceWindowOp op, Digit plane,
                          llvm::ArrayRef<Digit> at) {
  bool planning = e.isPlanning();
  Value neutral = planning ? Value() : getNeutral(e.scalars(), kind, element);
  WindowLoops::Values result =
      loops.forTaps(at, {neutral},
                    [&](llvm::ArrayRef<Digit>, llvm::ArrayRef<Digit> places,
                        llvm::ArrayRef<Value> carried) -> WindowLoops::Values {
                      Value x =
                          e.emit(op.getOperand(), getIndex(plane, places));
                      return {planning ? Value()
                                       : combine(e.scalars(), kind, carried[0],
                                                 x, element, false)};
                    });
  Index index = getIndex(plane, at);
  e.remember(op.getResult(), index,
             planning ? Value() : roundTo(e.scalars(), result[0], element));
  return index;
}

std::pair<Value, Value> Pooling::findLargest(Value operand, Digit plane,
                                             llvm::ArrayRef<Digit> at) {
  bool planning = e.isPlanning();
  Value none = planning
                   ? Value()
                   : getNeutral(e.scalars(), train::ReduceKind::Max, element);
  WindowLoops::Values best = loops.forTaps(
      at, {none, e.number(-1)},
      [&](llvm::ArrayRef<Digit>, llvm::ArrayRef<Digit> places,
          llvm::ArrayRef<Value> carried) -> WindowLoops::Values {
        Value x = e.emit(operand, getIndex(plane, places));
        if (planning)
          return {Value(), Value()};
        ScalarBuilder &b = e.scalars();
        Value keeps =
            b.either(b.isNaN(carried[0]), b.compare(FP::OLE, x, carried[0]));
        keeps = b.both(keeps, b.compare(IP::sge, carried[1], e.number(0)));
        return {b.select(keeps, carried[0], x),
                b.select(keeps, carried[1], e.linear(places))};
      });
  return {best[0], best[1]};
}
