//===- ScanRows.h - What running reductions share --------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_SCANROWS_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_SCANROWS_H

#include "compiler/emit/loops/KernelFunction.h"

namespace lockstep::emit {

/// The rows along the scanned dimension of an operand.
struct ScanRows {
  int64_t outer = 1, size = 1, inner = 1;

  /// Of a scan kernel's anchor: cumulative or arg_reduce.
  explicit ScanRows(mlir::Operation *anchor);
  int64_t count() const { return outer * inner; }
  /// The digits of a row's number, outer first.
  std::pair<Digit, Digit> split(ElementEmitter &e, mlir::Value row) const;
};

/// The index of these digits; those of size 1 are left out.
Index makeIndex(llvm::ArrayRef<Digit> digits);

/// True if the element x replaces `best` as the extreme so far: a larger (or
/// smaller) one, or the first NaN.
mlir::Value isBetter(ScalarBuilder &b, train::ReduceKind kind, mlir::Value x,
                     mlir::Value best, mlir::Type element);

/// Stores all results of the kernel at `index`.
void storeScanResults(KernelFunction &function, llvm::ArrayRef<Digit> index);

} // namespace lockstep::emit

#endif
