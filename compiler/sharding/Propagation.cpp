//===- Propagation.cpp - Shardings for a whole function -------------------===//
#include "compiler/sharding/Propagation.h"
#include "compiler/sharding/BatchedGathers.h"
#include "compiler/sharding/Decision.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;
using dist::DistDialect;

namespace {

class Propagation {
public:
  Propagation(func::FuncOp function, MeshOp mesh, bool temporal)
      : function(function), mesh(mesh), temporal(temporal) {}
  LogicalResult run();

private:
  LogicalResult forward(Block &block);
  LogicalResult forwardAccumulate(train::AccumulateOp op);
  LogicalResult checkVarying(Operation *op, const Decision &decision);
  void decideReturn(func::ReturnOp op);
  bool reduceForAll();
  void backward(Block &block);
  void divideResult(Operation *op);
  void copyPerUse(Operation *op);
  void annotate();

  ShardingAttr getReplicated(Value value) {
    return ShardingAttr::getReplicated(
        function.getContext(),
        cast<RankedTensorType>(value.getType()).getRank());
  }
  /// A value's sharding, without its partial sum where it is reduced for all
  /// users.
  ShardingAttr lookup(Value value) {
    ShardingAttr sharding = shardings.lookup(value);
    if (!sharding)
      return getReplicated(value);
    return reduced.contains(value) ? withoutPartial(sharding) : sharding;
  }
  SmallVector<ShardingAttr> lookup(ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value value) { return lookup(value); });
  }
  void record(Operation *op, Decision decision) {
    for (auto [result, sharding] :
         llvm::zip_equal(op->getResults(), decision.results))
      shardings[result] = sharding;
    decisions[op] = std::move(decision);
  }

  func::FuncOp function;
  MeshOp mesh;
  bool temporal;
  DenseMap<Value, ShardingAttr> shardings;
  DenseMap<Operation *, Decision> decisions;
  /// Partial values that some user needs reduced.
  DenseSet<Value> reduced;
};

} // namespace

LogicalResult Propagation::run() {
  for (BlockArgument argument : function.getArguments()) {
    auto sharding = function.getArgAttrOfType<ShardingAttr>(
        argument.getArgNumber(), DistDialect::kShardingAttr);
    shardings[argument] = sharding ? sharding : getReplicated(argument);
  }
  do {
    if (failed(forward(function.getBody().front())))
      return failure();
  } while (reduceForAll());
  backward(function.getBody().front());
  annotate();
  return success();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

LogicalResult Propagation::forward(Block &block) {
  // Expanding an operation replaces it, so that the walk goes on behind the one
  // before it.
  Operation *previous = nullptr;
  while (Operation *op = previous
                             ? previous->getNextNode()
                             : (block.empty() ? nullptr : &block.front())) {
    if (auto returnOp = dyn_cast<func::ReturnOp>(op)) {
      decideReturn(returnOp);
    } else if (auto accumulate = dyn_cast<train::AccumulateOp>(op)) {
      if (failed(forwardAccumulate(accumulate)))
        return failure();
    } else if (!isa<train::YieldOp>(op)) {
      Decision decision = decide(op, lookup(op->getOperands()), mesh, temporal);
      if (decision.expand) {
        decisions.erase(op);
        expandOp(op);
        continue;
      }
      if (failed(checkVarying(op, decision)))
        return failure();
      record(op, std::move(decision));
    }
    previous = op;
  }
  return success();
}

/// Batch values keep their division, carried values are whole, sums stay
/// partial: adding up micro batches is linear.
LogicalResult Propagation::forwardAccumulate(train::AccumulateOp op) {
  Block &body = op.getBody().front();
  Decision decision;
  size_t numBatch = op.getBatch().size(), numCarried = op.getCarried().size();
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    ShardingAttr sharding = number < numBatch ? withoutPartial(lookup(operand))
                                              : getReplicated(operand);
    decision.operands.push_back(sharding);
    shardings[body.getArgument(number)] = sharding;
  }
  if (failed(forward(body)))
    return failure();
  Operation *yield = body.getTerminator();
  Decision yielded;
  for (auto [number, value] : llvm::enumerate(yield->getOperands())) {
    ShardingAttr sharding =
        number < numCarried ? getReplicated(value) : lookup(value);
    if (sharding.isVarying() ||
        (sharding.isPartial() && sharding.getKind() != train::ReduceKind::Sum))
      sharding = withoutPartial(sharding);
    yielded.operands.push_back(sharding);
    decision.results.push_back(sharding);
  }
  record(yield, std::move(yielded));
  record(op, std::move(decision));
  return success();
}

void Propagation::decideReturn(func::ReturnOp op) {
  Decision decision;
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto required = function.getResultAttrOfType<ShardingAttr>(
        number, DistDialect::kShardingAttr);
    ShardingAttr computed = lookup(value);
    decision.operands.push_back(required   ? required
                                : temporal ? computed
                                           : withoutPartial(computed));
  }
  record(op, std::move(decision));
}

/// Values of which each rank has its own are understood by the gradient of
/// batch norm alone.
LogicalResult Propagation::checkVarying(Operation *op,
                                        const Decision &decision) {
  for (auto [operand, required] :
       llvm::zip_equal(op->getOperands(), decision.operands))
    if (lookup(operand).isVarying() && !required.isVarying())
      return op->emitOpError("uses batch statistics that each rank computes "
                             "for itself; use --batch-norm global");
  return success();
}

/// Notes the partial values that a user needs reduced; true if there are new
/// ones, whose other users must be decided again.
bool Propagation::reduceForAll() {
  bool changed = false;
  function.walk([&](Operation *op) {
    auto it = decisions.find(op);
    if (it == decisions.end())
      return;
    for (auto [operand, required] :
         llvm::zip_equal(op->getOperands(), it->second.operands))
      if (lookup(operand).isPartial() && !required.isPartial() &&
          reduced.insert(operand).second)
        changed |= !operand.hasOneUse();
  });
  return changed;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

void Propagation::backward(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (auto accumulate = dyn_cast<train::AccumulateOp>(&op))
      backward(accumulate.getBody().front());
    else if (op.getNumResults() == 1 && decisions.count(&op)) {
      if (isa<train::ConstantOp, train::BroadcastInDimOp>(op))
        copyPerUse(&op);
      divideResult(&op);
    }
  }
}

/// Gives every sharding in which a constant or broadcast is used a copy of its
/// own: cheaper than a slice of the whole.
void Propagation::copyPerUse(Operation *op) {
  llvm::MapVector<ShardingAttr, SmallVector<OpOperand *>> uses;
  for (OpOperand &use : op->getResult(0).getUses())
    uses[decisions[use.getOwner()].operands[use.getOperandNumber()]].push_back(
        &use);
  if (uses.size() < 2)
    return;
  ShardingAttr computed = lookup(op->getResult(0));
  OpBuilder builder(op);
  for (auto &[sharding, operands] : uses) {
    if (sharding == computed)
      continue;
    Operation *copy = builder.clone(*op);
    record(copy, decisions[op]);
    for (OpOperand *use : operands)
      use->set(copy->getResult(0));
    divideResult(copy);
  }
}

/// A whole value that all users want divided in one way is computed divided, if
/// its operation can do that without more communication.
void Propagation::divideResult(Operation *op) {
  Value result = op->getResult(0);
  // Not `lookup`: a partial value that is reduced for all is partial here.
  ShardingAttr computed = shardings.lookup(result), wanted;
  for (OpOperand &use : result.getUses()) {
    ShardingAttr required =
        decisions[use.getOwner()].operands[use.getOperandNumber()];
    if (wanted && wanted != required)
      return;
    wanted = required;
  }
  if (!wanted || wanted == computed || wanted.isPartial() ||
      computed.isPartial() || wanted.isVarying())
    return;
  // Rows of a table differ by rank, and a count along the batch needs this
  // rank's place (a micro batch has none).
  if (auto constant = dyn_cast<train::ConstantOp>(op))
    if (!getCommonBlock(constant.getValue(), wanted, mesh))
      return;
  if (auto iota = dyn_cast<train::IotaOp>(op))
    if (temporal && !wanted.getDims()[iota.getDimension()].empty())
      return;
  if (std::optional<Decision> decision =
          decideForResult(op, decisions[op], wanted, mesh))
    record(op, std::move(*decision));
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

static ArrayAttr toArray(MLIRContext *context,
                         ArrayRef<ShardingAttr> shardings) {
  return ArrayAttr::get(
      context, llvm::map_to_vector(
                   shardings, [](ShardingAttr s) -> Attribute { return s; }));
}

void Propagation::annotate() {
  function.walk([&](Operation *op) {
    auto it = decisions.find(op);
    if (it == decisions.end())
      return;
    NamedAttrList attributes(op->getDiscardableAttrDictionary());
    attributes.set(DistDialect::kOperandShardingsAttr,
                   toArray(op->getContext(), it->second.operands));
    attributes.set(DistDialect::kResultShardingsAttr,
                   toArray(op->getContext(), it->second.results));
    op->setDiscardableAttrs(attributes);
  });
}

LogicalResult sharding::propagate(func::FuncOp function, MeshOp mesh,
                                  bool temporal) {
  batchGathers(function);
  // One rank has everything whole, and nothing to note.
  if (!temporal && mesh.getNumRanks() == 1)
    return success();
  return Propagation(function, mesh, temporal).run();
}

static SmallVector<ShardingAttr> getShardings(Operation *op, StringRef name) {
  SmallVector<ShardingAttr> shardings;
  if (auto array = dyn_cast_if_present<ArrayAttr>(op->getDiscardableAttr(name)))
    for (Attribute attr : array)
      shardings.push_back(cast<ShardingAttr>(attr));
  return shardings;
}

SmallVector<ShardingAttr> sharding::getOperandShardings(Operation *op) {
  return getShardings(op, DistDialect::kOperandShardingsAttr);
}
SmallVector<ShardingAttr> sharding::getResultShardings(Operation *op) {
  return getShardings(op, DistDialect::kResultShardingsAttr);
}
