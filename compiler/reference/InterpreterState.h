//===- InterpreterState.h - What the parts of the interpreter share -----*- C++
//-*-===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_INTERPRETERSTATE_H
#define LOCKSTEP_COMPILER_REFERENCE_INTERPRETERSTATE_H

#include "compiler/reference/Interpreter.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/Plan.h"
#include "dialects/train/Train.h"

namespace lockstep {

class Interpreter {
public:
  explicit Interpreter(int64_t ranks) : ranks(ranks) {}

  int64_t getNumRanks() const { return ranks; }

  /// Runs a block whose arguments get the given values; returns the
  /// terminator's operands.
  mlir::FailureOr<llvm::SmallVector<RankTensors>>
  runBlock(mlir::Block &block, llvm::ArrayRef<RankTensors> arguments);

  /// Runs a kernel's region (of any kind) on every rank; operands and results
  /// have the shapes of the call.
  mlir::FailureOr<llvm::SmallVector<RankTensors>>
  runKernel(plan::KernelOp kernel, llvm::ArrayRef<RankTensors> operands,
            mlir::TypeRange resultTypes);

private:
  mlir::LogicalResult runOp(mlir::Operation *op);
  mlir::LogicalResult runEvaluable(train::EvaluableOpInterface op);
  mlir::LogicalResult runAccumulate(train::AccumulateOp op);
  mlir::LogicalResult runFunctionCall(mlir::func::CallOp op);
  mlir::LogicalResult runKernelCall(plan::CallOp op);
  mlir::LogicalResult runView(plan::ViewOp op);
  mlir::LogicalResult runJoin(plan::JoinOp op);
  mlir::LogicalResult runCollective(mlir::Operation *op);
  mlir::LogicalResult runStart(dist::StartOp op);
  mlir::LogicalResult runWait(dist::WaitOp op);
  mlir::LogicalResult runCoordinate(dist::CoordinateOp op);
  mlir::LogicalResult runLocalSlice(dist::LocalSliceOp op);

  llvm::SmallVector<RankTensors> getOperands(mlir::OperandRange operands);
  void setResults(mlir::Operation *op, llvm::ArrayRef<RankTensors> results);
  /// The mesh of a `dist` operation; an error if it has another number of ranks
  /// than this interpreter.
  mlir::FailureOr<dist::MeshOp> getMesh(mlir::Operation *op,
                                        mlir::FlatSymbolRefAttr name);

  int64_t ranks;
  llvm::DenseMap<mlir::Value, RankTensors> values;
  /// Results of started collectives, until they are waited for.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<RankTensors>> underWay;
  mlir::SymbolTableCollection symbols;
};

/// What each rank of a group gets, from what they contribute, in group order.
llvm::SmallVector<HostTensor>
combineAllReduce(train::ReduceKind kind, llvm::ArrayRef<HostTensor> inputs);

} // namespace lockstep

#endif
