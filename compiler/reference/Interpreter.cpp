//===- Interpreter.cpp - Runs a program, all ranks in one process
//----------------===//
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/EvaluateSupport.h"
#include "compiler/reference/InterpreterState.h"

using namespace mlir;

namespace lockstep {

//===--- Blocks and operations ---===//

/// The operation of `block` that holds the last use of each value that `block`
/// defines.
static DenseMap<Value, Operation *> findLastUsers(Block &block) {
  DenseMap<Value, Operation *> last;
  auto add = [&](Value value) {
    Operation *&user = last[value];
    for (Operation *candidate : value.getUsers()) {
      Operation *ancestor = block.findAncestorOpInBlock(*candidate);
      if (ancestor && (!user || user->isBeforeInBlock(ancestor)))
        user = ancestor;
    }
  };
  for (BlockArgument argument : block.getArguments())
    add(argument);
  for (Operation &op : block)
    for (Value result : op.getResults())
      add(result);
  return last;
}

FailureOr<SmallVector<RankTensors>>
Interpreter::runBlock(Block &block, ArrayRef<RankTensors> arguments) {
  for (auto [argument, tensors] :
       llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = tensors;
  DenseMap<Value, Operation *> last = findLastUsers(block);
  DenseMap<Operation *, SmallVector<Value>> dying;
  for (auto [value, user] : last)
    dying[user].push_back(value); // Values without uses are listed under null.
  for (Operation &op : block.without_terminator()) {
    if (failed(runOp(&op)))
      return failure();
    for (Value value : dying[&op])
      values.erase(value);
    for (Value result : op.getResults())
      if (result.use_empty())
        values.erase(result);
  }
  SmallVector<RankTensors> yielded =
      getOperands(block.getTerminator()->getOperands());
  for (Value value : dying[block.getTerminator()])
    values.erase(value);
  return yielded;
}

LogicalResult Interpreter::runOp(Operation *op) {
  if (auto evaluable = dyn_cast<train::EvaluableOpInterface>(op))
    return runEvaluable(evaluable);
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](train::AccumulateOp op) { return runAccumulate(op); })
      .Case([&](func::CallOp op) { return runFunctionCall(op); })
      .Case([&](plan::CallOp op) { return runKernelCall(op); })
      .Case([&](plan::ViewOp op) { return runView(op); })
      .Case([&](plan::JoinOp op) { return runJoin(op); })
      .Case([&](dist::StartOp op) { return runStart(op); })
      .Case([&](dist::WaitOp op) { return runWait(op); })
      .Case([&](dist::CoordinateOp op) { return runCoordinate(op); })
      .Case([&](dist::LocalSliceOp op) { return runLocalSlice(op); })
      .Case([&](dist::CollectiveOpInterface op) { return runCollective(op); })
      .Default([](Operation *op) {
        return op->emitError("the reference interpreter cannot run '")
               << op->getName() << "'";
      });
}

SmallVector<RankTensors> Interpreter::getOperands(OperandRange operands) {
  return llvm::map_to_vector(operands, [&](Value value) {
    assert(values.contains(value) && "operand was freed or never computed");
    return values[value];
  });
}

void Interpreter::setResults(Operation *op, ArrayRef<RankTensors> results) {
  for (auto [result, tensors] : llvm::zip_equal(op->getResults(), results))
    values[result] = tensors;
}

/// Data that ranks share (a constant, an argument that is the same everywhere)
/// gives shared results.
static bool haveSameData(ArrayRef<HostTensor> a, ArrayRef<HostTensor> b) {
  return llvm::all_of(llvm::zip_equal(a, b), [](auto pair) {
    auto &[x, y] = pair;
    return x.getData() == y.getData() && x.isSplat() == y.isSplat();
  });
}

LogicalResult Interpreter::runEvaluable(train::EvaluableOpInterface op) {
  SmallVector<RankTensors> operands = getOperands(op->getOperands());
  SmallVector<RankTensors> results(op->getNumResults());
  SmallVector<HostTensor> previous, previousResults;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    SmallVector<HostTensor> own = llvm::map_to_vector(
        operands, [&](const RankTensors &t) { return t[rank]; });
    SmallVector<HostTensor> ownResults;
    if (rank > 0 && haveSameData(own, previous))
      ownResults = previousResults;
    else if (failed(op.evaluate(own, ownResults)))
      return op->emitError("the reference evaluation of '")
             << op->getName() << "' failed";
    for (auto [all, one] : llvm::zip_equal(results, ownResults))
      all.push_back(one);
    previous = own;
    previousResults = ownResults;
  }
  setResults(op, results);
  return success();
}

//===--- Regions and calls ---===//

static HostTensor addTensors(const HostTensor &a, const HostTensor &b) {
  return combineAllReduce(train::ReduceKind::Sum, {a, b}).front();
}

LogicalResult Interpreter::runAccumulate(train::AccumulateOp op) {
  SmallVector<RankTensors> batch = getOperands(op.getBatch()),
                           carried = getOperands(op.getCarried()), sums;
  auto counterType = cast<RankedTensorType>(
      op.getBody().front().getArguments().back().getType());
  int64_t steps = op.getSteps();
  for (int64_t step = 0; step < steps; ++step) {
    SmallVector<RankTensors> arguments;
    for (const RankTensors &whole : batch)
      arguments.push_back(
          llvm::to_vector<1>(llvm::map_range(whole, [&](const HostTensor &t) {
            return getBlock(t, 0, step, steps);
          })));
    arguments.append(carried.begin(), carried.end());
    arguments.push_back(
        RankTensors(ranks, HostTensor::splat(counterType, double(step))));
    FailureOr<SmallVector<RankTensors>> yielded =
        runBlock(op.getBody().front(), arguments);
    if (failed(yielded))
      return failure();
    carried.assign(yielded->begin(), yielded->begin() + carried.size());
    auto terms = ArrayRef(*yielded).drop_front(carried.size());
    if (step == 0)
      sums.assign(terms.begin(), terms.end());
    else
      for (auto [sum, term] : llvm::zip_equal(sums, terms))
        for (int64_t rank = 0; rank < ranks; ++rank)
          sum[rank] = addTensors(sum[rank], term[rank]);
  }
  carried.append(sums.begin(), sums.end());
  setResults(op, carried);
  return success();
}

LogicalResult Interpreter::runFunctionCall(func::CallOp op) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee || callee.isExternal())
    return op.emitError("expected a function with a body, but got '")
           << op.getCallee() << "'";
  FailureOr<SmallVector<RankTensors>> results =
      runBlock(callee.getBody().front(), getOperands(op.getOperands()));
  if (failed(results))
    return failure();
  setResults(op, *results);
  return success();
}

LogicalResult Interpreter::runKernelCall(plan::CallOp op) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<plan::KernelOp>(op, op.getKernelAttr());
  if (!kernel)
    return op.emitError("expected a kernel, but got '")
           << op.getKernel() << "'";
  FailureOr<SmallVector<RankTensors>> results =
      runKernel(kernel, getOperands(op.getOperands()), op->getResultTypes());
  if (failed(results))
    return failure();
  setResults(op, *results);
  return success();
}

LogicalResult Interpreter::runView(plan::ViewOp op) {
  RankTensors results;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  for (const HostTensor &whole : values[op.getOperand()]) {
    HostTensor flat = whole.reshape({whole.getNumElements()});
    results.push_back(
        readStrided(flat, {type.getNumElements()}, op.getOffset(), {1})
            .reshape(type.getShape()));
  }
  setResults(op, {results});
  return success();
}

LogicalResult Interpreter::runJoin(plan::JoinOp op) {
  RankTensors results;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    SmallVector<HostTensor> parts;
    for (Value input : op.getInputs())
      parts.push_back(
          values[input][rank].reshape({values[input][rank].getNumElements()}));
    results.push_back(concatenate(parts, 0));
  }
  setResults(op, {results});
  return success();
}

//===--- Kernels ---===//

/// A kernel of kind `update` is written for one element, tensor<1xT>; this is
/// it for `count` elements.
static OwningOpRef<plan::KernelOp> widenUpdate(plan::KernelOp kernel,
                                               int64_t count) {
  OwningOpRef<plan::KernelOp> wide(cast<plan::KernelOp>(kernel->clone()));
  auto widen = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() == 1 && type.getDimSize(0) == 1)
      value.setType(RankedTensorType::get({count}, type.getElementType()));
  };
  for (BlockArgument argument : wide->getBlock().getArguments())
    widen(argument);
  wide->walk([&](Operation *op) {
    if (op == wide->getOperation())
      return;
    for (Value result : op->getResults())
      widen(result);
    if (auto constant = dyn_cast<train::ConstantOp>(op))
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        constant.setValueAttr(splat.resizeSplat(
            cast<ShapedType>(constant.getResult().getType())));
  });
  return wide;
}

FailureOr<SmallVector<RankTensors>>
Interpreter::runKernel(plan::KernelOp kernel, ArrayRef<RankTensors> operands,
                       TypeRange resultTypes) {
  if (kernel.getKind() != plan::KernelKind::Update)
    return runBlock(kernel.getBlock(), operands);
  // Every tensor that is not a scalar is a list of elements of one length.
  int64_t count = 1;
  SmallVector<RankTensors> flat;
  for (auto [tensors, type] :
       llvm::zip_equal(operands, kernel.getArgumentTypes())) {
    flat.push_back(tensors);
    if (cast<RankedTensorType>(type).getRank() == 0)
      continue;
    count = tensors.front().getNumElements();
    for (HostTensor &tensor : flat.back())
      tensor = tensor.reshape({count});
  }
  OwningOpRef<plan::KernelOp> wide = widenUpdate(kernel, count);
  Interpreter inner(ranks);
  FailureOr<SmallVector<RankTensors>> results =
      inner.runBlock(wide->getBlock(), flat);
  if (failed(results))
    return failure();
  for (auto [tensors, type] : llvm::zip_equal(*results, resultTypes))
    for (HostTensor &tensor : tensors)
      tensor = tensor.reshape(cast<RankedTensorType>(type).getShape());
  return results;
}

//===--- Entry points ---===//

FailureOr<SmallVector<RankTensors>>
interpretRanks(func::FuncOp function, int64_t ranks,
               ArrayRef<RankTensors> arguments) {
  if (function.isExternal())
    return function.emitError("expected a function with a body");
  if (arguments.size() != function.getNumArguments())
    return function.emitError("expected ")
           << function.getNumArguments() << " arguments, but got "
           << arguments.size();
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    for (const HostTensor &tensor : arguments[i]) {
      auto expected = cast<RankedTensorType>(type);
      if (tensor.getShape() != expected.getShape() ||
          tensor.getElementType() != expected.getElementType())
        return function.emitError("expected argument ")
               << i << " of type " << type << ", but got " << tensor.getType();
    }
  return Interpreter(ranks).runBlock(function.getBody().front(), arguments);
}

FailureOr<SmallVector<HostTensor>> interpret(func::FuncOp function,
                                             ArrayRef<HostTensor> arguments) {
  SmallVector<RankTensors> onOneRank = llvm::map_to_vector(
      arguments, [](const HostTensor &tensor) { return RankTensors{tensor}; });
  FailureOr<SmallVector<RankTensors>> results =
      interpretRanks(function, 1, onOneRank);
  if (failed(results))
    return failure();
  return llvm::map_to_vector(
      *results, [](const RankTensors &tensors) { return tensors.front(); });
}

} // namespace lockstep
