//===- Operands.h - Where the operands of kernels come from -----*- C++ -*-===//
//
// Within one block, every operation is one of:
//   boundary   collectives, accumulate, join, return: not in a kernel; operands
//   and results have memory anchor     a kernel of its own kind
//   (KernelModel.h), sgd and adam among them; it absorbs views of its results
//   soft       views, constants, iotas, widening conversions, masks made of
//   these: never stored, but computed again in every kernel
//              that uses them (unless a boundary or anchor needs them in
//              memory)
//   solid      everything else: computed in exactly one loop kernel (but for
//   what Grouping.cpp repeats)
// A value's *leaves* are the values with memory from which it is computed
// through soft operations.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_FUSE_OPERANDS_H
#define LOCKSTEP_COMPILER_FUSE_OPERANDS_H

#include "dialects/plan/KernelModel.h"
#include "dialects/plan/StridedView.h"
#include <unordered_map>

namespace lockstep::fuse {

/// A leaf, and how the value reads it: nothing where the reading is not
/// strided.
struct Leaf {
  mlir::Value root;
  std::optional<plan::StridedView> view;
};

/// What an anchor's or boundary's operand reads from memory: `root` through
/// `views` (in the order of computation).
struct FoldedOperand {
  mlir::Value root;
  llvm::SmallVector<mlir::Operation *> views;
};

class Operands {
public:
  explicit Operands(mlir::Block &block);

  static bool isBoundary(mlir::Operation *op);
  /// An anchor, sgd or adam.
  static bool isAnchor(mlir::Operation *op);

  bool isSoft(mlir::Operation *op) const { return soft.contains(op); }
  /// A view that is part of the kernel of the anchor before it.
  bool isAbsorbed(mlir::Operation *op) const { return absorbed.contains(op); }
  /// The value that an anchor really writes for its result (behind absorbed
  /// views).
  mlir::Value getWritten(mlir::Value result) const {
    auto it = written.find(result);
    return it == written.end() ? result : it->second;
  }
  /// True if a boundary or anchor reads `value` from memory.
  bool isRequired(mlir::Value value) const { return required.contains(value); }

  /// Valid as long as this object is.
  llvm::ArrayRef<Leaf> getLeaves(mlir::Value value);
  /// Of an anchor or boundary, per operand. Values captured by the region of a
  /// boundary follow its operands.
  llvm::ArrayRef<FoldedOperand> getFolded(mlir::Operation *op) const {
    return folded.find(op)->second;
  }

private:
  FoldedOperand
  foldViews(mlir::Value value,
            llvm::function_ref<bool(const plan::StridedView &)> accept);
  void foldOperands(mlir::Operation *op);
  void foldDot(train::DotGeneralOp dot,
               llvm::SmallVectorImpl<FoldedOperand> &operands);
  void absorbResult(mlir::Operation *op, mlir::Value result);
  bool absorbJoined(mlir::Operation *op);
  bool classifySoft(mlir::Operation *op);

  mlir::Block &block;
  llvm::DenseSet<mlir::Operation *> soft, absorbed;
  llvm::DenseSet<mlir::Value> required;
  llvm::DenseMap<mlir::Value, mlir::Value> written;
  // References into these are handed out, so they must not move.
  std::unordered_map<mlir::Operation *, llvm::SmallVector<FoldedOperand, 2>>
      folded;
  std::unordered_map<void *, llvm::SmallVector<Leaf, 1>> leaves;
  llvm::DenseMap<mlir::Value, int64_t> softCost;
};

/// True if the operand is a constant that becomes part of the anchor's kernel:
/// what a scatter starts from, an update's scalar.
bool takesConstant(mlir::Operation *op, unsigned index);
/// True for pointwise operations that cost as much as a few additions (no exp,
/// tanh, erf, ...).
bool isCheap(mlir::Operation *op);
int64_t getElements(mlir::Value value);
int64_t getBytes(mlir::Value value);

} // namespace lockstep::fuse

#endif
