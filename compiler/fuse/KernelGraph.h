//===- KernelGraph.h - Kernels to be and their order ------------*- C++ -*-===//
//
// A node becomes one kernel call or is one boundary operation. The graph keeps
// a topological order of its nodes while edges are added and nodes merged
// (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic
// graphs"): an edge that agrees with the order costs nothing, and a search for
// a path looks only at nodes between its ends.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_FUSE_KERNELGRAPH_H
#define LOCKSTEP_COMPILER_FUSE_KERNELGRAPH_H

#include "compiler/fuse/Domain.h"
#include "llvm/ADT/SetVector.h"
#include <memory>
#include <vector>

namespace lockstep::fuse {

struct Node {
  /// Position in the topological order; unique.
  int64_t order = 0;
  /// The anchor or boundary operation; null for a loop kernel.
  mlir::Operation *op = nullptr;

  // Of loop kernels:
  /// Solid operations computed here, in program order.
  llvm::SmallVector<mlir::Operation *> members;
  Domain domain;
  llvm::DenseMap<mlir::Operation *, Level> levels;
  /// Element-level members that depend on a reduce of this kernel.
  llvm::DenseSet<mlir::Operation *> late;
  /// Solid operations of other kernels that are computed again here.
  llvm::DenseSet<mlir::Operation *> repeated;
  /// Values read from memory.
  llvm::SetVector<mlir::Value> arguments;

  llvm::SmallSetVector<Node *, 4> predecessors, successors;
  bool merged = false;

  bool isLoop() const { return !op; }
};

class KernelGraph {
public:
  /// A new node at the end of the order.
  Node &add(mlir::Operation *op = nullptr);
  /// True if there is a path from `from` to `to`, not counting the edge between
  /// them if `indirect`.
  bool reaches(Node &from, Node &to, bool indirect = false) const;
  /// Adds an edge; there must be no path from `to` to `from`.
  void addEdge(Node &from, Node &to);
  void removeEdge(Node &from, Node &to);
  /// Moves `gone`'s edges to `kept`; there must be no indirect path between
  /// them. Members are the caller's concern.
  void merge(Node &kept, Node &gone);
  void remove(Node &node);

  /// Nodes that are neither removed nor merged into others, in topological
  /// order.
  llvm::SmallVector<Node *> getOrdered() const;

private:
  std::vector<std::unique_ptr<Node>> nodes;
};

} // namespace lockstep::fuse

#endif
