//===- KernelCheck.h - Generated kernels against the evaluator --*- C++ -*-===//
#ifndef LOCKSTEP_TEST_EMIT_KERNELCHECK_H
#define LOCKSTEP_TEST_EMIT_KERNELCHECK_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace lockstep::test {

struct KernelCheckOptions {
  /// Integers are drawn from [0, integersBelow).
  int64_t integersBelow = 3;
  /// Relative to the largest magnitude of a result.
  double tolerance = 2e-5;
  unsigned seed = 1;
  std::string target = "native";
};

/// Compiles every generated kernel of the module, runs each on random arguments
/// (results poisoned, work cut into odd chunks, and once more in one piece; the
/// bits must be equal) and compares with the evaluation of its region. Gives
/// the disagreements, one a line; empty when there are none.
std::string checkKernels(mlir::ModuleOp module,
                         const KernelCheckOptions &options,
                         int *checked = nullptr);

} // namespace lockstep::test

#endif
