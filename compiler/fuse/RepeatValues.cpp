//===- RepeatValues.cpp - Which values are computed again -----------------===//
#include "compiler/fuse/Grouping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// Most operations that are repeated for one value.
static constexpr size_t kMaxCone = 16;
/// A costly operation (exp, tanh, ...) on one element takes the time in which a
/// processor moves so many bytes: vectorised, about a nanosecond on one core,
/// of which all cores share the memory's bandwidth.
static constexpr int64_t kCostlyBytes = 4;

namespace {

/// The operations from which a value is computed again, and what they read.
struct Cone {
  llvm::SmallSetVector<Operation *, 8> members;
  llvm::SmallSetVector<Value, 8> leaves;
};

} // namespace

void Grouping::replaceArgument(Node &node, Value value,
                               ArrayRef<Value> leaves) {
  node.arguments.remove(value);
  node.arguments.insert(leaves.begin(), leaves.end());
  for (Value leaf : leaves)
    if (Node *owner = getOwner(leaf))
      graph.addEdge(*owner, node);
  Node *owner = getOwner(value);
  if (llvm::none_of(node.arguments, [&](Value argument) {
        return getOwner(argument) == owner;
      }))
    graph.removeEdge(*owner, node);
}

/// The price of the costly operations of a cone in a reader that does not have
/// them yet. A kernel with a second pass evaluates them twice, one that
/// broadcasts the value once per reading.
int64_t Grouping::getCostlyBytes(const Node &reader, Value value,
                                 ArrayRef<Operation *> cone, bool moves) {
  int64_t evaluations = 0, costly = 0;
  for (Operation *op : reader.members)
    for (Value operand : op->getOperands())
      for (const Leaf &leaf : operands.getLeaves(operand))
        if (leaf.root == value)
          evaluations = std::max(
              evaluations, std::max(getElements(operand), getElements(value)));
  if (!reader.late.empty())
    evaluations *= 2;
  if (moves)
    evaluations -= getElements(value);
  for (Operation *op : cone)
    costly += !isCheap(op) && !reader.repeated.contains(op);
  return evaluations * costly * kCostlyBytes;
}

/// Decides by bytes moved, and by costly operations as so many bytes. Storing
/// `value` writes it once and lets each reader read it; repeating it lets each
/// reader read the leaves that it does not read anyway, and stores leaves that
/// were inside the owner.
void Grouping::repeatValue(Value value, Node &owner) {
  SmallVector<Node *> readers;
  for (Node *node : owner.successors)
    if (node->isLoop() && node->arguments.contains(value))
      readers.push_back(node);
  llvm::sort(readers, [](Node *a, Node *b) { return a->order < b->order; });
  if (readers.empty())
    return;

  auto isExternal = [&](Value candidate) {
    return operands.isRequired(candidate) ||
           llvm::any_of(owner.successors, [&](Node *node) {
             return node->arguments.contains(candidate);
           });
  };
  Cone cone;
  SmallVector<Operation *> worklist{value.getDefiningOp()};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!cone.members.insert(op))
      continue;
    if (cone.members.size() > kMaxCone || !op->hasTrait<train::Pointwise>())
      return;
    for (const Leaf &leaf : getOperandLeaves(op)) {
      Operation *root = leaf.root.getDefiningOp();
      bool inside = getOwner(leaf.root) == &owner &&
                    root->hasTrait<train::Pointwise>() &&
                    owner.levels.lookup(root) == Level::Element;
      if (inside && !isExternal(leaf.root))
        worklist.push_back(root);
      else
        cone.leaves.insert(leaf.root);
    }
  }

  int64_t stored = getBytes(value) * static_cast<int64_t>(1 + readers.size()),
          repeated = 0;
  for (Value leaf : cone.leaves)
    if (getOwner(leaf) == &owner && !isExternal(leaf))
      repeated += getBytes(leaf);
  // What nobody in the owner needs any more moves, and costs nothing more than
  // before.
  bool moves =
      readers.size() == 1 && llvm::none_of(owner.members, [&](Operation *op) {
        return !cone.members.contains(op) &&
               llvm::any_of(getOperandLeaves(op), [&](const Leaf &leaf) {
                 return leaf.root == value;
               });
      });
  for (Node *reader : readers) {
    repeated +=
        getCostlyBytes(*reader, value, cone.members.getArrayRef(), moves);
    int64_t arguments = static_cast<int64_t>(reader->arguments.size()) - 1;
    for (Value leaf : cone.leaves) {
      if (reader->arguments.contains(leaf))
        continue;
      repeated += getBytes(leaf);
      ++arguments;
    }
    if (arguments > static_cast<int64_t>(maxArguments))
      return;
  }
  if (repeated > stored)
    return;
  for (Node *reader : readers) {
    reader->repeated.insert(cone.members.begin(), cone.members.end());
    replaceArgument(*reader, value,
                    SmallVector<Value>(cone.leaves.begin(), cone.leaves.end()));
  }
}

void Grouping::repeatValues() {
  SmallVector<Node *> nodes = graph.getOrdered();
  for (Node *node : llvm::reverse(nodes)) {
    if (!node->isLoop())
      continue;
    for (Operation *op : llvm::reverse(node->members))
      if (!operands.isRequired(op->getResult(0)))
        repeatValue(op->getResult(0), *node);
  }
}
