//===- Optimizer.h - The update of parameters and state ---------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_OPTIMIZER_H
#define LOCKSTEP_COMPILER_AUTODIFF_OPTIMIZER_H

#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Program.h"

namespace lockstep::autodiff {

/// A parameter with its gradient.
struct TrainedParameter {
  const ForwardProgram::Slot *slot;
  /// The argument of the step.
  mlir::Value value;
  /// Of the parameter's type.
  mlir::Value gradient;
};

/// Weight decay applies: no exclusion ("ndim<N", or a pattern of one of its
/// names) fits.
bool isDecayed(const ForwardProgram::Slot &parameter,
               llvm::ArrayRef<std::string> exclusions);
/// Fails, with an error, for an exclusion that is neither.
mlir::LogicalResult checkExclusions(mlir::Operation *op,
                                    llvm::ArrayRef<std::string> exclusions);

/// Builds the gradients' norm, the clipping factor and the update of every
/// parameter. Adds state and hyperparameter arguments, and the results: new
/// parameters, new state and the metric grad_norm (before clipping).
void buildUpdate(ProgramBuilder &program,
                 llvm::ArrayRef<TrainedParameter> parameters,
                 const StepOptions &options);

} // namespace lockstep::autodiff

#endif
