//===- Order.h - In which order a block runs --------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_ORDER_H
#define LOCKSTEP_COMPILER_SCHEDULE_ORDER_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace lockstep::schedule {

/// One step of a block.
struct Item {
  enum class Kind { Launch, Join, Start, Wait, Loop };
  Kind kind;
  /// Launch: the independent calls of one kernel that are its segments.
  /// Otherwise the one operation (Wait: the collective's).
  llvm::SmallVector<mlir::Operation *, 1> ops;
};

/// The value with memory of its own that a view is of.
mlir::Value getRoot(mlir::Value value);
/// True if `value` has all elements of its root.
bool isWholeRoot(mlir::Value value);
/// The roots of everything that `op` reads, what regions capture included.
llvm::SetVector<mlir::Value> getReads(mlir::Operation *op);

/// The operations of the root's block that read it through views, themselves or
/// in their regions.
llvm::SetVector<mlir::Operation *> getReaders(mlir::Value root);

/// `writer` computes the value that the argument's memory holds in the next
/// step.
struct Replacement {
  mlir::Value argument;
  mlir::Operation *writer;
};
/// Results of the function that replace an argument of the same role and name,
/// as far as every reader of the argument stands before the writer. The order
/// then keeps them before it, and the result may be written over the argument.
llvm::SmallVector<Replacement> getReplacements(mlir::func::FuncOp function);

/// The kernel that `call` names; `symbols` are the module's.
plan::KernelOp getKernel(plan::CallOp call, const mlir::SymbolTable &symbols);

/// The steps of `block`. Every rank gets the same order: it depends on the
/// block and the kernels alone.
std::vector<Item> orderBlock(mlir::Block &block,
                             llvm::ArrayRef<Replacement> replacements,
                             const mlir::SymbolTable &symbols);

} // namespace lockstep::schedule

#endif
