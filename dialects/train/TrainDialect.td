//===- TrainDialect.td - The training step on tensors ------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAINDIALECT_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAINDIALECT_TD

include "mlir/IR/OpBase.td"

def TrainDialect : Dialect {
  let name = "train";
  let summary = "The training step on tensors";
  let description = [{
    The `train` dialect says what one training step computes: parameters, optimizer state, batch, differentiable operations and the
    update. Names and semantics follow StableHLO where it has the operation. All tensors are ranked and static. Import creates it with
    global shapes, partition rewrites it to local shapes, fuse moves it into kernel regions, emit removes it.

    Every operation is pure: a write is a new value, and `schedule` decides which values share memory.
  }];
  let cppNamespace = "::lockstep::train";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// Argument and result attribute: what a value of the program is (`#train.role<parameter>`).
    static constexpr llvm::StringLiteral kRoleAttr = "train.role";
    /// Argument and result attribute: its name in the user's model.
    static constexpr llvm::StringLiteral kNameAttr = "train.name";
    /// Argument attribute: a parameter that is not trained.
    static constexpr llvm::StringLiteral kFrozenAttr = "train.frozen";
    /// Argument attribute: an input that is whole on every rank (dimension 0 is not the batch).
    static constexpr llvm::StringLiteral kWholeAttr = "train.whole";
    /// Argument attribute (array of strings): further names of the same storage (tied weights).
    static constexpr llvm::StringLiteral kTiedAttr = "train.tied";
  }];
}

#endif
