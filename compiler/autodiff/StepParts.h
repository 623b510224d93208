//===- StepParts.h - Pieces of which @step and @eval are built --*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_STEPPARTS_H
#define LOCKSTEP_COMPILER_AUTODIFF_STEPPARTS_H

#include "compiler/autodiff/Loss.h"
#include "compiler/autodiff/Optimizer.h"
#include "mlir/IR/IRMapping.h"

namespace lockstep::autodiff {

/// The copy of forward's values in a program under construction.
struct ProgramValues {
  mlir::IRMapping mapping;
  /// Null where the program has none.
  mlir::Value labels;

  llvm::SmallVector<mlir::Value>
  lookup(llvm::ArrayRef<ForwardProgram::Slot> slots) const {
    return llvm::map_to_vector(slots, [&](const ForwardProgram::Slot &slot) {
      return mapping.lookup(slot.value);
    });
  }
};

/// Adds forward's arguments, and the labels where the graph has no input for
/// them. Programs made with the same forward, plan and `withRng` have the same
/// arguments in the same order.
ProgramValues addArguments(ProgramBuilder &program,
                           const ForwardProgram &forward, const LossPlan &plan,
                           const StepOptions &options, bool withRng);

/// Copies the operations of forward to the end of the program.
void copyForward(ProgramBuilder &program, const ForwardProgram &forward,
                 mlir::IRMapping &mapping, bool localBatchNorm);

/// Parameters that may be trained (floating point, not frozen), without
/// gradients yet.
llvm::SmallVector<TrainedParameter>
findTrainable(const ForwardProgram &forward, const mlir::IRMapping &mapping);

/// Fills in the gradients of `loss`, computed by `block`, times `seed`, at the
/// builder's insertion point. Drops parameters on which it does not depend
/// (PyTorch leaves their grad None); an error if none is left.
mlir::LogicalResult
buildBackward(mlir::OpBuilder &builder, mlir::Block &block, mlir::Value loss,
              mlir::Value seed,
              llvm::SmallVectorImpl<TrainedParameter> &parameters);

/// What the forward and backward pass give to the update.
struct StepResults {
  mlir::Value loss;
  llvm::SmallVector<TrainedParameter> parameters;
  llvm::SmallVector<std::pair<llvm::StringRef, mlir::Value>> newBuffers;
};

/// Forward and backward pass, once per micro batch (Accumulation.cpp).
mlir::FailureOr<StepResults> buildAccumulation(ProgramBuilder &program,
                                               const ForwardProgram &forward,
                                               const LossPlan &plan,
                                               const ProgramValues &values,
                                               const StepOptions &options);

} // namespace lockstep::autodiff

#endif
