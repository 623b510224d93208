//===- LoopKernel.cpp - Pointwise work and reductions ---------------------===//
//
// A kernel of kind `loop` has one domain: what its reduces reduce, or its
// largest result. Its loops are those of loop shape 0, split where an operation
// needs it. Three forms:
//   pointwise  no reduce: an item is a block of the outer loop of the last few
//   loops rows       the innermost loop is reduced: an item is a row; stages of
//   loops over the reduced part, one per set of reduces that do not
//              depend on each other, then one that stores
//   columns    the innermost loop is kept: an item is a block of columns, whose
//   running results are in an array on the stack, so that
//              memory is read along rows and the sums of several columns are
//              one vector
// Row-level results are computed before anything of the row's elements is
// stored, since an element may be stored over an argument.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/KernelFunction.h"
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

enum class Form { Pointwise, Rows, Columns };

/// Reduces that run in one loop nest.
using Stage = llvm::SmallVectorImpl<train::ReduceOp> &;

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
  explicit LoopKernel(KernelFunction &function)
      : function(function), e(function.emitter), kernel(function.kernel) {}
  KernelShape run();

private:
  void findDomain();
  void findStages();
  Partition partition();
  void emitItem(Value item);

  // Row-level values, in the forms with reduces.
  void emitStages();
  void emitRowStage(Stage stage, llvm::ArrayRef<unsigned> results);
  void emitColumnStage(Stage stage, llvm::ArrayRef<unsigned> results);
  void findEarlyResults();
  void emitRowResults();
  void emitElementResults();
  void emitOtherResults(Value item);

  /// The loop over the blocked position: gives its digit.
  void forBlock(llvm::function_ref<void()> body, bool fromZero);
  /// The loops `part.inner`, then `body` with all digits of the domain set.
  void forInner(llvm::function_ref<void()> body);
  Index domainIndex() { return Index(digits.begin(), digits.end()); }
  Index rowIndex();
  bool isReduced(int position) { return runs[shape().group[position]].reduced; }
  LoopShape &shape() { return e.shapes.list[0]; }
  /// The index of a result whose elements are those of the domain.
  Index resultIndex(Value result, Index index);
  void storeElements(llvm::ArrayRef<unsigned> which);
  void storeAll(llvm::ArrayRef<unsigned> which,
                llvm::function_ref<Index(Value)> indexOf);

  KernelFunction &function;
  ElementEmitter &e;
  plan::KernelOp kernel;
  Form form = Form::Pointwise;
  llvm::SmallVector<Run> runs;
  int64_t domainSize = 1, rowCount = 1;
  llvm::SmallVector<llvm::SmallVector<train::ReduceOp>> stages;
  llvm::SmallVector<unsigned> elementResults, rowResults, otherResults;
  llvm::SmallVector<unsigned>
      earlyResults; ///< of the elements, stored by the first stage
  Partition part;
  llvm::SmallVector<Digit> digits; ///< per position of shape 0
  Value blockStart, blockCount;
  std::map<int64_t, Value>
      columnOf; ///< digit id of the blocked loop -> iteration
};

} // namespace

static int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static bool sameRuns(llvm::ArrayRef<Run> x, llvm::ArrayRef<Run> y) {
  return llvm::equal(x, y, [](const Run &a, const Run &b) {
    return a.size == b.size && a.reduced == b.reduced;
  });
}

void LoopKernel::findDomain() {
  train::ReduceOp largest;
  for (auto reduce : kernel.getBlock().getOps<train::ReduceOp>())
    if (elementsOf(reduce.getOperand()) > elementsOf(reduce.getResult()) &&
        (!largest ||
         elementsOf(reduce.getOperand()) > elementsOf(largest.getOperand())))
      largest = reduce;
  auto results = kernel.getBlock().getTerminator()->getOperands();
  if (largest) {
    runs = getRuns(largest);
    form = runs.back().reduced ? Form::Rows : Form::Columns;
  } else {
    int64_t size = 0;
    for (Value result : results)
      size = std::max(size, elementsOf(result));
    if (size != 1)
      runs.push_back({size, false});
  }
  llvm::SmallVector<int64_t> sizes;
  for (const Run &run : runs) {
    sizes.push_back(run.size);
    domainSize *= run.size;
    rowCount *= run.reduced ? 1 : run.size;
  }
  if (e.shapes.list.empty())
    e.shapes.list.push_back(LoopShape::get(sizes));
  for (auto [i, result] : llvm::enumerate(results)) {
    if (elementsOf(result) == domainSize)
      elementResults.push_back(i);
    else if (largest && elementsOf(result) == rowCount)
      rowResults.push_back(i);
    else
      otherResults.push_back(i);
  }
}

void LoopKernel::findStages() {
  if (form == Form::Pointwise)
    return;
  llvm::SmallVector<train::ReduceOp> left;
  for (auto reduce : kernel.getBlock().getOps<train::ReduceOp>())
    if (sameRuns(getRuns(reduce), runs))
      left.push_back(reduce);
  // A reduce is ready when no other that is left feeds it. Operations are in
  // order, so one pass per stage finds the tainted values.
  while (!left.empty()) {
    llvm::SmallPtrSet<Operation *, 16> tainted;
    llvm::SmallVector<train::ReduceOp> stage, later;
    for (Operation &op : kernel.getBlock()) {
      bool fed = llvm::any_of(op.getOperands(), [&](Value operand) {
        return operand.getDefiningOp() &&
               tainted.contains(operand.getDefiningOp());
      });
      auto reduce = dyn_cast<train::ReduceOp>(op);
      bool pending = reduce && llvm::is_contained(left, reduce);
      if (pending)
        (fed ? later : stage).push_back(reduce);
      if (fed || pending)
        tainted.insert(&op);
    }
    stages.push_back(stage);
    left = later;
  }
}

void LoopKernel::findEarlyResults() {
  // Elements that need no reduce are stored by the first stage, which has them
  // at hand. Where they may be stored over an argument (rows), no other loop
  // may read it afterwards.
  auto reduces = kernel.getBlock().getOps<train::ReduceOp>();
  size_t staged = 0, all = std::distance(reduces.begin(), reduces.end());
  for (auto &stage : stages)
    staged += stage.size();
  if (stages.empty() || staged != all ||
      (form == Form::Rows && stages.size() > 1))
    return;
  llvm::SmallPtrSet<Operation *, 16> late;
  for (Operation &op : kernel.getBlock())
    if (isa<train::ReduceOp>(op) ||
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 late.contains(operand.getDefiningOp());
        }))
      late.insert(&op);
  auto results = kernel.getBlock().getTerminator()->getOperands();
  for (unsigned i : elementResults)
    if (!results[i].getDefiningOp() ||
        !late.contains(results[i].getDefiningOp()))
      earlyResults.push_back(i);
  if (form == Form::Rows && earlyResults.size() != elementResults.size())
    earlyResults.clear();
}

Partition LoopKernel::partition() {
  Partition result;
  llvm::ArrayRef<int64_t> sizes = shape().sizes;
  int last = int(sizes.size()) - 1;
  if (form == Form::Pointwise && last >= 0) {
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
  if (form == Form::Columns) {
    result.blocked = last;
    // Wide enough to read whole cache lines along a row, narrow enough to give
    // every thread some.
    int64_t wanted = llvm::alignTo(llvm::divideCeil(sizes[last], 8), 64);
    result.block = std::min(sizes[last], std::clamp<int64_t>(wanted, 64, 1024));
  }
  if (form != Form::Pointwise)
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
  findDomain();
  findStages();
  findEarlyResults();
  part = partition();
  digits.resize(shape().sizes.size());
  function.forEachItem(part.count, [&](Value item) { emitItem(item); });
  int64_t perItem = std::max<int64_t>(1, domainSize / part.count);
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
  if (form == Form::Rows)
    emitRowResults(); // Stores the elements, too.
  else {
    if (form == Form::Columns)
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
  for (auto &stage : stages) {
    llvm::ArrayRef<unsigned> results;
    if (&stage == &stages.front())
      results = earlyResults;
    if (form == Form::Rows)
      emitRowStage(stage, results);
    else
      emitColumnStage(stage, results);
  }
}

static Type elementOf(train::ReduceOp reduce) {
  return getElementTypeOrSelf(reduce.getOperand().getType());
}

void LoopKernel::emitRowStage(Stage stage, llvm::ArrayRef<unsigned> results) {
  llvm::SmallVector<Value> init(stage.size());
  if (!e.isPlanning())
    for (auto [value, op] : llvm::zip(init, stage)) {
      train::ReduceOp reduce = op;
      value = getNeutral(e.scalars(), reduce.getKind(), elementOf(reduce));
    }
  llvm::SmallVector<Value> sums = e.loops(
      0, part.inner, init,
      [&](llvm::ArrayRef<Digit> inner, llvm::ArrayRef<Value> carried) {
        for (auto [position, digit] : llvm::zip(part.inner, inner))
          digits[position] = digit;
        llvm::SmallVector<Value> next;
        for (auto [op, sum] : llvm::zip(stage, carried)) {
          train::ReduceOp reduce = op;
          Value element = e.emit(reduce.getOperand(), domainIndex());
          next.push_back(e.isPlanning()
                             ? Value()
                             : combine(e.scalars(), reduce.getKind(), sum,
                                       element, elementOf(reduce), true));
        }
        storeElements(results);
        return next;
      });
  for (auto [op, sum] : llvm::zip(stage, sums)) {
    train::ReduceOp reduce = op;
    e.remember(reduce.getResult(), rowIndex(),
               e.isPlanning() ? Value()
                              : roundTo(e.scalars(), sum, elementOf(reduce)));
  }
}

void LoopKernel::emitColumnStage(Stage stage,
                                 llvm::ArrayRef<unsigned> results) {
  // The running results of the block's columns. Stored and loaded by iteration,
  // in the type of computation.
  llvm::SmallVector<Buffer> sums;
  for (train::ReduceOp reduce : stage) {
    Type type = getComputeType(elementOf(reduce));
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
                                              elementOf(reduce)),
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
                                         element, elementOf(reduce), false));
          }
          storeElements(results);
          for (auto [value, sum] : llvm::zip(next, sums))
            e.store(sum, value, {column()});
        },
        true);
  });
  for (auto [op, sum] : llvm::zip(stage, sums)) {
    train::ReduceOp reduce = op;
    e.provide(
        reduce.getResult(),
        [this, reduce,
         sum = sum](llvm::ArrayRef<Digit> index) -> std::optional<Value> {
          // The row at hand, at any iteration of the loop over the block.
          Index row = rowIndex();
          if (index.size() != row.size() || index.empty() ||
              !columnOf.count(index.back().id))
            return std::nullopt;
          for (auto [asked, present] :
               llvm::zip(index.drop_back(), llvm::ArrayRef(row).drop_back()))
            if (asked.id != present.id)
              return std::nullopt;
          if (e.isPlanning())
            return Value();
          Digit column{columnOf[index.back().id], part.block, -1,
                       index.back().level};
          return roundTo(e.scalars(), e.load(sum, {column}), elementOf(reduce));
        });
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The index of the result of a view from that of its operand (the inverse of
/// ElementEmitter's).
static Index pushIndex(ElementEmitter &e, Operation *view,
                       llvm::ArrayRef<Digit> index) {
  auto transpose = dyn_cast<train::TransposeOp>(view);
  if (!transpose)
    return Index(index.begin(), index.end()); // A reshape.
  auto groups = e.splitGroups(
      index,
      cast<RankedTensorType>(transpose.getOperand().getType()).getShape());
  Index result;
  for (int64_t source : transpose.getPermutation())
    result.append(groups[source].begin(), groups[source].end());
  return result;
}

Index LoopKernel::resultIndex(Value result, Index index) {
  // A transposed copy of what the loops visit in order is stored transposed.
  auto results = kernel.getBlock().getTerminator()->getOperands();
  Value first = results[elementResults.front()];
  if (form == Form::Pointwise && result == first)
    return index;
  llvm::SmallVector<Operation *> chain;
  Value value = result;
  auto reached = [&] { return form == Form::Pointwise && value == first; };
  while (!reached() && value.getDefiningOp() &&
         isa<train::ReshapeOp, train::TransposeOp>(value.getDefiningOp())) {
    chain.push_back(value.getDefiningOp());
    value = chain.back()->getOperand(0);
  }
  if (form == Form::Pointwise && !reached())
    return index;
  for (Operation *view : llvm::reverse(chain))
    index = pushIndex(e, view, index);
  return index;
}

void LoopKernel::storeAll(llvm::ArrayRef<unsigned> which,
                          llvm::function_ref<Index(Value)> indexOf) {
  auto results = kernel.getBlock().getTerminator()->getOperands();
  llvm::SmallVector<std::pair<Index, Value>> elements;
  for (unsigned i : which) {
    Index index = indexOf(results[i]);
    elements.push_back({index, e.emit(results[i], index)});
  }
  for (auto [i, element] : llvm::zip(which, elements))
    e.store(function.results[i], element.second, element.first);
}

void LoopKernel::emitRowResults() {
  auto results = kernel.getBlock().getTerminator()->getOperands();
  if (form == Form::Columns) {
    if (!rowResults.empty())
      forBlock([&] { storeAll(rowResults, [&](Value) { return rowIndex(); }); },
               true);
    return;
  }
  // Computed before the elements are stored.
  for (unsigned i : rowResults)
    e.emit(results[i], rowIndex());
  emitElementResults();
  storeAll(rowResults, [&](Value) { return rowIndex(); });
}

void LoopKernel::storeElements(llvm::ArrayRef<unsigned> which) {
  storeAll(which,
           [&](Value result) { return resultIndex(result, domainIndex()); });
}

void LoopKernel::emitElementResults() {
  llvm::SmallVector<unsigned> late;
  for (unsigned i : elementResults)
    if (!llvm::is_contained(earlyResults, i))
      late.push_back(i);
  if (late.empty())
    return;
  auto body = [&] { storeElements(late); };
  if (form == Form::Rows || part.blocked < 0)
    forInner(body);
  else if (form == Form::Columns)
    forInner([&] { forBlock(body, true); });
  else
    forBlock([&] { forInner(body); }, false);
}

void LoopKernel::emitOtherResults(Value item) {
  auto results = kernel.getBlock().getTerminator()->getOperands();
  for (unsigned i : otherResults) {
    // Element numbers [item * n / items, (item + 1) * n / items).
    int64_t size = elementsOf(results[i]);
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
      storeAll({i}, [&](Value) { return index; });
    });
  }
}

FailureOr<KernelShape> emit::emitLoopItems(KernelFunction &function) {
  return LoopKernel(function).run();
}
