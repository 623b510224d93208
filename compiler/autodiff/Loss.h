//===- Loss.h - Labels, and the loss as a sum over a count ------*- C++ -*-===//
//
// A loss that this stage joins to the graph is a sum divided by a count. The
// count depends on the labels alone (cross entropy: labels that are not
// ignored) or is a constant (mean squared error), so it is known before the
// backward pass, over all ranks and all micro batches.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_LOSS_H
#define LOCKSTEP_COMPILER_AUTODIFF_LOSS_H

#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Program.h"
#include "dialects/train/DecompositionUtils.h"

namespace lockstep::autodiff {

enum class LossKind { CrossEntropy, MeanSquaredError, Output };

/// The labels of the program, and what the loss is made of; everything is
/// checked against the graph's types.
struct LossPlan {
  LossKind kind;
  /// The graph's output (among its outputs) that holds logits, prediction or
  /// loss.
  unsigned output;
  /// CrossEntropy: the classes' dimension of the logits, not negative.
  int64_t classDim = 0;
  /// Name of the labels; empty where the program has none.
  std::string labelName;
  /// Type of the labels where they are no input of the graph already.
  mlir::RankedTensorType labelType;
  /// kLabelRule* or null.
  mlir::StringAttr labelRule;
};

/// Reads the options, with an error where they do not fit the graph.
mlir::FailureOr<LossPlan> planLoss(const ForwardProgram &forward,
                                   const StepOptions &options);

/// loss = sum / count, all rank 0, f32 at least.
struct LossTerms {
  mlir::Value sum;
  /// Null: the loss is `sum`, a scalar that the graph computed as a whole.
  mlir::Value count;

  mlir::Value getLoss(train::TensorBuilder &b) const {
    return count ? b.divide(sum, count) : sum;
  }
};

/// Builds the loss of the outputs. `labels` is null for an output that is the
/// loss.
LossTerms buildLoss(train::TensorBuilder &b, const LossPlan &plan,
                    mlir::ValueRange outputs, mlir::Value labels,
                    const StepOptions &options);
/// The count alone, from all labels: what buildLoss would give for the whole
/// batch.
mlir::Value buildLossCount(train::TensorBuilder &b, const LossPlan &plan,
                           mlir::RankedTensorType outputType,
                           mlir::Value labels, const StepOptions &options);

} // namespace lockstep::autodiff

#endif
