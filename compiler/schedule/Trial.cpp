//===- Trial.cpp - A function with values computed again ------------------===//
#include "compiler/schedule/MergeParts.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

namespace {

/// Rewrites the copy of a trial.
class Rewriter {
public:
  Rewriter(const Choices &choices, Trial &trial, RecipeBook &book)
      : choices(choices), trial(trial), book(book),
        builder(trial.function.getContext()) {}

  void run() {
    llvm::DenseMap<Operation *, SmallVector<Value>> wanted;
    for (auto &[value, choice] : choices)
      for (Operation *reader : choice.readers)
        wanted[trial.mapping.lookup(reader)].push_back(value);
    trial.function.walk([&](Operation *op) {
      builder.setInsertionPoint(op);
      for (Value value : wanted.lookup(op))
        redirect(op, value);
    });
  }

private:
  void redirect(Operation *reader, Value value) {
    Value old = trial.mapping.lookup(value);
    for (OpOperand &operand : reader->getOpOperands())
      if (getRoot(operand.get()) == old)
        operand.set(rebuild(operand.get(), getAgain(value)));
  }

  /// The same part of another root.
  Value rebuild(Value value, Value root) {
    auto view = value.getDefiningOp<plan::ViewOp>();
    if (!view)
      return root;
    Value operand = rebuild(view.getOperand(), root);
    Operation *copy = builder.clone(*view);
    copy->setOperand(0, operand);
    return copy->getResult(0);
  }

  /// `value` of the original function, computed at the insertion point or
  /// before.
  Value getAgain(Value value) {
    if (Value known = again.lookup(value))
      return known;
    Recipe recipe =
        *book.find(cast<OpResult>(value), choices.find(value)->second.kept);
    SmallVector<Value> operands;
    for (Value operand : recipe.operands) {
      Value root = getRoot(operand), now = trial.mapping.lookup(operand);
      operands.push_back(choices.contains(root) ? rebuild(now, getAgain(root))
                                                : now);
    }
    // What an operand needed may have given this as well.
    if (Value known = again.lookup(value))
      return known;
    call(recipe, value.getDefiningOp(), operands);
    return again.lookup(value);
  }

  void call(Recipe &recipe, Operation *original, ValueRange operands) {
    SmallVector<Type> types =
        llvm::map_to_vector(recipe.results, [&](unsigned result) {
          return original->getResult(result).getType();
        });
    auto copy = plan::CallOp::create(builder, original->getLoc(), types,
                                     recipe.kernel.getSymName(), operands);
    copy->setAttr(plan::kRecomputedAttr, builder.getUnitAttr());
    trial.seconds += recipe.seconds;
    ++trial.calls;
    for (auto [number, result] : llvm::enumerate(recipe.results))
      again.try_emplace(original->getResult(result), copy->getResult(number));
  }

  const Choices &choices;
  Trial &trial;
  RecipeBook &book;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> again;
};

} // namespace

FailureOr<Trial> schedule::carryOut(const Choices &choices,
                                    func::FuncOp original,
                                    ArrayRef<func::FuncOp> all,
                                    RecipeBook &book,
                                    std::optional<size_t> spared) {
  Trial trial;
  OpBuilder builder(original);
  trial.function = cast<func::FuncOp>(builder.clone(*original, trial.mapping));
  Rewriter(choices, trial, book).run();
  if (spared)
    mergeParts(trial, book, *spared);
  for (func::FuncOp function : all)
    if (failed(trial.shared->add(function == original ? trial.function
                                                      : function)))
      return failure();
  trial.shared->finish();
  // The copy stands beside the original until one of them goes.
  trial.function.setSymName((original.getSymName() + ".trial").str());
  trial.symbols =
      std::make_unique<SymbolTable>(original->getParentOfType<ModuleOp>());
  trial.planner = std::make_unique<MemoryPlanner>(trial.function, *trial.shared,
                                                  *trial.symbols);
  if (failed(trial.planner->run()))
    return failure();
  trial.lifetimes = trial.planner->getLifetimes();
  trial.arenaBytes =
      trial.shared->getBytes() + assignArena(trial.lifetimes).bytes;
  trial.position = getPeak(trial.lifetimes).second;
  return trial;
}
