//===- KernelGraph.cpp - Kernels to be and their order --------------------===//
#include "compiler/fuse/KernelGraph.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep::fuse;

Node &KernelGraph::add(Operation *op) {
  nodes.push_back(std::make_unique<Node>());
  nodes.back()->order = static_cast<int64_t>(nodes.size());
  nodes.back()->op = op;
  return *nodes.back();
}

bool KernelGraph::reaches(Node &from, Node &to, bool indirect) const {
  SmallVector<Node *> worklist;
  llvm::DenseSet<Node *> seen;
  auto visit = [&](Node *node) {
    if (node->order <= to.order && seen.insert(node).second)
      worklist.push_back(node);
  };
  for (Node *next : from.successors)
    if (!indirect || next != &to)
      visit(next);
  while (!worklist.empty()) {
    Node *node = worklist.pop_back_val();
    if (node == &to)
      return true;
    for (Node *next : node->successors)
      visit(next);
  }
  return false;
}

/// Nodes reachable from `start` (along `next`) whose order satisfies `inside`,
/// in order.
template <typename Next, typename Inside>
static SmallVector<Node *> collect(Node &start, Next next, Inside inside) {
  SmallVector<Node *> found{&start};
  llvm::DenseSet<Node *> seen{&start};
  for (size_t i = 0; i < found.size(); ++i)
    for (Node *node : next(*found[i]))
      if (inside(*node) && seen.insert(node).second)
        found.push_back(node);
  llvm::sort(found, [](Node *a, Node *b) { return a->order < b->order; });
  return found;
}

void KernelGraph::addEdge(Node &from, Node &to) {
  if (&from == &to || !from.successors.insert(&to))
    return;
  to.predecessors.insert(&from);
  if (from.order < to.order)
    return;
  // What must come before `from` takes the lowest of the places between them,
  // then what follows `to`.
  int64_t low = to.order, high = from.order;
  auto after = collect(
      to, [](Node &node) -> auto & { return node.successors; },
      [&](Node &node) { return node.order <= high; });
  auto before = collect(
      from, [](Node &node) -> auto & { return node.predecessors; },
      [&](Node &node) { return node.order >= low; });
  SmallVector<int64_t> places;
  for (Node *node : llvm::concat<Node *>(before, after))
    places.push_back(node->order);
  llvm::sort(places);
  size_t place = 0;
  for (Node *node : llvm::concat<Node *>(before, after))
    node->order = places[place++];
}

void KernelGraph::removeEdge(Node &from, Node &to) {
  from.successors.remove(&to);
  to.predecessors.remove(&from);
}

void KernelGraph::merge(Node &kept, Node &gone) {
  SmallVector<Node *> predecessors(gone.predecessors.begin(),
                                   gone.predecessors.end()),
      successors(gone.successors.begin(), gone.successors.end());
  for (Node *node : predecessors)
    removeEdge(*node, gone);
  for (Node *node : successors)
    removeEdge(gone, *node);
  gone.merged = true;
  for (Node *node : predecessors)
    addEdge(*node, kept);
  for (Node *node : successors)
    addEdge(kept, *node);
}

void KernelGraph::remove(Node &node) {
  for (Node *other :
       SmallVector<Node *>(node.predecessors.begin(), node.predecessors.end()))
    removeEdge(*other, node);
  for (Node *other :
       SmallVector<Node *>(node.successors.begin(), node.successors.end()))
    removeEdge(node, *other);
  node.merged = true;
}

SmallVector<Node *> KernelGraph::getOrdered() const {
  SmallVector<Node *> ordered;
  for (const auto &node : nodes)
    if (!node->merged)
      ordered.push_back(node.get());
  llvm::sort(ordered, [](Node *a, Node *b) { return a->order < b->order; });
  return ordered;
}
