//===- MemoryLoop.cpp - Gradient accumulation as a loop on memory ---------===//
//
// Batch values advance by one micro batch per iteration. Carried values keep
// one place: a new value is written over the old one where nothing reads it any
// more, else copied at the end of the body. Sums start as zeros, and one launch
// at the end of the body adds to all of them.
//
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Memory.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

static int64_t getBytes(Value value) {
  return plan::getTensorBytes(cast<RankedTensorType>(value.getType()));
}

/// (a, b) -> a + b on elements of a type; with `increments` (a) -> a + 1.
plan::KernelOp MemoryPlanner::getAddKernel(Type element, bool increments) {
  auto module = function->getParentOfType<ModuleOp>();
  std::string name = increments ? "increment_" : "accumulate_";
  llvm::raw_string_ostream(name) << element;
  if (auto known = module.lookupSymbol<plan::KernelOp>(name))
    return known;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto type = RankedTensorType::get({1}, element);
  SmallVector<Type> inputs(increments ? 1 : 2, type);
  auto kernel = plan::KernelOp::create(builder, function.getLoc(),
                                       plan::KernelKind::Update, name,
                                       builder.getFunctionType(inputs, type));
  builder.setInsertionPointToStart(&kernel.getBlock());
  Value other =
      increments
          ? train::ConstantOp::create(builder, function.getLoc(), type, 1.0)
                .getResult()
          : Value(kernel.getBlock().getArgument(1));
  Value sum = train::AddOp::create(builder, function.getLoc(),
                                   kernel.getBlock().getArgument(0), other);
  plan::ReturnOp::create(builder, function.getLoc(), sum);
  return kernel;
}

/// Lets a carried value be computed in its place, where the body's readers of
/// the old value come before and the kernel allows it.
void MemoryPlanner::placeCarried(train::AccumulateOp op, BlockInfo &body,
                                 ArrayRef<Place> carried) {
  Block &block = op.getBody().front();
  for (auto [index, place] : llvm::enumerate(carried)) {
    Value yielded = block.getTerminator()->getOperand(index),
          argument = block.getArgument(op.getBatch().size() + index);
    Value root = getRoot(yielded);
    Operation *writer = root.getDefiningOp();
    if (!writer || !body.index.contains(writer) || !isWholeRoot(yielded) ||
        reserved.contains(root) || !mayWriteOver(writer, root, argument))
      continue;
    if (!body.lastRead.contains(argument) ||
        body.lastRead.lookup(argument) <= body.index.lookup(writer))
      reserved[root] = place;
  }
}

/// One launch per element type, with a segment for each sum.
void MemoryPlanner::addSums(train::AccumulateOp op, ArrayRef<Place> sums,
                            std::vector<Step> &steps) {
  Block &block = op.getBody().front();
  llvm::MapVector<Type, Step> launches;
  ++position;
  for (auto [index, place] : llvm::enumerate(sums)) {
    Operand value = getOperand(block.getTerminator()->getOperand(
                op.getCarried().size() + index)),
            sum{place, value.type};
    touch(place);
    Step &step = launches
                     .insert({value.type.getElementType(),
                              Step{Step::Kind::Launch, op.getLoc()}})
                     .first->second;
    step.inputs.append({sum, value});
    step.outputs.push_back(sum);
  }
  for (auto &[element, step] : launches) {
    step.kernel = getAddKernel(element, /*increments=*/false).getSymNameAttr();
    step.segments = static_cast<int64_t>(step.outputs.size());
    steps.push_back(std::move(step));
  }
}

LogicalResult MemoryPlanner::walkLoop(train::AccumulateOp op, BlockInfo &info,
                                      std::vector<Step> &steps) {
  Block &block = op.getBody().front();
  auto count = static_cast<int64_t>(op.getSteps());
  size_t numBatch = op.getBatch().size(), numCarried = op.getCarried().size();
  Step loop{Step::Kind::Loop, op.getLoc()};
  loop.count = count;

  for (auto [index, value] : llvm::enumerate(op.getBatch())) {
    Place place = getOperand(value).place;
    place.stride = getBytes(value) / count;
    places[block.getArgument(index)] = place;
  }
  SmallVector<Place> carried, sums;
  for (auto [index, value] : llvm::enumerate(op.getCarried())) {
    Value result = op.getResult(index);
    // A running statistic that the function returns in its argument's place is
    // updated there.
    Place place = reserved.contains(result)
                      ? reserved.lookup(result)
                      : newStorage(result, getBytes(result));
    Operand from = getOperand(value), to{place, from.type};
    if (from.place.storage != place.storage ||
        from.place.offset != place.offset)
      copy(op.getLoc(), from, to, steps);
    touch(place);
    carried.push_back(place);
    places[result] = places[block.getArgument(numBatch + index)] = place;
  }
  for (OpResult result : op->getResults().drop_front(numCarried)) {
    Place place = reserved.contains(result)
                      ? reserved.lookup(result)
                      : newStorage(result, getBytes(result));
    places[result] = place;
    touch(place);
    sums.push_back(place);
    steps.push_back({Step::Kind::Fill,
                     op.getLoc(),
                     {},
                     {{place, cast<RankedTensorType>(result.getType())}}});
  }
  BlockArgument iteration = block.getArguments().back();
  Operand counter;
  if (!iteration.use_empty()) {
    counter = {newStorage(iteration, getBytes(iteration)),
               cast<RankedTensorType>(iteration.getType())};
    places[iteration] = counter.place;
    touch(counter.place);
    steps.push_back({Step::Kind::Fill, op.getLoc(), {}, {counter}});
  }

  ++position;
  int64_t begin = position;
  llvm::SetVector<int> outerUses;
  std::swap(outerUses, usedByLoop);
  ++depth;
  BlockInfo body = analyze(block, {});
  placeCarried(op, body, carried);
  if (failed(walk(body, loop.body)))
    return failure();
  ++position;
  for (auto [index, place] : llvm::enumerate(carried)) {
    Operand value = getOperand(block.getTerminator()->getOperand(index));
    touch(place);
    if (value.place.storage != place.storage ||
        value.place.offset != place.offset)
      copy(op.getLoc(), value, {place, value.type}, loop.body);
  }
  addSums(op, sums, loop.body);
  if (counter.type) {
    Step step{Step::Kind::Launch, op.getLoc(), {counter}, {counter}};
    step.kernel =
        getAddKernel(counter.type.getElementType(), /*increments=*/true)
            .getSymNameAttr();
    touch(counter.place);
    loop.body.push_back(std::move(step));
  }
  --depth;
  ++position;
  // What comes from outside must survive all iterations.
  for (int storage : usedByLoop) {
    storages[storage].first = storages[storage].first < 0
                                  ? begin
                                  : std::min(storages[storage].first, begin);
    storages[storage].last = std::max(storages[storage].last, position);
  }
  SmallVector<int> inner(usedByLoop.begin(), usedByLoop.end());
  std::swap(outerUses, usedByLoop);
  for (int storage : inner)
    if (storages[storage].depth < depth)
      usedByLoop.insert(storage);
  steps.push_back(std::move(loop));
  return success();
}
