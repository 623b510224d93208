//===- TrainInterfaces.td - What every operation answers ---*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAININTERFACES_TD
#define LOCKSTEP_DIALECTS_TRAIN_TRAININTERFACES_TD

include "mlir/IR/OpBase.td"

class Train_Interface<string name> : OpInterface<name> { let cppNamespace = "::lockstep::train"; }

def DifferentiableOpInterface : Train_Interface<"DifferentiableOpInterface"> {
  let description = [{
    The derivative of an operation (reverse mode). Attached by compiler/autodiff.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradients with respect to the operands. `cotangents` has one value per result, null where no gradient
      flows into that result. `needed[i]` says whether operand i's gradient is wanted. Returns one value per operand, of the
      operand's type; null where the gradient is zero or not needed.
    }], "::llvm::SmallVector<::mlir::Value>", "buildGradients",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents, "::llvm::ArrayRef<bool>":$needed)>];
}

def PartitionableOpInterface : Train_Interface<"PartitionableOpInterface"> {
  let description = [{
    How an operation divides over a mesh, as a factor rule (see ShardingRule.h). Attached by compiler/partition.
  }];
  let methods = [
    InterfaceMethod<"The factor rule of this operation with its present shapes.", "::lockstep::train::ShardingRule", "getShardingRule", (ins)>];
}

def CostedOpInterface : Train_Interface<"CostedOpInterface"> {
  let description = [{ Work and traffic of an operation. Attached by compiler/cost. }];
  let methods = [
    InterfaceMethod<"Floating-point operations and bytes that must move.", "::lockstep::train::OpCost", "getCost", (ins)>];
}

def EvaluableOpInterface : Train_Interface<"EvaluableOpInterface"> {
  let description = [{ The slow reference evaluation of an operation. Attached by compiler/reference. }];
  let methods = [
    InterfaceMethod<[{
      Computes the results from the operands' values. Serves the interpreter, constant folding and mask recognition.
    }], "::mlir::LogicalResult", "evaluate",
    (ins "::llvm::ArrayRef<::lockstep::HostTensor>":$operands, "::llvm::SmallVectorImpl<::lockstep::HostTensor> &":$results)>];
}

def DecomposableOpInterface : Train_Interface<"DecomposableOpInterface"> {
  let description = [{
    An operation that is a composition of simpler `train` operations. Used where a dimension that it reduces is divided over
    ranks (the partial sums then appear explicitly), by code generation, and by tests. Implemented in dialects/train.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the composition before this operation and returns one value per result; a null value stands for a result that
      has no use.
    }], "::llvm::SmallVector<::mlir::Value>", "decompose", (ins "::mlir::OpBuilder &":$builder)>];
}

#endif
