//===- Order.cpp - In which order a block runs ----------------------------===//
//
// Forward list scheduling of one compute stream and two of the network, by
// times that need only be roughly right: they decide whether a collective's
// consumer should let other work go first. Two policies are tried and the one
// with the lower peak of memory is taken.
//
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Order.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

/// A processor core's and a network's speed: flops and bytes per second, and
/// what starting something costs. The network's is that of ranks whose cores
/// compute at the same time: to wait for less is better than for more.
static constexpr double kFlops = 1e11, kMemory = 1e10, kLaunch = 2e-6,
                        kNetwork = 5e8, kLatency = 3e-5;
/// Messages up to this size do not stand behind larger ones
/// (runtime/comm/gloo_collectives.h).
static constexpr double kSmallMessage = 65536;
/// Calls of a loop kernel are joined into one launch where all results of one
/// are at most so large.
static constexpr int64_t kSmallResult = 1 << 16;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value schedule::getRoot(Value value) {
  while (auto view = value.getDefiningOp<plan::ViewOp>())
    value = view.getOperand();
  return value;
}

static int64_t getBytes(Value value) {
  return plan::getTensorBytes(cast<RankedTensorType>(value.getType()));
}

bool schedule::isWholeRoot(Value value) {
  return getBytes(value) == getBytes(getRoot(value));
}

llvm::SetVector<Value> schedule::getReads(Operation *op) {
  llvm::SetVector<Value> reads;
  for (Value operand : op->getOperands())
    reads.insert(getRoot(operand));
  if (op->getNumRegions()) {
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    for (Value value : captured)
      reads.insert(getRoot(value));
  }
  return reads;
}

llvm::SetVector<Operation *> schedule::getReaders(Value root) {
  llvm::SetVector<Operation *> readers;
  SmallVector<Value> worklist{root};
  while (!worklist.empty()) {
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<plan::ViewOp>(user))
        worklist.push_back(view);
      else if (Operation *reader =
                   root.getParentBlock()->findAncestorOpInBlock(*user))
        readers.insert(reader);
    }
  }
  return readers;
}

SmallVector<Replacement> schedule::getReplacements(func::FuncOp function) {
  SmallVector<Replacement> replacements;
  Block &block = function.getBody().front();
  llvm::DenseMap<std::pair<Attribute, Attribute>, BlockArgument> byName;
  for (BlockArgument argument : block.getArguments())
    byName[{function.getArgAttr(argument.getArgNumber(),
                                train::TrainDialect::kRoleAttr),
            function.getArgAttr(argument.getArgNumber(),
                                train::TrainDialect::kNameAttr)}] = argument;
  for (auto [index, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    Attribute name =
                  function.getResultAttr(index, train::TrainDialect::kNameAttr),
              role =
                  function.getResultAttr(index, train::TrainDialect::kRoleAttr);
    Operation *writer = getRoot(value).getDefiningOp();
    if (!writer || writer->getBlock() != &block || !isWholeRoot(value))
      continue;
    BlockArgument argument = byName.lookup({role, name});
    // A reader that stands before the writer will run before it; one behind it
    // may depend on it.
    if (argument && argument.getType() == value.getType() &&
        llvm::none_of(getReaders(argument), [&](Operation *reader) {
          return writer->isBeforeInBlock(reader);
        }))
      replacements.push_back({argument, writer});
  }
  return replacements;
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

namespace {

struct Task {
  Operation *op;
  llvm::SetVector<Value> reads;
  SmallVector<size_t> predecessors, successors;
  double seconds = 0;
  bool isCollective = false, isSmall = false;
};

/// An order and when its tasks would start.
struct Order {
  SmallVector<size_t> tasks;
  std::vector<double> start, available;
};

class BlockOrder {
public:
  BlockOrder(Block &block, ArrayRef<Replacement> replacements,
             const SymbolTable &symbols);
  std::vector<Item> run();

private:
  Order listSchedule(bool freeMemoryFirst) const;
  int64_t getPeakBytes(const Order &order) const;
  void delayRecomputation();
  int64_t getGrowth(size_t task,
                    const llvm::DenseMap<Value, int64_t> &readers) const;
  std::vector<SmallVector<size_t, 1>> joinCalls(const Order &order) const;
  bool mayJoin(size_t task) const;

  const SymbolTable &symbols;
  std::vector<Task> tasks;
  llvm::DenseMap<Value, size_t> producers;
  llvm::DenseMap<Value, int64_t> readerCounts;
  SmallVector<Value> returned;
};

} // namespace

plan::KernelOp schedule::getKernel(plan::CallOp call,
                                   const SymbolTable &symbols) {
  return symbols.lookup<plan::KernelOp>(call.getKernelAttr().getAttr());
}

static double estimateSeconds(Operation *op, const SymbolTable &symbols) {
  double flops = 0, bytes = 0;
  op->walk([&](plan::CallOp call) {
    plan::KernelOp kernel = getKernel(call, symbols);
    flops += kernel.getFlops().convertToDouble();
    for (Type type : llvm::concat<const Type>(call->getOperandTypes(),
                                              call->getResultTypes()))
      bytes += static_cast<double>(
          plan::getTensorBytes(cast<RankedTensorType>(type)));
  });
  double seconds = std::max(flops / kFlops, bytes / kMemory) + kLaunch;
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op))
    seconds *= static_cast<double>(accumulate.getSteps());
  return seconds;
}

BlockOrder::BlockOrder(Block &block, ArrayRef<Replacement> replacements,
                       const SymbolTable &symbols)
    : symbols(symbols) {
  llvm::DenseMap<Operation *, size_t> numbers;
  for (Operation &op : block.without_terminator()) {
    if (isa<plan::ViewOp>(op))
      continue;
    size_t number = tasks.size();
    numbers[&op] = number;
    Task &task = tasks.emplace_back();
    task.op = &op;
    task.reads = getReads(&op);
    task.isCollective = isa<dist::CollectiveOpInterface>(op);
    task.seconds = estimateSeconds(&op, symbols);
    if (task.isCollective) {
      double bytes = 0;
      for (Type type : op.getOperandTypes())
        bytes += static_cast<double>(
            plan::getTensorBytes(cast<RankedTensorType>(type)));
      task.seconds = kLatency + bytes / kNetwork;
      task.isSmall = bytes <= kSmallMessage;
    }
    for (Value value : task.reads) {
      ++readerCounts[value];
      if (auto it = producers.find(value); it != producers.end())
        task.predecessors.push_back(it->second);
    }
    for (Value result : op.getResults())
      producers[result] = number;
  }
  for (Value value : block.getTerminator()->getOperands()) {
    returned.push_back(getRoot(value));
    ++readerCounts[getRoot(value)];
  }
  // What is written over an argument waits for the argument's readers.
  for (const Replacement &replacement : replacements)
    for (Operation *reader : getReaders(replacement.argument))
      if (reader != replacement.writer && numbers.contains(reader))
        tasks[numbers[replacement.writer]].predecessors.push_back(
            numbers[reader]);
  delayRecomputation();
  for (size_t number = 0; number < tasks.size(); ++number) {
    llvm::sort(tasks[number].predecessors);
    tasks[number].predecessors.erase(llvm::unique(tasks[number].predecessors),
                                     tasks[number].predecessors.end());
    for (size_t predecessor : tasks[number].predecessors)
      tasks[predecessor].successors.push_back(number);
  }
}

/// What is computed again would be ready in the forward pass: it waits for the
/// latest of what else its first reader waits for.
void BlockOrder::delayRecomputation() {
  std::vector<std::optional<size_t>> firstReader(tasks.size());
  for (size_t number = tasks.size(); number-- > 0;)
    for (size_t predecessor : tasks[number].predecessors)
      firstReader[predecessor] = number;
  std::vector<std::optional<size_t>> awaited(tasks.size());
  auto isAgain = [&](size_t number) {
    return tasks[number].op->hasAttr(plan::kRecomputedAttr);
  };
  for (size_t number = tasks.size(); number-- > 0;) {
    if (!isAgain(number) || !firstReader[number])
      continue;
    size_t reader = *firstReader[number];
    if (isAgain(reader)) {
      awaited[number] = awaited[reader];
    } else {
      for (size_t predecessor : tasks[reader].predecessors)
        if (predecessor < number && !isAgain(predecessor))
          awaited[number] = std::max(awaited[number].value_or(0), predecessor);
    }
    if (awaited[number] && *awaited[number] < number)
      tasks[number].predecessors.push_back(*awaited[number]);
  }
}

/// Bytes by which memory grows if the task runs now.
int64_t
BlockOrder::getGrowth(size_t number,
                      const llvm::DenseMap<Value, int64_t> &readers) const {
  const Task &task = tasks[number];
  int64_t growth = 0;
  if (!task.isCollective)
    for (Value result : task.op->getResults())
      growth += getBytes(result);
  for (Value value : task.reads)
    if (producers.contains(value) && readers.lookup(value) == 1)
      growth -= getBytes(value);
  return growth;
}

namespace {

/// Tasks whose predecessors are done, by what should run next: ready
/// collectives first; then work that waits for nothing, what grows memory
/// behind the rest; then what waits least. Equal ones in the order of their
/// numbers.
class ReadyTasks {
public:
  bool isEmpty() const {
    return collectives.empty() && work.empty() && growing.empty() &&
           waiting.empty();
  }
  void add(size_t number, bool isCollective, bool grows) {
    (isCollective ? collectives : grows ? growing : work).insert(number);
  }
  /// Until the time `available` of its operands.
  void addWaiting(size_t number, double available) {
    waiting.insert({available, number});
  }
  /// A growing task that no longer grows memory, if it is one of these.
  void stopGrowing(size_t number) {
    if (growing.erase(number))
      work.insert(number);
  }
  /// The numbers that wait no longer at that time.
  SmallVector<size_t> takeArrived(double now) {
    SmallVector<size_t> arrived;
    while (!waiting.empty() && waiting.begin()->first <= now) {
      arrived.push_back(waiting.begin()->second);
      waiting.erase(waiting.begin());
    }
    return arrived;
  }
  size_t takeNext() {
    for (std::set<size_t> *set : {&collectives, &work, &growing})
      if (!set->empty())
        return set->extract(set->begin()).value();
    return waiting.extract(waiting.begin()).value().second;
  }

private:
  std::set<size_t> collectives, work, growing;
  std::set<std::pair<double, size_t>> waiting;
};

} // namespace

/// In the order of ReadyTasks; only with `freeMemoryFirst` does work that grows
/// memory come behind the rest.
Order BlockOrder::listSchedule(bool freeMemoryFirst) const {
  Order order;
  order.start.assign(tasks.size(), 0);
  order.available.assign(tasks.size(), 0);
  SmallVector<size_t> missing;
  llvm::DenseMap<Value, int64_t> readers = readerCounts;
  llvm::DenseMap<Value, SmallVector<size_t, 4>> readersOf;
  double now = 0, networks[2] = {0, 0};
  ReadyTasks ready;
  auto grows = [&](size_t number) {
    return freeMemoryFirst && getGrowth(number, readers) > 0;
  };
  auto addReady = [&](size_t number) {
    if (order.available[number] > now)
      ready.addWaiting(number, order.available[number]);
    else
      ready.add(number, tasks[number].isCollective, grows(number));
  };
  for (size_t number = 0; number < tasks.size(); ++number) {
    for (Value value : tasks[number].reads)
      readersOf[value].push_back(number);
    missing.push_back(tasks[number].predecessors.size());
    if (missing.back() == 0)
      addReady(number);
  }
  while (!ready.isEmpty()) {
    size_t number = ready.takeNext();
    const Task &task = tasks[number];
    order.tasks.push_back(number);
    double finished;
    if (task.isCollective) {
      double &network = networks[task.isSmall];
      order.start[number] = std::max({now, network, order.available[number]});
      network = finished = order.start[number] + task.seconds;
    } else {
      order.start[number] = std::max(now, order.available[number]);
      now = finished = order.start[number] + task.seconds;
    }
    // The last reader of a value frees it.
    for (Value value : task.reads)
      if (--readers[value] == 1)
        for (size_t reader : readersOf[value])
          if (!grows(reader))
            ready.stopGrowing(reader);
    for (size_t successor : task.successors) {
      order.available[successor] =
          std::max(order.available[successor], finished);
      if (--missing[successor] == 0)
        addReady(successor);
    }
    for (size_t arrived : ready.takeArrived(now))
      ready.add(arrived, tasks[arrived].isCollective, grows(arrived));
  }
  return order;
}

int64_t BlockOrder::getPeakBytes(const Order &order) const {
  llvm::DenseMap<Value, int64_t> readers = readerCounts;
  int64_t alive = 0, peak = 0;
  for (size_t number : order.tasks) {
    const Task &task = tasks[number];
    int64_t results = 0;
    if (!task.isCollective)
      for (Value result : task.op->getResults())
        results += getBytes(result);
    peak = std::max(peak, alive + results);
    alive += getGrowth(number, readers);
    for (Value value : task.reads)
      --readers[value];
  }
  return peak;
}

//===----------------------------------------------------------------------===//
// Launches of several calls
//===----------------------------------------------------------------------===//

/// Updates, and loops with small results (sums of squares, bias gradients):
/// running them early takes no memory to speak of.
bool BlockOrder::mayJoin(size_t number) const {
  auto call = dyn_cast<plan::CallOp>(tasks[number].op);
  if (!call)
    return false;
  plan::KernelOp kernel = getKernel(call, symbols);
  if (kernel.getKind() == plan::KernelKind::Update)
    return true;
  return kernel.getKind() == plan::KernelKind::Loop &&
         llvm::all_of(call.getResultTypes(), [](Type type) {
           return plan::getTensorBytes(cast<RankedTensorType>(type)) <=
                  kSmallResult;
         });
}

/// Tasks in order; later calls of a kernel move up to an earlier one where
/// everything that they need is there.
std::vector<SmallVector<size_t, 1>>
BlockOrder::joinCalls(const Order &order) const {
  std::vector<SmallVector<size_t, 1>> steps;
  std::vector<size_t> position(tasks.size());
  llvm::DenseMap<Attribute, SmallVector<size_t>> byKernel;
  for (auto [index, number] : llvm::enumerate(order.tasks)) {
    position[number] = index;
    if (mayJoin(number))
      byKernel[cast<plan::CallOp>(tasks[number].op).getKernelAttr()].push_back(
          number);
  }
  std::vector<bool> done(tasks.size());
  // The position of the step in which a task really runs.
  for (size_t number : order.tasks) {
    if (done[number])
      continue;
    SmallVector<size_t, 1> step{number};
    done[number] = true;
    if (mayJoin(number))
      for (size_t other :
           byKernel[cast<plan::CallOp>(tasks[number].op).getKernelAttr()])
        if (!done[other] && order.available[other] <= order.start[number] &&
            llvm::all_of(tasks[other].predecessors, [&](size_t predecessor) {
              return done[predecessor] &&
                     !llvm::is_contained(step, predecessor);
            })) {
          step.push_back(other);
          done[other] = true;
        }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Item> BlockOrder::run() {
  Order given = listSchedule(/*freeMemoryFirst=*/false),
        frugal = listSchedule(/*freeMemoryFirst=*/true);
  const Order &order =
      getPeakBytes(frugal) < getPeakBytes(given) ? frugal : given;
  std::vector<Item> items;
  SmallVector<Operation *> underWay;
  for (ArrayRef<size_t> step : joinCalls(order)) {
    // Wait for what this step reads.
    for (size_t number : step)
      for (Value value : tasks[number].reads)
        if (auto *it = llvm::find(underWay, value.getDefiningOp());
            value.getDefiningOp() && it != underWay.end()) {
          items.push_back({Item::Kind::Wait, {*it}});
          underWay.erase(it);
        }
    Operation *op = tasks[step.front()].op;
    if (tasks[step.front()].isCollective) {
      items.push_back({Item::Kind::Start, {op}});
      underWay.push_back(op);
      continue;
    }
    // This rank's coordinates are filled in once.
    if (isa<dist::CoordinateOp>(op))
      continue;
    Item item{isa<plan::JoinOp>(op)          ? Item::Kind::Join
              : isa<train::AccumulateOp>(op) ? Item::Kind::Loop
                                             : Item::Kind::Launch,
              {}};
    for (size_t number : step)
      item.ops.push_back(tasks[number].op);
    items.push_back(std::move(item));
  }
  for (Operation *op : underWay)
    items.push_back({Item::Kind::Wait, {op}});
  return items;
}

std::vector<Item> schedule::orderBlock(Block &block,
                                       ArrayRef<Replacement> replacements,
                                       const SymbolTable &symbols) {
  return BlockOrder(block, replacements, symbols).run();
}
