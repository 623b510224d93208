//===- ScanKernel.cpp - Running reductions, positions of extremes ---------===//
//
// A work item is one row along the scanned dimension. Results may follow from
// the anchor by pointwise work and reshapes.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScanRows.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

ScanRows::ScanRows(Operation *anchor) {
  auto cumulative = dyn_cast<train::CumulativeOp>(anchor);
  int64_t dimension = cumulative
                          ? cumulative.getDimension()
                          : cast<train::ArgReduceOp>(anchor).getDimension();
  auto type = cast<RankedTensorType>(anchor->getOperand(0).getType());
  for (auto [dim, length] : llvm::enumerate(type.getShape()))
    (int64_t(dim) < dimension    ? outer
     : int64_t(dim) == dimension ? size
                                 : inner) *= length;
}

std::pair<Digit, Digit> ScanRows::split(ElementEmitter &e, Value row) const {
  Value high, low;
  if (!e.isPlanning()) {
    high = e.scalars().create<arith::DivUIOp>(row, e.number(inner));
    low = e.scalars().create<arith::RemUIOp>(row, e.number(inner));
  }
  return {e.makeDigit(high, outer), e.makeDigit(low, inner)};
}

void emit::storeScanResults(KernelFunction &function,
                            llvm::ArrayRef<Digit> index) {
  ElementEmitter &e = function.emitter;
  auto results = function.kernel.getBlock().getTerminator()->getOperands();
  for (auto [buffer, result] : llvm::zip(function.results, results))
    e.store(buffer, e.emit(result, index), index);
}

Index emit::makeIndex(llvm::ArrayRef<Digit> digits) {
  Index index;
  for (const Digit &digit : digits)
    if (digit.size != 1)
      index.push_back(digit);
  return index;
}

Value emit::isBetter(ScalarBuilder &b, train::ReduceKind kind, Value x,
                     Value best, Type element) {
  bool max = kind == train::ReduceKind::Max;
  if (!isa<FloatType>(x.getType())) {
    bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
    return b.compare(max ? (isUnsigned ? IP::ugt : IP::sgt)
                         : (isUnsigned ? IP::ult : IP::slt),
                     x, best);
  }
  Value firstNaN = b.both(b.isNaN(x), b.compare(FP::ORD, best, best));
  return b.either(b.compare(max ? FP::OGT : FP::OLT, x, best), firstNaN);
}

static void emitCumulativeRow(HostFunction &function, train::CumulativeOp op,
                              Digit outer, Digit inner, int64_t size) {
  ElementEmitter &e = function.emitter;
  bool planning = e.isPlanning();
  Type element = getElementTypeOrSelf(op.getType());
  Value zero, end, neutral;
  if (!planning) {
    zero = e.scalars().i64(0), end = e.scalars().i64(size);
    neutral = getNeutral(e.scalars(), op.getKind(), element);
  }
  e.loop(
      zero, end, {neutral},
      [&](Value i, llvm::ArrayRef<Value> carried) -> llvm::SmallVector<Value> {
        Value position = i;
        if (op.getReverse() && !planning)
          position = e.scalars().subInt(e.scalars().i64(size - 1), i);
        Index index = makeIndex({outer, e.makeDigit(position, size), inner});
        Value x = e.emit(op.getOperand(), index), next;
        if (!planning)
          next =
              combine(e.scalars(), op.getKind(), carried[0], x, element, false);
        e.remember(op.getResult(), index,
                   planning ? Value() : roundTo(e.scalars(), next, element));
        storeScanResults(function, index);
        return {next};
      },
      /*parallel=*/false);
}

static void emitArgReduceRow(HostFunction &function, train::ArgReduceOp op,
                             Digit outer, Digit inner, int64_t size) {
  ElementEmitter &e = function.emitter;
  bool planning = e.isPlanning();
  Type element = getElementTypeOrSelf(op.getOperand().getType());
  Index row = makeIndex({outer, inner});
  Value zero, end, neutral;
  if (!planning) {
    zero = e.scalars().i64(0), end = e.scalars().i64(size);
    neutral = getNeutral(e.scalars(), op.getKind(), element);
  }
  llvm::SmallVector<Value> best = e.loop(
      zero, end, {neutral, zero},
      [&](Value i, llvm::ArrayRef<Value> carried) -> llvm::SmallVector<Value> {
        Value x = e.emit(op.getOperand(),
                         makeIndex({outer, e.makeDigit(i, size), inner}));
        if (planning)
          return {Value(), Value()};
        ScalarBuilder &b = e.scalars();
        Value better = isBetter(b, op.getKind(), x, carried[0], element);
        return {b.select(better, x, carried[0]),
                b.select(better, i, carried[1])};
      });
  e.remember(op.getResult(), row, best[1]);
  storeScanResults(function, row);
}

FailureOr<KernelShape> emit::emitScanItems(HostFunction &function) {
  ElementEmitter &e = function.emitter;
  Operation *anchor = function.kernel.getAnchor();
  ScanRows rows(anchor);
  function.forEachItem(rows.count(), [&](Value item) {
    auto [outer, inner] = rows.split(e, item);
    if (auto cumulative = dyn_cast<train::CumulativeOp>(anchor))
      emitCumulativeRow(function, cumulative, outer, inner, rows.size);
    else
      emitArgReduceRow(function, cast<train::ArgReduceOp>(anchor), outer, inner,
                       rows.size);
  });
  return KernelShape{rows.count(), std::max<int64_t>(1, 1024 / rows.size)};
}
