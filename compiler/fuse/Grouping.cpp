//===- Grouping.cpp - Which operations share a kernel ---------------------===//
#include "compiler/fuse/Grouping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

Grouping::Grouping(Block &block, Operands &operands, int64_t maxArguments)
    : block(block), operands(operands), maxArguments(maxArguments) {}

Node *Grouping::getOwner(Value value) const {
  Operation *op = value.getDefiningOp();
  return op ? owners.lookup(op) : nullptr;
}

SmallVector<Leaf> Grouping::getOperandLeaves(Operation *op) {
  SmallVector<Leaf> leaves;
  for (Value operand : op->getOperands())
    llvm::append_range(leaves, operands.getLeaves(operand));
  return leaves;
}

void Grouping::run() {
  for (Operation &op : block) {
    if (operands.isSoft(&op) || operands.isAbsorbed(&op))
      continue;
    if (!Operands::isBoundary(&op) && !Operands::isAnchor(&op)) {
      join(&op);
      continue;
    }
    Node &node = graph.add(&op);
    for (auto [index, operand] : llvm::enumerate(operands.getFolded(&op))) {
      if (takesConstant(&op, index))
        continue;
      node.arguments.insert(operand.root);
      if (Node *owner = getOwner(operand.root))
        graph.addEdge(*owner, node);
    }
    owners[&op] = &node;
    for (Value result : op.getResults())
      owners[operands.getWritten(result).getDefiningOp()] = &node;
  }
  mergeProducers();
  repeatValues();
  removeUnread();
  mergeSiblings();
}

//===----------------------------------------------------------------------===//
// Join
//===----------------------------------------------------------------------===//

static bool isLockstep(Operation *op) {
  return op->hasTrait<train::Pointwise>() ||
         isa<train::DropoutOp, train::ReduceOp>(op);
}

/// The level at which a member of a kernel with `domain` reads `leaf`, whose
/// root has level `from` there. A row-level value read at the element level
/// makes the reader late.
static std::optional<Level> getReadLevel(const Leaf &leaf, Level from,
                                         const Domain &domain, bool &late) {
  if (!leaf.view)
    return std::nullopt;
  if (isWhole(*leaf.view))
    return from;
  if (from == Level::Row && domain.isRowBroadcast(*leaf.view)) {
    late = true;
    return Level::Element;
  }
  return std::nullopt;
}

std::optional<Grouping::Placement> Grouping::place(Operation *op, Node &node) {
  auto reduce = dyn_cast<train::ReduceOp>(op);
  std::optional<Domain> domain = node.domain;
  if (reduce)
    domain = Domain::unite(
        node.domain,
        Domain::getReduction(
            cast<RankedTensorType>(reduce.getOperand().getType()).getShape(),
            reduce.getDimensions()));
  if (!domain)
    return std::nullopt;
  bool late = false;
  std::optional<Level> level;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    for (const Leaf &leaf : operands.getLeaves(operand)) {
      if (getOwner(leaf.root) != &node)
        continue;
      if (!isLockstep(op) || (isa<train::DropoutOp>(op) && index > 0))
        return std::nullopt;
      Operation *root = leaf.root.getDefiningOp();
      std::optional<Level> read =
          getReadLevel(leaf, node.levels.lookup(root), *domain, late);
      if (!read || (level && *level != *read))
        return std::nullopt;
      level = read;
      late |= node.late.contains(root);
    }
  }
  if (!level || (reduce && *level != Level::Element) ||
      (late && !domain->allowsSecondPass()))
    return std::nullopt;
  return Placement{reduce ? Level::Row : *level,
                   late && !reduce && *level == Level::Element, *domain};
}

void Grouping::insert(Operation *op, Node &node, const Placement &placement) {
  node.members.push_back(op);
  node.domain = placement.domain;
  node.levels[op] = placement.level;
  if (placement.late)
    node.late.insert(op);
  owners[op] = &node;
  for (const Leaf &leaf : getOperandLeaves(op)) {
    Node *owner = getOwner(leaf.root);
    if (owner == &node)
      continue;
    node.arguments.insert(leaf.root);
    if (owner)
      graph.addEdge(*owner, node);
  }
}

Node &Grouping::startKernel(Operation *op) {
  Node &node = graph.add();
  Placement placement{Level::Element, false,
                      Domain::getPointwise(getElements(op->getResult(0)))};
  if (auto reduce = dyn_cast<train::ReduceOp>(op))
    placement = {
        Level::Row, false,
        Domain::getReduction(
            cast<RankedTensorType>(reduce.getOperand().getType()).getShape(),
            reduce.getDimensions())};
  insert(op, node, placement);
  return node;
}

void Grouping::join(Operation *op) {
  SmallVector<Leaf> leaves = getOperandLeaves(op);
  llvm::SmallSetVector<Node *, 4> owners;
  for (const Leaf &leaf : leaves)
    if (Node *owner = getOwner(leaf.root))
      owners.insert(owner);
  // The latest kernel first: the others' results are there when it runs.
  SmallVector<Node *> candidates =
      llvm::filter_to_vector(owners, [](Node *node) { return node->isLoop(); });
  llvm::sort(candidates, [](Node *a, Node *b) { return a->order > b->order; });
  for (Node *node : candidates) {
    std::optional<Placement> placement = place(op, *node);
    if (!placement)
      continue;
    llvm::SmallDenseSet<Value> arguments(node->arguments.begin(),
                                         node->arguments.end());
    for (const Leaf &leaf : leaves)
      if (getOwner(leaf.root) != node)
        arguments.insert(leaf.root);
    if (arguments.size() > maxArguments ||
        llvm::any_of(owners, [&](Node *other) {
          return other != node && graph.reaches(*node, *other);
        }))
      continue;
    insert(op, *node, *placement);
    return;
  }
  startKernel(op);
}

//===----------------------------------------------------------------------===//
// Merge
//===----------------------------------------------------------------------===//

/// The domain of both kernels as one; nothing if a value of one cannot be read
/// in the other's loops.
std::optional<Domain> Grouping::getMergedDomain(Node &first, Node &second) {
  std::optional<Domain> domain = Domain::unite(first.domain, second.domain);
  if (!domain)
    return std::nullopt;
  bool late = !first.late.empty() || !second.late.empty();
  for (Node *node : {&first, &second}) {
    Node *other = node == &first ? &second : &first;
    // Repeated operations read the other kernel's values in ways that were not
    // checked.
    for (Operation *op : node->repeated)
      for (const Leaf &leaf : getOperandLeaves(op))
        if (getOwner(leaf.root) == other)
          return std::nullopt;
    for (Operation *op : node->members) {
      for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
        for (const Leaf &leaf : operands.getLeaves(operand)) {
          if (getOwner(leaf.root) != other ||
              node->repeated.contains(leaf.root.getDefiningOp()))
            continue;
          if (!isLockstep(op) || (isa<train::DropoutOp>(op) && index > 0))
            return std::nullopt;
          std::optional<Level> read = getReadLevel(
              leaf, other->levels.lookup(leaf.root.getDefiningOp()), *domain,
              late);
          Level wanted = isa<train::ReduceOp>(op) ? Level::Element
                                                  : node->levels.lookup(op);
          if (!read || *read != wanted)
            return std::nullopt;
        }
      }
    }
  }
  if (late && !domain->allowsSecondPass())
    return std::nullopt;
  return domain;
}

/// Merges `second` into `first`, which comes earlier in the order.
bool Grouping::tryMerge(Node &first, Node &second) {
  std::optional<Domain> domain = getMergedDomain(first, second);
  if (!domain || graph.reaches(first, second, /*indirect=*/true) ||
      graph.reaches(second, first, /*indirect=*/true))
    return false;
  llvm::SetVector<Value> arguments;
  for (Node *node : {&first, &second})
    for (Value argument : node->arguments)
      if (getOwner(argument) != &first && getOwner(argument) != &second)
        arguments.insert(argument);
  if (arguments.size() > maxArguments)
    return false;
  first.arguments = std::move(arguments);
  first.domain = *domain;
  first.members.append(second.members);
  llvm::sort(first.members,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  first.repeated.insert(second.repeated.begin(), second.repeated.end());
  for (Operation *op : second.members) {
    first.levels[op] = second.levels.lookup(op);
    owners[op] = &first;
  }
  graph.merge(first, second);
  // Which members are late follows from the operands' levels, in program order.
  first.late.clear();
  for (Operation *op : first.members) {
    first.repeated.erase(op);
    if (first.levels.lookup(op) == Level::Row)
      continue;
    for (const Leaf &leaf : getOperandLeaves(op))
      if (Operation *root = leaf.root.getDefiningOp();
          getOwner(leaf.root) == &first &&
          (first.late.contains(root) ||
           first.levels.lookup(root) == Level::Row))
        first.late.insert(op);
  }
  return true;
}

void Grouping::mergeProducers() {
  for (Node *node : graph.getOrdered()) {
    if (!node->isLoop() || node->merged)
      continue;
    // A merge adds producers to look at.
    for (bool changed = true; changed;) {
      changed = false;
      for (Node *producer : SmallVector<Node *>(node->predecessors.begin(),
                                                node->predecessors.end())) {
        if (!producer->isLoop() || !tryMerge(*producer, *node))
          continue;
        node = producer;
        changed = true;
        break;
      }
    }
  }
}

void Grouping::removeUnread() {
  SmallVector<Node *> nodes = graph.getOrdered();
  for (Node *node : llvm::reverse(nodes)) {
    if (!node->isLoop())
      continue;
    bool read = llvm::any_of(node->members, [&](Operation *op) {
      return operands.isRequired(op->getResult(0));
    });
    for (Node *reader : node->successors)
      read |= llvm::any_of(reader->arguments, [&](Value argument) {
        return getOwner(argument) == node;
      });
    if (!read)
      graph.remove(*node);
  }
}

/// Kernels whose distance from the start of the block differs by more are not
/// siblings: the earlier one would have to wait (a label count, whose
/// all-reduce should start early, for the loss), and values would live longer.
static constexpr int64_t kMaxSiblingDistance = 3;

void Grouping::mergeSiblings() {
  llvm::MapVector<Value, SmallVector<Node *>> readers;
  llvm::DenseMap<Node *, int64_t> depths;
  for (Node *node : graph.getOrdered()) {
    int64_t depth = 0;
    for (Node *producer : node->predecessors)
      depth = std::max(depth, depths.lookup(producer) + 1);
    depths[node] = depth;
    if (!node->isLoop())
      continue;
    // Only reading in the same order reads once.
    llvm::DenseSet<Value> whole;
    SmallVector<Operation *> ops = node->members;
    ops.append(node->repeated.begin(), node->repeated.end());
    for (Operation *op : ops)
      if (isLockstep(op))
        for (const Leaf &leaf : getOperandLeaves(op))
          if (leaf.view && isWhole(*leaf.view) &&
              getElements(leaf.root) == node->domain.elements)
            whole.insert(leaf.root);
    for (Value argument : node->arguments)
      if (whole.contains(argument))
        readers[argument].push_back(node);
  }
  for (auto &[value, nodes] : readers) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (size_t j = i + 1; j < nodes.size(); ++j)
        if (!nodes[i]->merged && !nodes[j]->merged &&
            std::abs(depths.lookup(nodes[i]) - depths.lookup(nodes[j])) <=
                kMaxSiblingDistance)
          nodes[i]->order < nodes[j]->order ? tryMerge(*nodes[i], *nodes[j])
                                            : tryMerge(*nodes[j], *nodes[i]);
  }
}
