//===- LoopAnalysis.cpp - The domain of a loop kernel ---------------------===//
#include "compiler/emit/loops/LoopAnalysis.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

int64_t emit::getNumElements(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getNumElements();
}

Type emit::getReducedElement(train::ReduceOp reduce) {
  return getElementTypeOrSelf(reduce.getOperand().getType());
}

static bool sameRuns(llvm::ArrayRef<Run> x, llvm::ArrayRef<Run> y) {
  return llvm::equal(x, y, [](const Run &a, const Run &b) {
    return a.size == b.size && a.reduced == b.reduced;
  });
}

LoopAnalysis::LoopAnalysis(plan::KernelOp kernel) : kernel(kernel) {
  findDomain();
  findStages();
  findEarlyResults();
}

void LoopAnalysis::findDomain() {
  train::ReduceOp largest;
  for (auto reduce : kernel.getBlock().getOps<train::ReduceOp>())
    if (getNumElements(reduce.getOperand()) >
            getNumElements(reduce.getResult()) &&
        (!largest || getNumElements(reduce.getOperand()) >
                         getNumElements(largest.getOperand())))
      largest = reduce;
  if (largest) {
    runs = getRuns(largest);
    form = runs.back().reduced ? LoopForm::Rows : LoopForm::Columns;
  } else {
    int64_t size = 0;
    for (Value result : getResults())
      size = std::max(size, getNumElements(result));
    if (size != 1)
      runs.push_back({size, false});
  }
  for (const Run &run : runs) {
    domainSize *= run.size;
    rowCount *= run.reduced ? 1 : run.size;
  }
  for (auto [i, result] : llvm::enumerate(getResults())) {
    if (getNumElements(result) == domainSize)
      elementResults.push_back(i);
    else if (largest && getNumElements(result) == rowCount)
      rowResults.push_back(i);
    else
      otherResults.push_back(i);
  }
}

void LoopAnalysis::findStages() {
  if (form == LoopForm::Pointwise)
    return;
  Stage left;
  for (auto reduce : kernel.getBlock().getOps<train::ReduceOp>())
    if (sameRuns(getRuns(reduce), runs))
      left.push_back(reduce);
  // A reduce is ready when no other that is left feeds it. Operations are in
  // order, so one pass per stage finds the tainted values.
  while (!left.empty()) {
    llvm::SmallPtrSet<Operation *, 16> tainted;
    Stage stage, later;
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

void LoopAnalysis::findEarlyResults() {
  auto reduces = kernel.getBlock().getOps<train::ReduceOp>();
  size_t staged = 0, all = std::distance(reduces.begin(), reduces.end());
  for (const Stage &stage : stages)
    staged += stage.size();
  if (stages.empty() || staged != all ||
      (form == LoopForm::Rows && stages.size() > 1))
    return;
  llvm::SmallPtrSet<Operation *, 16> late;
  for (Operation &op : kernel.getBlock())
    if (isa<train::ReduceOp>(op) ||
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 late.contains(operand.getDefiningOp());
        }))
      late.insert(&op);
  for (unsigned i : elementResults)
    if (Operation *op = getResults()[i].getDefiningOp();
        !op || !late.contains(op))
      earlyResults.push_back(i);
  if (form == LoopForm::Rows && earlyResults.size() != elementResults.size())
    earlyResults.clear();
}

llvm::SmallVector<unsigned> LoopAnalysis::getLateResults() const {
  llvm::SmallVector<unsigned> late;
  for (unsigned i : elementResults)
    if (!llvm::is_contained(earlyResults, i))
      late.push_back(i);
  return late;
}

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

Index LoopAnalysis::getResultIndex(ElementEmitter &e, Value result,
                                   Index index) const {
  Value first = getResults()[elementResults.front()];
  if (form == LoopForm::Pointwise && result == first)
    return index;
  llvm::SmallVector<Operation *> chain;
  Value value = result;
  auto reached = [&] { return form == LoopForm::Pointwise && value == first; };
  while (!reached() && value.getDefiningOp() &&
         isa<train::ReshapeOp, train::TransposeOp>(value.getDefiningOp())) {
    chain.push_back(value.getDefiningOp());
    value = chain.back()->getOperand(0);
  }
  if (form == LoopForm::Pointwise && !reached())
    return index;
  for (Operation *view : llvm::reverse(chain))
    index = pushIndex(e, view, index);
  return index;
}

void emit::storeResults(KernelFunction &function,
                        llvm::ArrayRef<unsigned> which,
                        llvm::function_ref<Index(Value)> indexOf) {
  auto results = function.kernel.getBlock().getTerminator()->getOperands();
  llvm::SmallVector<std::pair<Index, Value>> elements;
  for (unsigned i : which) {
    Index index = indexOf(results[i]);
    elements.push_back({index, function.emitter.emit(results[i], index)});
  }
  for (auto [i, element] : llvm::zip(which, elements))
    function.emitter.store(function.results[i], element.second, element.first);
}
