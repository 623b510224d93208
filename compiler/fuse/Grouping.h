//===- Grouping.h - Which operations share a kernel -------------*- C++ -*-===//
//
// Linear in the number of operations but for path searches, and deterministic.
// Four steps:
//   join      in program order, each solid operation joins the kernel of one of
//   its operands, or starts a new one merge     a kernel is merged with the
//   kernel that it feeds repeat    a value that other kernels read is computed
//   again in them, where that moves no more bytes than storing it: it reads
//             cheaply computable inputs. Costly work (exp, tanh, ...) counts as
//             bytes, too.
//   siblings  kernels that read the same large value are merged
// Each keeps the graph of kernels free of cycles and each kernel within one
// domain (Domain.h).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_FUSE_GROUPING_H
#define LOCKSTEP_COMPILER_FUSE_GROUPING_H

#include "compiler/fuse/KernelGraph.h"
#include "compiler/fuse/Operands.h"

namespace lockstep::fuse {

class Grouping {
public:
  Grouping(mlir::Block &block, Operands &operands, int64_t maxArguments);

  void run();
  KernelGraph &getGraph() { return graph; }
  /// The node that computes `value` (a leaf); null for arguments and values
  /// from outside the block.
  Node *getOwner(mlir::Value value) const;

private:
  /// How an operation fits into a kernel.
  struct Placement {
    Level level;
    bool late;
    Domain domain;
  };

  void join(mlir::Operation *op);
  std::optional<Placement> place(mlir::Operation *op, Node &node);
  void insert(mlir::Operation *op, Node &node, const Placement &placement);
  Node &startKernel(mlir::Operation *op);

  std::optional<Domain> getMergedDomain(Node &first, Node &second);
  bool tryMerge(Node &first, Node &second);
  void mergeProducers();
  void mergeSiblings();

  /// Drops kernels whose values are all computed elsewhere.
  void removeUnread();

  void repeatValues();
  void repeatValue(mlir::Value value, Node &owner);
  int64_t getCostlyBytes(const Node &reader, mlir::Value value,
                         llvm::ArrayRef<mlir::Operation *> cone, bool moves);

  llvm::SmallVector<Leaf> getOperandLeaves(mlir::Operation *op);
  void replaceArgument(Node &node, mlir::Value value,
                       llvm::ArrayRef<mlir::Value> leaves);

  mlir::Block &block;
  Operands &operands;
  size_t maxArguments;
  KernelGraph graph;
  llvm::DenseMap<mlir::Operation *, Node *> owners;
};

} // namespace lockstep::fuse

#endif
