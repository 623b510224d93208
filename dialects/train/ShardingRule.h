//===- ShardingRule.h - How an operation divides over a mesh ---*- C++ -*-===//
//
// Every operation is described by factors, as an einsum is by its letters
// (Shardy, propagation.md). Each dimension of each operand and result is an
// ordered list of factors, major first, whose sizes multiply to the dimension's
// size. Dividing a factor over a mesh axis divides every dimension in which it
// appears (as the major part of that dimension), and:
//   Parallel     results that have the factor are divided along it
//   Reduction    results, which lack the factor, become partial (to be combined
//   by `reduction`) Decompose    the operation must be replaced by its
//   decomposition first (the parts then have rules of their own) Replicate the
//   factor must not be divided: operands are made whole along it
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_SHARDINGRULE_H
#define LOCKSTEP_DIALECTS_TRAIN_SHARDINGRULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace lockstep::train {

enum class ReduceKind : uint32_t;

enum class FactorKind { Parallel, Reduction, Decompose, Replicate };

struct Factor {
  int64_t size;
  FactorKind kind;
  /// How partial results combine; meaningful for FactorKind::Reduction.
  ReduceKind reduction;
};

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  /// [operand][dimension] -> indices into `factors`, major first. A dimension
  /// of size 1 that is broadcast has none.
  llvm::SmallVector<llvm::SmallVector<llvm::SmallVector<int>>> operands;
  /// [result][dimension], likewise.
  llvm::SmallVector<llvm::SmallVector<llvm::SmallVector<int>>> results;
};

/// Work and traffic of one operation.
struct OpCost {
  /// Floating-point operations; a fused multiply-add counts two.
  double flops = 0;
  /// Bytes that must at least be read and written, each operand and result
  /// once.
  double bytesRead = 0;
  double bytesWritten = 0;
};

} // namespace lockstep::train

#endif
