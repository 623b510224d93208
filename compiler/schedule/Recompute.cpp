//===- Recompute.cpp - Values that are computed again to fit a limit ------===//
//
// While the arena of a function is larger than the limit, values that are alive
// where most is, and are read on both sides of it, are computed again for their
// later readers. They are chosen by the bytes that this frees there per second
// that it costs. What a recipe reads and would be gone by then is computed
// again as well, or kept, if it is small.
//
// The plan that counts is exact: after each round the function is rebuilt from
// the original, ordered and laid out in memory as schedule does, and the round
// taken back if that needs no less. In the end as few picks as possible are
// kept, in their order.
//
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Trial.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"

namespace lockstep::schedule {
#define GEN_PASS_DEF_SCHEDULERECOMPUTEPASS
#include "compiler/schedule/SchedulePasses.h.inc"
} // namespace lockstep::schedule

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

/// Most values that are computed again for the sake of one.
static constexpr size_t kMaxClosure = 12;
/// A value of at most this part of the one for which it is read is kept rather
/// than computed again.
static constexpr int64_t kKeptRatio = 8;
/// A round aims at no more than this part of the arena, since what it frees
/// changes where most is alive.
static constexpr int64_t kRoundRatio = 8;
static constexpr int kMaxRounds = 128;
/// What a recipe reads may be computed again before its own readers need it by
/// at most this part of the time behind where most is alive: a chain of recipes
/// through all layers would bring all of its values back at once.
static constexpr int64_t kAheadRatio = 8;

static int64_t getBytes(Value value) {
  return plan::getTensorBytes(cast<RankedTensorType>(value.getType()));
}

namespace {

/// What is decided at once: a value and what its recipe needs.
struct Pick {
  Value value;
  Choices choices;
  /// Freed where most is alive, and the time that it costs.
  int64_t bytes = 0;
  double seconds = 0;

  double getWorth() const { return static_cast<double>(bytes) / seconds; }
};

/// Who reads a value, seen from where most is alive.
struct Readers {
  llvm::SetVector<Operation *> late;
  bool atPeak = false;
  /// By the end of the block or the body of a loop, which read the value
  /// itself.
  bool pinned = false;

  bool isAliveLater() const { return !late.empty() || pinned; }
};

/// The choices for one function.
class Recomputation {
public:
  Recomputation(func::FuncOp original, ArrayRef<func::FuncOp> all,
                int64_t limit, RecipeBook &book)
      : original(original), all(all), limit(limit), book(book) {
    original.walk([&](plan::CallOp call) {
      numbers.try_emplace(call, static_cast<int64_t>(numbers.size()));
    });
  }

  /// Replaces the function by one that fits, or by one that needs the least
  /// that was reached.
  LogicalResult run();

private:
  FailureOr<Trial> carryOut(size_t count);
  LogicalResult choose(int64_t goal);
  bool addPicks(const Trial &trial, int64_t missing);
  Pick makePick(Value value, const Trial &trial);
  bool addToPick(Value value, const Trial &trial, Pick &pick);
  void payForOperand(Value value, Value operand, const Trial &trial,
                     Pick &pick);
  bool isAliveAtPeak(Value value, const Trial &trial) const;
  bool staysLocal(const Choices &chosen, const Trial &trial);
  Readers getReadersAround(Value value, const Trial &trial) const;
  void takeBack(size_t count);
  LogicalResult dropNeedless();
  FailureOr<Trial> carryOutMerged();
  void finish(Trial trial, int64_t before);

  func::FuncOp original;
  ArrayRef<func::FuncOp> all;
  int64_t limit;
  RecipeBook &book;
  /// Calls in the order of the program.
  llvm::DenseMap<Operation *, int64_t> numbers;
  std::vector<Pick> picks;
  /// Of all picks.
  Choices choices;
  /// Values whose picks did not help.
  llvm::DenseSet<Value> banned;
  /// Whether values may be computed again long before their readers.
  bool chains = false;
  /// The arena with all picks.
  int64_t reached = 0;
};

} // namespace

static void mergeChoices(const Choices &from, Choices &into) {
  for (auto &[value, choice] : from) {
    auto [it, isNew] = into.insert({value, choice});
    if (!isNew)
      it->second.readers.insert(choice.readers.begin(), choice.readers.end());
  }
}

/// With the first `count` picks.
FailureOr<Trial> Recomputation::carryOut(size_t count) {
  Choices chosen;
  for (const Pick &pick : ArrayRef(picks).take_front(count))
    mergeChoices(pick.choices, chosen);
  return schedule::carryOut(chosen, original, all, book);
}

bool Recomputation::isAliveAtPeak(Value value, const Trial &trial) const {
  Value now = trial.mapping.lookup(value);
  int storage = trial.planner->getStorage(now) - trial.planner->getNumShared();
  if (storage < 0)
    return false;
  const Lifetime &lifetime = trial.lifetimes[storage];
  return trial.planner->getPosition(now.getDefiningOp()) < trial.position &&
         trial.position <= lifetime.last;
}

Readers Recomputation::getReadersAround(Value value, const Trial &trial) const {
  Readers readers;
  auto chosen = choices.find(value);
  for (Operation *reader : getReaders(value)) {
    if (chosen != choices.end() && chosen->second.readers.contains(reader))
      continue;
    bool isEnd = reader->hasTrait<OpTrait::IsTerminator>();
    int64_t position =
        isEnd ? 0 : trial.planner->getPosition(trial.mapping.lookup(reader));
    if (isEnd || (reader->getNumRegions() && position >= trial.position))
      readers.pinned = true;
    else if (position == trial.position)
      readers.atPeak = true;
    else if (position > trial.position)
      readers.late.insert(reader);
  }
  return readers;
}

/// What is not there when the recipe of `value` runs.
void Recomputation::payForOperand(Value value, Value operand,
                                  const Trial &trial, Pick &pick) {
  Value root = getRoot(operand);
  if (isa<BlockArgument>(root) || choices.contains(root) ||
      pick.choices.contains(root) ||
      getReadersAround(root, trial).isAliveLater())
    return;
  int64_t bytes = getBytes(root);
  if (bytes * kKeptRatio > getBytes(value)) {
    Pick further = pick;
    if (addToPick(root, trial, further)) {
      pick = std::move(further);
      return;
    }
  }
  pick.bytes -= bytes;
}

bool Recomputation::addToPick(Value value, const Trial &trial, Pick &pick) {
  if (pick.choices.size() >= kMaxClosure ||
      !value.getDefiningOp<plan::CallOp>())
    return false;
  Operation *call = value.getDefiningOp();
  llvm::SmallBitVector kept(call->getNumResults());
  for (OpResult result : call->getResults())
    if (result != value &&
        (choices.contains(result) || pick.choices.contains(result) ||
         getReadersAround(result, trial).isAliveLater()))
      kept.set(result.getResultNumber());
  std::optional<Recipe> recipe = book.find(cast<OpResult>(value), kept);
  if (!recipe)
    return false;
  for (unsigned number : recipe->results) {
    Value result = call->getResult(number);
    Readers readers = getReadersAround(result, trial);
    if (result != value && (readers.late.empty() || choices.contains(result)))
      continue;
    if (isAliveAtPeak(result, trial) && !readers.atPeak && !readers.pinned &&
        !readers.late.empty())
      pick.bytes += getBytes(result);
    pick.choices.insert({result, {std::move(readers.late), kept}});
  }
  pick.seconds += recipe->seconds;
  for (Value operand : recipe->operands)
    payForOperand(value, operand, trial, pick);
  return true;
}

/// Without bytes if there is nothing to gain.
Pick Recomputation::makePick(Value value, const Trial &trial) {
  Readers readers = getReadersAround(value, trial);
  Pick pick;
  pick.value = value;
  if (banned.contains(value) || readers.atPeak || readers.pinned ||
      readers.late.empty() || !isAliveAtPeak(value, trial) ||
      !addToPick(value, trial, pick))
    return {};
  return pick;
}

/// False if a value would be computed again long before its readers.
bool Recomputation::staysLocal(const Choices &chosen, const Trial &trial) {
  SmallVector<Value> values =
      llvm::map_to_vector(chosen, [](auto &entry) { return entry.first; });
  // What a recipe reads stands before it.
  llvm::sort(values, [&](Value a, Value b) {
    return numbers.lookup(a.getDefiningOp()) >
           numbers.lookup(b.getDefiningOp());
  });
  int64_t end = trial.position;
  for (const Lifetime &lifetime : trial.lifetimes)
    end = std::max(end, lifetime.last);
  llvm::DenseMap<Value, int64_t> needed;
  for (Value value : values) {
    const Choice &choice = chosen.find(value)->second;
    int64_t byReaders = end;
    for (Operation *reader : choice.readers)
      byReaders = std::min(
          byReaders, trial.planner->getPosition(trial.mapping.lookup(reader)));
    int64_t start = byReaders;
    if (auto it = needed.find(value); it != needed.end())
      start = std::min(start, it->second);
    if (!choice.readers.empty() &&
        (byReaders - start) * kAheadRatio > end - trial.position)
      return false;
    for (Value operand :
         book.find(cast<OpResult>(value), choice.kept)->operands)
      if (Value root = getRoot(operand); chosen.contains(root)) {
        int64_t &at = needed.try_emplace(root, start).first->second;
        at = std::min(at, start);
      }
  }
  return true;
}

/// The best picks until their bytes are `missing` ones. False if there is none.
bool Recomputation::addPicks(const Trial &trial, int64_t missing) {
  // By worth, equals in the order of the program.
  std::vector<std::tuple<double, size_t, Value>> candidates;
  original.walk([&](plan::CallOp call) {
    for (Value value : call.getResults())
      if (Pick pick = makePick(value, trial); pick.bytes > 0)
        candidates.push_back({-pick.getWorth(), candidates.size(), value});
  });
  llvm::sort(candidates, [](const auto &a, const auto &b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b));
  });
  missing = std::min(missing, trial.arenaBytes / kRoundRatio);
  size_t before = picks.size();
  for (auto &[worth, number, value] : candidates) {
    if (missing <= 0)
      break;
    // Earlier picks have changed what is there.
    Pick pick = makePick(value, trial);
    if (pick.bytes <= 0)
      continue;
    Choices chosen = choices;
    mergeChoices(pick.choices, chosen);
    if (!chains && !staysLocal(chosen, trial))
      continue;
    missing -= pick.bytes;
    choices = std::move(chosen);
    picks.push_back(std::move(pick));
  }
  return picks.size() > before;
}

/// Keeps the fewest of the first picks that fit, where all do.
LogicalResult Recomputation::dropNeedless() {
  size_t tooFew = 0, enough = picks.size();
  while (enough - tooFew > 1) {
    size_t middle = tooFew + (enough - tooFew) / 2;
    FailureOr<Trial> trial = carryOut(middle);
    if (failed(trial))
      return failure();
    trial->function.erase();
    (trial->arenaBytes <= limit ? enough : tooFew) = middle;
  }
  takeBack(enough);
  return success();
}

void Recomputation::finish(Trial trial, int64_t before) {
  Builder builder(original.getContext());
  NamedAttrList said;
  said.append("calls", builder.getI64IntegerAttr(trial.calls));
  said.append("merged", builder.getI64IntegerAttr(trial.merged));
  said.append("bytes", builder.getI64IntegerAttr(before - trial.arenaBytes));
  said.append("seconds", builder.getF64FloatAttr(trial.seconds));
  trial.function->setAttr(plan::kRecomputeAttr,
                          said.getDictionary(builder.getContext()));
  for (const auto &[value, choice] : choices)
    remark::passed(value.getLoc(),
                   remark::RemarkOpts::name("recompute").category("schedule"))
        << remark::metric("kernel",
                          cast<plan::CallOp>(value.getDefiningOp()).getKernel())
        << remark::metric("result", cast<OpResult>(value).getResultNumber())
        << remark::metric("bytes", getBytes(value))
        << remark::metric("readers", choice.readers.size());
  trial.function.setSymName(original.getSymName());
  original.erase();
}

/// A round of picks that does not help is taken back, and its least worthy half
/// not tried again.
void Recomputation::takeBack(size_t count) {
  for (const Pick &pick :
       ArrayRef(picks).drop_front(count + (picks.size() - count) / 2))
    banned.insert(pick.value);
  picks.resize(count);
  choices.clear();
  for (const Pick &pick : picks)
    mergeChoices(pick.choices, choices);
}

/// Picks until the arena has at most `goal` bytes, or nothing helps.
LogicalResult Recomputation::choose(int64_t goal) {
  banned.clear();
  takeBack(0);
  banned.clear();
  FailureOr<Trial> trial = carryOut(0);
  for (int round = 0; succeeded(trial) && trial->arenaBytes > goal &&
                      trial->arenaBytes > limit && round < kMaxRounds;
       ++round) {
    size_t count = picks.size();
    if (!addPicks(*trial, trial->arenaBytes - goal))
      break;
    FailureOr<Trial> next = carryOut(picks.size());
    if (failed(next))
      return failure();
    if (next->arenaBytes < trial->arenaBytes)
      std::swap(*trial, *next);
    else
      takeBack(count);
    next->function.erase();
  }
  if (failed(trial))
    return failure();
  trial->function.erase();
  reached = trial->arenaBytes;
  return success();
}

/// All picks, and as much of them in kernels that run anyway as fits: that
/// saves reading, but moves other work.
FailureOr<Trial> Recomputation::carryOutMerged() {
  FailureOr<Trial> plain = carryOut(picks.size());
  if (failed(plain) || plain->arenaBytes > limit)
    return plain;
  auto calls = static_cast<size_t>(plain->calls);
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    FailureOr<Trial> merged =
        schedule::carryOut(choices, original, all, book, calls * quarter / 4);
    if (failed(merged))
      return failure();
    bool isBetter =
        merged->arenaBytes <= limit && merged->seconds < plain->seconds;
    if (isBetter)
      std::swap(*plain, *merged);
    merged->function.erase();
    if (isBetter)
      break;
  }
  return plain;
}

LogicalResult Recomputation::run() {
  FailureOr<Trial> trial = carryOut(0);
  if (failed(trial))
    return failure();
  trial->function.erase();
  int64_t before = trial->arenaBytes;
  if (before <= limit)
    return success();
  // Of what does not fit, the least: larger rounds choose otherwise, and chains
  // may get further in few layers.
  std::vector<Pick> best;
  int64_t least = before;
  for (auto [goal, mayChain] : {std::pair(limit, false),
                                {limit, true},
                                {int64_t(0), false},
                                {int64_t(0), true}}) {
    chains = mayChain;
    if (failed(choose(goal)))
      return failure();
    if (reached < least) {
      least = reached;
      best = picks;
    }
    if (least <= limit)
      break;
  }
  picks = std::move(best);
  takeBack(picks.size());
  reached = least;
  if (picks.empty())
    return success();
  if (reached <= limit && failed(dropNeedless()))
    return failure();
  trial = carryOutMerged();
  if (failed(trial))
    return failure();
  finish(std::move(*trial), before);
  return success();
}

namespace {

struct ScheduleRecompute
    : schedule::impl::ScheduleRecomputePassBase<ScheduleRecompute> {
  using Base::Base;

  void runOnOperation() override {
    if (memoryLimit <= 0)
      return;
    ModuleOp module = getOperation();
    RecipeBook book(module, Rates::get(gpu));
    for (func::FuncOp function :
         llvm::to_vector(module.getOps<func::FuncOp>())) {
      auto all = llvm::to_vector(module.getOps<func::FuncOp>());
      if (failed(Recomputation(function, all, memoryLimit, book).run()))
        return signalPassFailure();
    }
    book.eraseUnused();
  }
};

} // namespace
