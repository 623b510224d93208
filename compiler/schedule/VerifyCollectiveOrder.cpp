//===- VerifyCollectiveOrder.cpp - A plan that could deadlock does not compile
//-===//
//
// All ranks of a communicator must start the same collectives in the same
// order. Ranks of one role run one program, so comparing the programs of roles
// pairwise with the first proves it for any number of ranks. A collective in a
// loop counts as often as the loop runs: loops must agree, too.
//
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace lockstep::schedule {
#define GEN_PASS_DEF_SCHEDULEVERIFYCOLLECTIVEORDERPASS
#include "compiler/schedule/SchedulePasses.h.inc"
} // namespace lockstep::schedule

using namespace mlir;
using namespace lockstep;

namespace {

/// What must agree between ranks, and where it comes from.
struct Event {
  std::string text;
  Operation *op;
};
/// Per communicator, in order of start.
using Sequences = llvm::MapVector<Attribute, std::vector<Event>>;

} // namespace

static std::string describe(plan::CollectiveStartOp op, llvm::StringRef loops) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << plan::stringifyCollectiveKind(op.getKind());
  if (op.getReduction())
    os << ' ' << train::stringifyReduceKind(*op.getReduction());
  int64_t bytes = 0;
  for (Value input : op.getInputs())
    bytes += cast<plan::BufferType>(input.getType()).getBytes();
  os << " of " << bytes << " bytes";
  if (!op.getInputs().empty())
    os << " of "
       << cast<plan::BufferType>(op.getInputs().front().getType())
              .getTensor()
              .getElementType();
  if (op.getRoot())
    os << " from " << *op.getRoot();
  os << loops;
  return text;
}

static void collect(Block &block, const std::string &loops,
                    Sequences &sequences) {
  for (Operation &op : block) {
    if (auto start = dyn_cast<plan::CollectiveStartOp>(op)) {
      auto communicator = ArrayAttr::get(
          op.getContext(), {start.getMeshAttr(), start.getAxesAttr()});
      sequences[communicator].push_back({describe(start, loops), &op});
    } else if (auto loop = dyn_cast<plan::LoopOp>(op)) {
      collect(loop.getBody().front(),
              loops + " in a loop of " + std::to_string(loop.getSteps()),
              sequences);
    }
  }
}

static LogicalResult compare(plan::ProgramOp program, const Sequences &have,
                             plan::ProgramOp first, const Sequences &expected) {
  llvm::SetVector<Attribute> communicators;
  for (const Sequences *sequences : {&have, &expected})
    for (auto &[communicator, events] : *sequences)
      communicators.insert(communicator);
  for (Attribute communicator : communicators) {
    auto mine = have.lookup(communicator),
         theirs = expected.lookup(communicator);
    for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      std::string a = i < theirs.size() ? theirs[i].text : "no collective",
                  b = i < mine.size() ? mine[i].text : "no collective";
      if (a == b)
        continue;
      InFlightDiagnostic error =
          (i < mine.size() ? mine[i].op : program.getOperation())
              ->emitError("expected ")
          << a << " as collective " << i << " of " << communicator
          << " in role '" << program.getRole() << "', but got " << b;
      error.attachNote(i < theirs.size() ? theirs[i].op->getLoc()
                                         : first.getLoc())
          << "role '" << first.getRole() << "' has it here";
      return error;
    }
  }
  return success();
}

namespace {

struct ScheduleVerifyCollectiveOrder
    : schedule::impl::ScheduleVerifyCollectiveOrderPassBase<
          ScheduleVerifyCollectiveOrder> {
  void runOnOperation() override {
    llvm::MapVector<StringAttr, std::pair<plan::ProgramOp, Sequences>> firstOf;
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      Sequences sequences;
      collect(program.getBody().front(), "", sequences);
      auto [it, isNew] =
          firstOf.insert({program.getEntryAttr(), {program, sequences}});
      if (!isNew && failed(compare(program, sequences, it->second.first,
                                   it->second.second)))
        return signalPassFailure();
    }
  }
};

} // namespace
