//===- MergeParts.cpp - Kernels that give more than one value -------------===//
#include "compiler/schedule/MergeParts.h"
#include "dialects/plan/KernelModel.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

/// As for the kernels that fuse makes.
static constexpr size_t kMaxArguments = 20;

static int64_t getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

/// True if the kernel computes one value of `elements` elements, element by
/// element in the order of its arguments of that size.
static bool isElementwise(plan::KernelOp kernel, int64_t elements) {
  if (kernel.getKind() != plan::KernelKind::Loop || kernel.getNumResults() != 1)
    return false;
  for (Operation &op : kernel.getBlock().without_terminator()) {
    if (isa<train::ConstantOp, train::ReshapeOp>(op))
      continue;
    if (!isa<train::BroadcastInDimOp>(op) && !op.hasTrait<train::Pointwise>())
      return false;
    if (getElements(op.getResult(0)) > elements)
      return false;
  }
  return getElements(kernel.getBlock().getTerminator()->getOperand(0)) ==
         elements;
}

/// True if the loop kernel visits `elements` elements in row-major order, with
/// or without sums of rows.
static bool visitsInOrder(plan::KernelOp kernel, int64_t elements) {
  if (kernel.getKind() != plan::KernelKind::Loop)
    return false;
  bool reduces = false;
  for (Operation &op : kernel.getBlock().without_terminator()) {
    auto reduce = dyn_cast<train::ReduceOp>(op);
    if (!reduce) {
      if (!isa<train::ConstantOp, train::ReshapeOp, train::BroadcastInDimOp>(
              op) &&
          !op.hasTrait<train::Pointwise>())
        return false;
      continue;
    }
    reduces = true;
    auto type = cast<RankedTensorType>(reduce.getOperand().getType());
    ArrayRef<int64_t> dims = reduce.getDimensions();
    for (auto [index, dim] : llvm::enumerate(dims))
      if (dim != type.getRank() - static_cast<int64_t>(dims.size()) +
                     static_cast<int64_t>(index))
        return false;
    if (type.getNumElements() != elements)
      return false;
  }
  return reduces || llvm::all_of(kernel.getResultTypes(), [&](Type type) {
           return cast<RankedTensorType>(type).getNumElements() == elements;
         });
}

namespace {

class PartMerger {
public:
  PartMerger(Trial &trial, RecipeBook &book)
      : trial(trial), book(book), builder(trial.function.getContext()) {}

  void tryMerge(plan::CallOp part);

private:
  plan::CallOp findHost(plan::CallOp part);
  bool isHost(plan::CallOp host, plan::CallOp part);
  plan::KernelOp join(plan::CallOp host, plan::CallOp part,
                      SmallVectorImpl<Value> &operands);
  plan::KernelOp getKernel(plan::CallOp call) {
    return SymbolTable::lookupNearestSymbolFrom<plan::KernelOp>(
        call, call.getKernelAttr());
  }

  Trial &trial;
  RecipeBook &book;
  OpBuilder builder;
};

} // namespace

/// What needs the part's value, in the order of the block, up to `end`; nothing
/// if `end` needs it.
static std::optional<SmallVector<Operation *>> getDependents(plan::CallOp part,
                                                             Operation *end) {
  llvm::SmallDenseSet<Operation *> found;
  SmallVector<Operation *> ordered;
  for (Operation *op = part->getNextNode(); op; op = op->getNextNode()) {
    bool depends = false;
    op->walk([&](Operation *inner) {
      depends |= llvm::any_of(inner->getOperands(), [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return producer == part || (producer && found.contains(producer));
      });
    });
    if (op == end) {
      if (depends)
        return std::nullopt;
      return ordered;
    }
    if (depends) {
      found.insert(op);
      ordered.push_back(op);
    }
  }
  return std::nullopt;
}

bool PartMerger::isHost(plan::CallOp host, plan::CallOp part) {
  int64_t elements = getElements(part->getResult(0));
  if (host->getBlock() != part->getBlock() ||
      host->hasAttr(plan::kRecomputedAttr) || !part->isBeforeInBlock(host))
    return false;
  size_t arguments = host->getNumOperands();
  for (Value operand : part->getOperands()) {
    if (llvm::is_contained(host->getOperands(), operand))
      continue;
    if (getElements(operand) == elements)
      return false;
    ++arguments;
  }
  return arguments <= kMaxArguments &&
         visitsInOrder(getKernel(host), elements) &&
         getDependents(part, host).has_value();
}

/// The first kernel behind the part that reads all of its large operands.
plan::CallOp PartMerger::findHost(plan::CallOp part) {
  int64_t elements = getElements(part->getResult(0));
  auto *large = llvm::find_if(part->getOpOperands(), [&](OpOperand &operand) {
    return getElements(operand.get()) == elements;
  });
  if (large == part->getOpOperands().end())
    return {};
  plan::CallOp first;
  for (Operation *user : large->get().getUsers())
    if (auto host = dyn_cast<plan::CallOp>(user);
        host && host != part && isHost(host, part) &&
        (!first || host->isBeforeInBlock(first)))
      first = host;
  return first;
}

/// The host's kernel with the part's value as a last result. `operands` gets
/// those of its call.
plan::KernelOp PartMerger::join(plan::CallOp host, plan::CallOp part,
                                SmallVectorImpl<Value> &operands) {
  auto joined = cast<plan::KernelOp>(getKernel(host)->clone());
  Block &body = joined.getBlock();
  Operation *end = body.getTerminator();
  builder.setInsertionPoint(end);
  operands.assign(host->operand_begin(), host->operand_end());
  plan::KernelOp kernel = getKernel(part);
  IRMapping mapping;
  for (auto [argument, operand] :
       llvm::zip_equal(kernel.getBlock().getArguments(), part->getOperands())) {
    auto *known = llvm::find(operands, operand);
    if (known == operands.end()) {
      operands.push_back(operand);
      mapping.map(argument,
                  body.addArgument(argument.getType(), joined.getLoc()));
    } else {
      mapping.map(argument, body.getArgument(known - operands.begin()));
    }
  }
  for (Operation &op : kernel.getBlock().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    // The host may compute it anyway.
    for (Operation &other : body) {
      if (&other == copy)
        break;
      if (!OperationEquivalence::isEquivalentTo(
              &other, copy, OperationEquivalence::IgnoreLocations))
        continue;
      mapping.map(op.getResults(), other.getResults());
      copy->erase();
      break;
    }
  }
  end->insertOperands(
      end->getNumOperands(),
      mapping.lookup(kernel.getBlock().getTerminator()->getOperand(0)));
  joined.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), end->getOperandTypes()));
  return book.insert(joined, host.getKernel());
}

void PartMerger::tryMerge(plan::CallOp part) {
  plan::KernelOp kernel = getKernel(part);
  if (part->getNumResults() != 1 ||
      !isElementwise(kernel, getElements(part->getResult(0))))
    return;
  plan::CallOp host = findHost(part);
  if (!host)
    return;
  SmallVector<Operation *> dependents = *getDependents(part, host);
  SmallVector<Value> operands;
  plan::KernelOp joined = join(host, part, operands);
  trial.seconds += book.estimateSeconds(joined) -
                   book.estimateSeconds(getKernel(host)) -
                   book.estimateSeconds(kernel);
  --trial.calls;
  ++trial.merged;
  builder.setInsertionPoint(host);
  SmallVector<Type> types(host->getResultTypes());
  types.push_back(part->getResult(0).getType());
  auto call = plan::CallOp::create(builder, host->getLoc(), types,
                                   joined.getSymName(), operands);
  host->replaceAllUsesWith(call->getResults().drop_back());
  part->replaceAllUsesWith(call->getResults().take_back());
  Operation *last = call;
  for (Operation *op : dependents) {
    op->moveAfter(last);
    last = op;
  }
  host->erase();
  part->erase();
}

void schedule::mergeParts(Trial &trial, RecipeBook &book, size_t spared) {
  SmallVector<plan::CallOp> parts;
  trial.function.walk([&](plan::CallOp call) {
    if (call->hasAttr(plan::kRecomputedAttr))
      parts.push_back(call);
  });
  PartMerger merger(trial, book);
  for (plan::CallOp part :
       ArrayRef(parts).drop_front(std::min(spared, parts.size())))
    merger.tryMerge(part);
}
