//===- StepAttributes.h - What @step says about itself ----------*- C++ -*-===//
//
// Names of the discardable attributes that autodiff puts on @step and its
// arguments, besides those of the dialect (role, name, frozen, whole, tied),
// for the stages and the artifact behind it.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_STEPATTRIBUTES_H
#define LOCKSTEP_DIALECTS_TRAIN_STEPATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace lockstep::train {

/// The programs of a module after autodiff.
inline constexpr llvm::StringLiteral kForwardName = "forward";
inline constexpr llvm::StringLiteral kStepName = "step";
inline constexpr llvm::StringLiteral kEvalName = "eval";

/// Hyperparameter argument (f64): the value that the user gave, which the
/// runtime may override. Absent where the runtime computes it (bias_correction1
/// and 2).
inline constexpr llvm::StringLiteral kDefaultAttr = "train.default";
/// Parameter argument (unit): weight decay applies.
inline constexpr llvm::StringLiteral kDecayedAttr = "train.decayed";
/// Label argument (string): where labels come from. Absent: from the data, by
/// name.
inline constexpr llvm::StringLiteral kLabelRuleAttr = "train.label_rule";
/// The token stream shifted by one.
inline constexpr llvm::StringLiteral kLabelRuleNextToken = "next_token";
/// The token stream as it is (the graph shifts).
inline constexpr llvm::StringLiteral kLabelRuleTokens = "tokens";
/// @step (dictionary): kind = "constant" | "linear" | "cosine", warmup, total
/// (i64 steps), min_lr (f64).
inline constexpr llvm::StringLiteral kLrScheduleAttr = "train.lr_schedule";
/// @step (i64): micro batches per step.
inline constexpr llvm::StringLiteral kAccumulationStepsAttr =
    "train.accumulation_steps";

/// Input or label argument (i64): its values lie in [0, vocabulary), as rows of
/// an embedding or classes of a loss.
inline constexpr llvm::StringLiteral kVocabularyAttr = "train.vocabulary";
/// Argument with a vocabulary (unit): negative values count from the end, as
/// indices of a tensor do, so that values lie in [-vocabulary, vocabulary).
inline constexpr llvm::StringLiteral kFromEndAttr = "train.from_end";
/// Label argument with a vocabulary (i64): this value is allowed as well.
inline constexpr llvm::StringLiteral kIgnoredLabelAttr = "train.ignored_label";
/// @step (string): cross_entropy, mse or output:I; sgd, adam or adamw. For
/// people.
inline constexpr llvm::StringLiteral kLossAttr = "train.loss";
inline constexpr llvm::StringLiteral kOptimizerAttr = "train.optimizer";

} // namespace lockstep::train

#endif
