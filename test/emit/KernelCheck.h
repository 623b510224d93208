//===- KernelCheck.h - Generated kernels against the evaluator --*- C++ -*-===//
#ifndef LOCKSTEP_TEST_EMIT_KERNELCHECK_H
#define LOCKSTEP_TEST_EMIT_KERNELCHECK_H

#include "compiler/reference/HostTensor.h"
#include "dialects/plan/Plan.h"
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

/// Random arguments of a kernel and what its region makes of them.
struct KernelCase {
  llvm::SmallVector<HostTensor> arguments, results;
};

/// An update kernel is run on as many elements as `updateElements` says.
/// Fails where the region cannot be evaluated.
mlir::FailureOr<KernelCase> drawKernelCase(plan::KernelOp kernel,
                                           mlir::ModuleOp module,
                                           int64_t integersBelow, unsigned seed,
                                           int64_t updateElements = 1);

/// Compiles every generated kernel of the module, runs each on random arguments
/// (results poisoned, work cut into odd chunks, and once more in one piece; the
/// bits must be equal) and compares with the evaluation of its region. Gives
/// the disagreements, one a line; empty when there are none.
std::string checkKernels(mlir::ModuleOp module,
                         const KernelCheckOptions &options,
                         int *checked = nullptr);

} // namespace lockstep::test

#endif
