//===- LoopKernel.cpp - Pointwise work and reductions ---------------------===//
//
// The loops over the domain (LoopAnalysis.h) are those of loop shape 0, split
// where an operation needs it. What is an item depends on the form:
// - pointwise: a block of the outer loop of the last few loops;
// - rows: a row. Stages of loops over the reduced part, one per set of reduces
//   that do not depend on each other, then one that stores;
// - columns: a block of columns, whose running results are in an array on the
//   stack, so that memory is read along rows and the sums of several columns
//   are one vector.
//
// Row-level results are computed before anything of the row's elements is
// stored, since an element may be stored over an argument.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/LoopAnalysis.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

// Elements per item of pointwise work; enough to hide the cost of an item, few
// enough to spread over threads.
static constexpr int64_t pointwiseElements = 4096;
// Trailing loops are joined into an item until they have this many elements.
static constexpr int64_t leastInnerElements = 512;

namespace {

/// Which loops of shape 0 make up the items, and which run inside one.
struct Partition {
  llvm::SmallVector<int> items; ///< one value per item each
  int blocked = -1;             ///< cut into blocks of `block`, one per item
  int64_t block = 1, blocks = 1;
  llvm::SmallVector<int>
      inner;         ///< whole loops inside an item, `blocked` not included
  int64_t count = 1; ///< items
};

class LoopKernel {
public:
  explicit LoopKernel(HostFunction &function)
      : function(function), e(function.emitter), kernel(function.kernel),
        domain(function.kernel) {}
  KernelShape run();

private:
  Partition partition();
  void emitItem(Value item);

  // Row-level values, in the forms with reduces.
  void emitStages();
  void emitRowStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  void emitColumnStage(const Stage &stage, llvm::ArrayRef<unsigned> results);
  void emitRowResults();
  void emitElementResults();
  void emitOtherResults(Value item);

  /// The loop over the blocked position: gives its digit.
  void forBlock(llvm::function_ref<void()> body, bool fromZero);
  /// The loops `part.inner`, then `body` with all digits of the domain set.
  void forInner(llvm::function_ref<void()> body);
  Index domainIndex() { return Index(digits.begin(), digits.end()); }
  Index rowIndex();
  bool isReduced(int position) {
    return domain.runs[shape().group[position]].reduced;
  }
  LoopShape &shape() { return e.shapes.list[0]; }
  void storeElements(llvm::ArrayRef<unsigned> which);

  HostFunction &function;
  ElementEmitter &e;
  plan::KernelOp kernel;
  LoopAnalysis domain;
  Partition part;
  llvm::SmallVector<Digit> digits; ///< per position of shape 0
  Value blockStart, blockCount;
  std::map<int64_t, Value>
      columnOf; ///< digit id of the blocked loop -> iteration
};

} // namespace

Partition LoopKernel::partition() {
  Partition result;
  llvm::ArrayRef<int64_t> sizes = shape().sizes;
  int last = int(sizes.size()) - 1;
  if (domain.form == LoopForm::Pointwise && last >= 0) {
    int64_t inner = 1;
    int position = last;
    for (; position > 0 && inner * sizes[position] < leastInnerElements;
         --position) {
      inner *= sizes[position];
      result.inner.insert(result.inner.begin(), position);
    }
    result.blocked = position;
    result.block = std::min(sizes[position],
                            std::max<int64_t>(1, pointwiseElements / inner));
    // No small rest: a row of a little more than one block stays whole.
    if (sizes[position] * inner < 2 * pointwiseElements)
      result.block = sizes[position];
    for (int i = 0; i < position; ++i)
      result.items.push_back(i);
  }
  if (domain.form == LoopForm::Columns) {
    result.blocked = last;
    // Wide enough to read whole cache lines along a row, narrow enough to give
    // every thread some.
    int64_t wanted = llvm::alignTo(llvm::divideCeil(sizes[last], 8), 64);
    result.block = std::min(sizes[last], std::clamp<int64_t>(wanted, 64, 1024));
  }
  if (domain.form != LoopForm::Pointwise)
    for (int i = 0; i <= last; ++i) {
      if (isReduced(i))
        result.inner.push_back(i);
      else if (i != result.blocked)
        result.items.push_back(i);
    }
  if (result.blocked >= 0)
    result.blocks = llvm::divideCeil(sizes[result.blocked], result.block);
  result.count = result.blocks;
  for (int i : result.items)
    result.count *= sizes[i];
  return result;
}

KernelShape LoopKernel::run() {
  if (e.shapes.list.empty()) {
    llvm::SmallVector<int64_t> sizes;
    for (const Run &run : domain.runs)
      sizes.push_back(run.size);
    e.shapes.list.push_back(LoopShape::get(sizes));
  }
  part = partition();
  digits.resize(shape().sizes.size());
  function.forEachItem(part.count, [&](Value item) { emitItem(item); });
  int64_t perItem = std::max<int64_t>(1, domain.domainSize / part.count);
  return {part.count, std::max<int64_t>(1, pointwiseElements / perItem)};
}

void LoopKernel::emitItem(Value item) {
  ScalarBuilder *b = e.isPlanning() ? nullptr : &e.scalars();
  // item = (values of the item loops, block), mixed radix.
  Value left = item;
  auto take = [&](int64_t size, bool isLast) -> Value {
    if (!b)
      return {};
    if (isLast)
      return left;
    Value low = b->create<arith::RemUIOp>(left, b->i64(size));
    left = b->create<arith::DivUIOp>(left, b->i64(size));
    return low;
  };
  if (part.blocked >= 0) {
    int64_t size = shape().sizes[part.blocked];
    Value block = take(part.blocks, part.items.empty());
    if (b) {
      blockStart = b->create<arith::MulIOp>(block, b->i64(part.block),
                                            arith::IntegerOverflowFlags::nsw);
      Value rest = b->create<arith::SubIOp>(b->i64(size), blockStart,
                                            arith::IntegerOverflowFlags::nsw);
      // A constant where all blocks are alike, so that the loops have no rest.
      blockCount = size % part.block == 0
                       ? b->i64(part.block)
                       : b->create<arith::MinSIOp>(rest, b->i64(part.block));
      if (part.blocks == 1)
        blockStart = b->i64(0);
    }
  }
  for (size_t i = part.items.size(); i-- > 0;) {
    int64_t size = shape().sizes[part.items[i]];
    digits[part.items[i]] =
        e.makeDigit(take(size, i == 0), size, 0, part.items[i]);
  }
  emitStages();
  if (domain.form == LoopForm::Rows)
    emitRowResults(); // Stores the elements, too.
  else {
    if (domain.form == LoopForm::Columns)
      emitRowResults();
    emitElementResults();
  }
  emitOtherResults(item);
}

Index LoopKernel::rowIndex() {
  Index index;
  for (auto [i, digit] : llvm::enumerate(digits))
    if (!isReduced(i))
      index.push_back(digit);
  return index;
}

void LoopKernel::forBlock(llvm::function_ref<void()> body, bool fromZero) {
  int64_t size = shape().sizes[part.blocked];
  Value lower, upper;
  if (!e.isPlanning()) {
    ScalarBuilder &b = e.scalars();
    lower = fromZero ? b.i64(0) : blockStart;
    upper = fromZero
                ? blockCount
                : b.create<arith::AddIOp>(blockStart, blockCount,
                                          arith::IntegerOverflowFlags::nsw);
  }
  e.loop(lower, upper, [&](Value i) {
    Value value = i;
    if (fromZero && !e.isPlanning())
      value = e.scalars().create<arith::AddIOp>(
          blockStart, i, arith::IntegerOverflowFlags::nsw);
    digits[part.blocked] = e.makeDigit(value, size, 0, part.blocked);
    if (fromZero)
      columnOf[digits[part.blocked].id] = i;
    body();
  });
}

void LoopKernel::forInner(llvm::function_ref<void()> body) {
  e.loops(0, part.inner, {},
          [&](llvm::ArrayRef<Digit> inner, llvm::ArrayRef<Value>) {
            for (auto [position, digit] : llvm::zip(part.inner, inner))
              digits[position] = digit;
            body();
            return llvm::SmallVector<Value>();
          });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void LoopKernel::emitStages() {
  for (auto &stage : domain.stages) {
    llvm::ArrayRef<unsigned> results;
    if (&stage == &domain.stages.front())
      results = domain.earlyResults;
    if (domain.form == LoopForm::Rows)
      emitRowStage(stage, results);
    else
      emitColumnStage(stage, results);
  }
}

void LoopKernel::emitRowStage(const Stage &stage,
                              llvm::ArrayRef<unsigned> results) {
  llvm::SmallVector<Value> init(stage.size());
  if (!e.isPlanning())
    for (auto [value, op] : llvm::zip(init, stage)) {
      train::ReduceOp reduce = op;
      value =
          getNeutral(e.scalars(), reduce.getKind(), getReducedElement(reduce));
    }
  llvm::SmallVector<Value> sums =
      e.loops(0, part.inner, init,
              [&](llvm::ArrayRef<Digit> inner, llvm::ArrayRef<Value> carried) {
                for (auto [position, digit] : llvm::zip(part.inner, inner))
                  digits[position] = digit;
                llvm::SmallVector<Value> next;
                for (auto [op, sum] : llvm::zip(stage, carried)) {
                  train::ReduceOp reduce = op;
                  Value element = e.emit(reduce.getOperand(), domainIndex());
                  next.push_back(
                      e.isPlanning()
                          ? Value()
                          : combine(e.scalars(), reduce.getKind(), sum, element,
                                    getReducedElement(reduce), true));
                }
                storeElements(results);
                return next;
              });
  for (auto [op, sum] : llvm::zip(stage, sums)) {
    train::ReduceOp reduce = op;
    e.remember(reduce.getResult(), rowIndex(),
               e.isPlanning()
                   ? Value()
                   : roundTo(e.scalars(), sum, getReducedElement(reduce)));
  }
}

void LoopKernel::emitColumnStage(const Stage &stage,
                                 llvm::ArrayRef<unsigned> results) {
  // The running results of the block's columns. Stored and loaded by iteration,
  // in the type of computation.
  llvm::SmallVector<Buffer> sums;
  for (train::ReduceOp reduce : stage) {
    Type type = getComputeType(getReducedElement(reduce));
    sums.push_back({e.stackBuffer(getStorageType(type), part.block), type});
  }
  auto column = [&] {
    return Digit{e.isPlanning() ? Value() : columnOf[digits[part.blocked].id],
                 part.block, -1, e.currentLevel()};
  };
  forBlock(
      [&] {
        for (auto [op, sum] : llvm::zip(stage, sums)) {
          train::ReduceOp reduce = op;
          e.store(sum,
                  e.isPlanning() ? Value()
                                 : getNeutral(e.scalars(), reduce.getKind(),
                                              getReducedElement(reduce)),
                  {column()});
        }
      },
      true);
  forInner([&] {
    forBlock(
        [&] {
          llvm::SmallVector<Value> next;
          for (auto [op, sum] : llvm::zip(stage, sums)) {
            train::ReduceOp reduce = op;
            Value element = e.emit(reduce.getOperand(), domainIndex());
            Value old = e.load(sum, {column()});
            next.push_back(e.isPlanning()
                               ? Value()
                               : combine(e.scalars(), reduce.getKind(), old,
                                         element, getReducedElement(reduce),
                                         false));
          }
          storeElements(results);
          for (auto [value, sum] : llvm::zip(next, sums))
            e.store(sum, value, {column()});
        },
        true);
  });
  for (auto [op, sum] : llvm::zip(stage, sums)) {
    train::ReduceOp reduce = op;
    e.provide(reduce.getResult(),
              [this, reduce,
               sum = sum](llvm::ArrayRef<Digit> index) -> std::optional<Value> {
                // The row at hand, at any iteration of the loop over the block.
                Index row = rowIndex();
                if (index.size() != row.size() || index.empty() ||
                    !columnOf.count(index.back().id))
                  return std::nullopt;
                for (auto [asked, present] : llvm::zip(
                         index.drop_back(), llvm::ArrayRef(row).drop_back()))
                  if (asked.id != present.id)
                    return std::nullopt;
                if (e.isPlanning())
                  return Value();
                Digit column{columnOf[index.back().id], part.block, -1,
                             index.back().level};
                return roundTo(e.scalars(), e.load(sum, {column}),
                               getReducedElement(reduce));
              });
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void LoopKernel::emitRowResults() {
  auto results = kernel.getBlock().getTerminator()->getOperands();
  if (domain.form == LoopForm::Columns) {
    if (!domain.rowResults.empty())
      forBlock(
          [&] {
            storeResults(function, domain.rowResults,
                         [&](Value) { return rowIndex(); });
          },
          true);
    return;
  }
  // Computed before the elements are stored.
  for (unsigned i : domain.rowResults)
    e.emit(results[i], rowIndex());
  emitElementResults();
  storeResults(function, domain.rowResults, [&](Value) { return rowIndex(); });
}

void LoopKernel::storeElements(llvm::ArrayRef<unsigned> which) {
  storeResults(function, which, [&](Value result) {
    return domain.getResultIndex(e, result, domainIndex());
  });
}

void LoopKernel::emitElementResults() {
  llvm::SmallVector<unsigned> late = domain.getLateResults();
  if (late.empty())
    return;
  auto body = [&] { storeElements(late); };
  if (domain.form == LoopForm::Rows || part.blocked < 0)
    forInner(body);
  else if (domain.form == LoopForm::Columns)
    forInner([&] { forBlock(body, true); });
  else
    forBlock([&] { forInner(body); }, false);
}

void LoopKernel::emitOtherResults(Value item) {
  auto results = kernel.getBlock().getTerminator()->getOperands();
  for (unsigned i : domain.otherResults) {
    // Element numbers [item * n / items, (item + 1) * n / items).
    int64_t size = getNumElements(results[i]);
    Value lower, upper;
    if (!e.isPlanning()) {
      ScalarBuilder &b = e.scalars();
      auto bound = [&](Value at) {
        return b.create<arith::DivUIOp>(
            b.create<arith::MulIOp>(at, b.i64(size)), b.i64(part.count));
      };
      lower = bound(item);
      upper = bound(b.addInt(item, b.i64(1)));
    }
    e.loop(lower, upper, [&](Value number) {
      Index index;
      if (size != 1)
        index.push_back(e.makeDigit(number, size));
      storeResults(function, {i}, [&](Value) { return index; });
    });
  }
}

FailureOr<KernelShape> emit::emitLoopItems(HostFunction &function) {
  return LoopKernel(function).run();
}
