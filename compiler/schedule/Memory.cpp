//===- Memory.cpp - Where every value of a program lives ------------------===//
#include "compiler/schedule/Memory.h"
#include "dialects/plan/KernelModel.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

static int64_t getBytes(Value value) {
  return plan::getTensorBytes(cast<RankedTensorType>(value.getType()));
}

//===----------------------------------------------------------------------===//
// Values and storages
//===----------------------------------------------------------------------===//

MemoryPlanner::MemoryPlanner(func::FuncOp function, const SharedLayout &shared,
                             const SymbolTable &symbols)
    : function(function), shared(shared), symbols(symbols),
      numShared(static_cast<int>(shared.getBuffers().size())) {
  for (const SharedBuffer &buffer : shared.getBuffers())
    storages.push_back({plan::getTensorBytes(buffer.type), 0, 0, 0, {}});
  for (BlockArgument argument : function.getArguments())
    places[argument] = {shared.find(argument), 0, 0};
}

Place MemoryPlanner::newStorage(Value value, int64_t bytes) {
  storages.push_back({bytes, -1, -1, depth, value});
  return {static_cast<int>(storages.size()) - 1, 0, 0};
}

Place MemoryPlanner::getPlace(Value value) {
  if (auto view = value.getDefiningOp<plan::ViewOp>()) {
    Place place = getPlace(view.getOperand());
    int64_t size =
        getBytes(view) /
        std::max<int64_t>(
            1, cast<RankedTensorType>(view.getType()).getNumElements());
    place.offset += static_cast<int64_t>(view.getOffset()) * size;
    return place;
  }
  return places.lookup(value);
}

Operand MemoryPlanner::getOperand(Value value) {
  Operand operand{getPlace(value), cast<RankedTensorType>(value.getType())};
  touch(operand.place);
  return operand;
}

/// The storage is in use at the present position, and throughout the loop if it
/// comes from outside.
void MemoryPlanner::touch(Place place) {
  Storage &storage = storages[place.storage];
  if (storage.first < 0)
    storage.first = position;
  storage.last = std::max(storage.last, position);
  if (storage.depth < depth)
    usedByLoop.insert(place.storage);
}

SmallVector<Lifetime> MemoryPlanner::getLifetimes() const {
  SmallVector<Lifetime> lifetimes;
  for (const Storage &storage : ArrayRef(storages).drop_front(numShared))
    lifetimes.push_back({storage.bytes, std::max<int64_t>(0, storage.first),
                         std::max<int64_t>(0, storage.last)});
  return lifetimes;
}

std::string MemoryPlanner::describe(int storage) const {
  Value value = storages[storage].value;
  std::string text;
  llvm::raw_string_ostream os(text);
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (auto call = dyn_cast_or_null<plan::CallOp>(op))
    os << "result of @" << call.getKernel();
  else if (op)
    os << op->getName();
  if (value)
    os << ' ' << value.getType();
  return text;
}

MemoryPlanner::BlockInfo
MemoryPlanner::analyze(Block &block, ArrayRef<Replacement> replacements) {
  BlockInfo info;
  info.items = orderBlock(block, replacements, symbols);
  for (auto [index, item] : llvm::enumerate(info.items)) {
    for (Operation *op : item.ops) {
      for (Value value : getReads(op))
        info.lastRead[value] = static_cast<int64_t>(index);
      if (item.kind != Item::Kind::Wait)
        info.index[op] = static_cast<int64_t>(index);
      // A bucket is in use until the wait.
      if (item.kind == Item::Kind::Wait)
        for (Value result : op->getResults())
          info.lastRead[result] = std::max(info.lastRead.lookup(result),
                                           static_cast<int64_t>(index));
    }
  }
  for (Value value : block.getTerminator()->getOperands())
    info.lastRead[getRoot(value)] = static_cast<int64_t>(info.items.size());
  return info;
}

//===----------------------------------------------------------------------===//
// Places decided before the walk
//===----------------------------------------------------------------------===//

/// True if a call may write `result` into the memory of `argument`, which it
/// may read.
bool MemoryPlanner::mayWriteOver(Operation *writer, Value result,
                                 Value argument) {
  unsigned number = cast<OpResult>(result).getResultNumber();
  // An accumulation may update what it carries, if nothing else there reads it.
  if (auto accumulate = dyn_cast<train::AccumulateOp>(writer))
    return number < accumulate.getCarried().size() &&
           getRoot(accumulate.getCarried()[number]) == argument &&
           isWholeRoot(accumulate.getCarried()[number]) && argument.hasOneUse();
  auto call = dyn_cast<plan::CallOp>(writer);
  if (!call)
    return false;
  plan::KernelOp kernel = getKernel(call, symbols);
  for (auto [index, operand] : llvm::enumerate(call->getOperands()))
    if (getRoot(operand) == argument &&
        (!isWholeRoot(operand) || !plan::canWriteOver(kernel, index, number)))
      return false;
  return true;
}

void MemoryPlanner::placeResults(BlockInfo &info) {
  llvm::DenseMap<Operation *, SmallVector<Value>> replaced;
  for (const Replacement &replacement : getReplacements(function))
    replaced[replacement.writer].push_back(replacement.argument);
  for (auto [index, value] : llvm::enumerate(
           function.getBody().front().getTerminator()->getOperands())) {
    int buffer = shared.findResult(function, index);
    Value root = getRoot(value);
    if (buffer < 0 ||
        (places.contains(root) && places.lookup(root).storage == buffer))
      continue;
    Operation *writer = root.getDefiningOp();
    bool direct = writer && isa<plan::CallOp, train::AccumulateOp>(writer) &&
                  isWholeRoot(value) && !reserved.contains(root) &&
                  info.index.contains(writer);
    // Metrics have no old value; anything else must not be read after it is
    // replaced.
    if (direct && shared[buffer].kind == plan::BufferKind::Persistent) {
      auto *argument = llvm::find_if(replaced[writer], [&](Value argument) {
        return shared.find(argument) == buffer;
      });
      direct = argument != replaced[writer].end() &&
               mayWriteOver(writer, root, *argument) &&
               info.lastRead.lookup(*argument) <= info.index.lookup(writer);
    }
    if (direct)
      reserved[root] = {buffer, 0, 0};
    else
      finalCopies.push_back({value, buffer});
  }
}

/// True if the value can be computed at a place of our choice: it is a call's
/// result or a sum of an accumulation.
bool MemoryPlanner::mayMove(Value root, const BlockInfo &info) const {
  Operation *op = root.getDefiningOp();
  if (!op || !info.index.contains(op) || reserved.contains(root))
    return false;
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op))
    return cast<OpResult>(root).getResultNumber() >=
           accumulate.getCarried().size();
  return isa<plan::CallOp>(op);
}

/// Gives the inputs of joins and of bucketed all-reduces neighbouring places,
/// and all-reduces their inputs' places where nothing reads the inputs
/// afterwards.
void MemoryPlanner::placeNeighbours(BlockInfo &info) {
  for (auto [index, item] : llvm::enumerate(info.items)) {
    Operation *op = item.ops.front();
    if (item.kind == Item::Kind::Join) {
      Place place = newStorage(op->getResult(0), getBytes(op->getResult(0)));
      places[op->getResult(0)] = place;
      for (Value input : op->getOperands()) {
        Value root = getRoot(input);
        if (isWholeRoot(input) && mayMove(root, info))
          reserved[root] = place;
        place.offset += getBytes(input);
      }
    }
    auto reduce = dyn_cast<dist::AllReduceOp>(op);
    if (item.kind != Item::Kind::Start || !reduce)
      continue;
    SmallVector<unsigned> members;
    int64_t bytes = 0;
    llvm::DenseSet<Value> seen;
    llvm::SmallDenseMap<Value, int> uses;
    for (Value input : reduce.getInputs())
      ++uses[getRoot(input)];
    for (auto [number, input] : llvm::enumerate(reduce.getInputs()))
      if (Value root = getRoot(input); isWholeRoot(input) &&
                                       mayMove(root, info) &&
                                       seen.insert(root).second) {
        members.push_back(number);
        bytes += alignUp(getBytes(input));
      }
    if (members.empty())
      continue;
    Place place = newStorage(reduce.getOutputs()[members.front()], bytes);
    for (unsigned number : members) {
      Value root = getRoot(reduce.getInputs()[number]);
      reserved[root] = place;
      // Readers before the start, and the collective itself (start and wait),
      // see the input; but not where it is there twice, of which one would see
      // the other's sum.
      bool readLater =
          uses[root] > 1 ||
          llvm::any_of(getReaders(root), [&, start = static_cast<int64_t>(
                                                 index)](Operation *reader) {
            auto it = info.index.find(reader);
            return it == info.index.end() || it->second > start;
          });
      if (!readLater)
        reserved[reduce.getOutputs()[number]] = place;
      place.offset += alignUp(getBytes(root));
    }
  }
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void MemoryPlanner::copy(Location loc, Operand from, Operand to,
                         std::vector<Step> &steps) {
  touch(from.place);
  touch(to.place);
  steps.push_back({Step::Kind::Copy, loc, {from}, {to}});
}

/// A reserved place, the place of an operand that dies here, or a new one.
Place MemoryPlanner::placeCallResult(plan::CallOp call, unsigned result,
                                     bool alone, int64_t index,
                                     const BlockInfo &info) {
  Value value = call->getResult(result);
  if (auto it = reserved.find(value); it != reserved.end())
    return it->second;
  plan::KernelOp kernel = getKernel(call, symbols);
  for (auto [number, operand] : llvm::enumerate(call->getOperands())) {
    Value root = getRoot(operand);
    // The operand must be a temporary of this block that nothing reads later
    // and no other operand or result shares.
    if (!alone || !isa_and_nonnull<plan::CallOp>(root.getDefiningOp()) ||
        !info.index.contains(root.getDefiningOp()) || reserved.contains(root) ||
        info.lastRead.lookup(root) != index || !isWholeRoot(operand) ||
        !plan::canWriteOver(kernel, number, result))
      continue;
    int storage = getPlace(root).storage;
    bool isShared =
        llvm::count_if(call->getOperands(),
                       [&](Value other) {
                         return getPlace(other).storage == storage;
                       }) > 1 ||
        llvm::any_of(call->getResults().take_front(result), [&](Value other) {
          return getPlace(other).storage == storage;
        });
    if (!isShared && storages[storage].bytes == getBytes(value))
      return {storage, 0, 0};
  }
  return newStorage(value, getBytes(value));
}

void MemoryPlanner::walkLaunch(const Item &item, int64_t index, BlockInfo &info,
                               std::vector<Step> &steps) {
  auto first = cast<plan::CallOp>(item.ops.front());
  Step step{Step::Kind::Launch, first.getLoc()};
  step.kernel = first.getKernelAttr().getAttr();
  step.segments = static_cast<int64_t>(item.ops.size());
  for (Operation *op : item.ops) {
    auto call = cast<plan::CallOp>(op);
    plan::KernelOp kernel = getKernel(call, symbols);
    for (Value operand : call->getOperands())
      step.inputs.push_back(getOperand(operand));
    for (OpResult result : call->getResults()) {
      places[result] = placeCallResult(call, result.getResultNumber(),
                                       item.ops.size() == 1, index, info);
      step.outputs.push_back(getOperand(result));
      // What a kernel adds to is brought where the result is to be.
      int added =
          plan::getAccumulatedArgument(kernel, result.getResultNumber());
      if (added < 0)
        continue;
      Operand from = getOperand(call->getOperand(added)),
              &to = step.outputs.back();
      if (from.place.storage != to.place.storage ||
          from.place.offset != to.place.offset)
        copy(call.getLoc(), from, to, steps);
    }
  }
  steps.push_back(std::move(step));
}

/// A rank's part must be one range of the whole; fuse sees to that.
static LogicalResult checkLeading(Operation *op) {
  auto check = [&](int64_t dim, ValueRange wholes) -> LogicalResult {
    for (Value whole : wholes)
      for (int64_t size :
           cast<RankedTensorType>(whole.getType()).getShape().take_front(dim))
        if (size != 1)
          return op->emitOpError(
                     "expected the leading dimension, which is "
                     "all that the runtime does, but got dimension ")
                 << dim;
    return success();
  };
  if (auto gather = dyn_cast<dist::AllGatherOp>(op))
    return check(gather.getDim(), gather.getOutputs());
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
    return check(scatter.getDim(), scatter.getInputs());
  return success();
}

LogicalResult MemoryPlanner::walkStart(Operation *op,
                                       std::vector<Step> &steps) {
  if (!isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp,
           dist::BroadcastOp>(op))
    return op->emitOpError("is not supported by the runtime");
  if (failed(checkLeading(op)))
    return failure();
  Step step{Step::Kind::Start, op->getLoc()};
  step.collective = op;
  step.id = ids[op] = nextId++;
  for (auto [input, output] :
       llvm::zip_equal(op->getOperands(), op->getResults())) {
    auto it = reserved.find(output);
    places[output] = it != reserved.end()
                         ? it->second
                         : newStorage(output, getBytes(output));
    step.inputs.push_back(getOperand(input));
    step.outputs.push_back(getOperand(output));
  }
  steps.push_back(std::move(step));
  return success();
}

void MemoryPlanner::walkJoin(plan::JoinOp op, std::vector<Step> &steps) {
  Place place = places.lookup(op.getResult());
  touch(place);
  for (Value input : op.getInputs()) {
    Operand from = getOperand(input);
    if (from.place.storage != place.storage ||
        from.place.offset != place.offset)
      copy(op.getLoc(), from, {place, from.type}, steps);
    place.offset += getBytes(input);
  }
}

LogicalResult MemoryPlanner::walk(BlockInfo &info, std::vector<Step> &steps) {
  placeNeighbours(info);
  for (auto [index, item] : llvm::enumerate(info.items)) {
    ++position;
    Operation *op = item.ops.front();
    switch (item.kind) {
    case Item::Kind::Launch:
      walkLaunch(item, static_cast<int64_t>(index), info, steps);
      break;
    case Item::Kind::Start:
      if (failed(walkStart(op, steps)))
        return failure();
      break;
    case Item::Kind::Wait: {
      Step step{Step::Kind::Wait, op->getLoc()};
      step.id = ids.lookup(op);
      for (Value value :
           llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                               SmallVector<Value>(op->getResults())))
        getOperand(value);
      steps.push_back(std::move(step));
      break;
    }
    case Item::Kind::Join:
      walkJoin(cast<plan::JoinOp>(op), steps);
      break;
    case Item::Kind::Loop:
      if (failed(walkLoop(cast<train::AccumulateOp>(op), info, steps)))
        return failure();
      break;
    }
    for (Operation *each : item.ops)
      positions[each] = position;
  }
  return success();
}

LogicalResult MemoryPlanner::run() {
  Block &block = function.getBody().front();
  function.walk([&](dist::CoordinateOp op) {
    places[op.getResult()] = {shared.find(op.getResult()), 0, 0};
  });
  BlockInfo info = analyze(block, getReplacements(function));
  placeResults(info);
  if (failed(walk(info, steps)))
    return failure();
  ++position;
  // Two results may be one value, or swap arguments: all are read before the
  // first is written, unless that is impossible without a buffer.
  SmallVector<std::pair<Operand, Operand>> copies;
  for (auto [value, buffer] : finalCopies) {
    Operand from = getOperand(value), to{{buffer, 0, 0}, from.type};
    if (from.place.storage < numShared && from.place.storage != buffer &&
        shared[from.place.storage].kind == plan::BufferKind::Persistent) {
      Operand saved{newStorage(value, getBytes(value)), from.type};
      copy(value.getLoc(), from, saved, steps);
      from = saved;
    }
    copies.push_back({from, to});
  }
  ++position;
  for (auto [from, to] : copies)
    copy(function.getLoc(), from, to, steps);
  return success();
}
