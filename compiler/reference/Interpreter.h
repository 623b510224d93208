//===- Interpreter.h - Runs a program, all ranks in one process ---------*- C++
//-*-===//
//
// The oracle of the tests: executes a function of `train` operations, or, after
// partition and fuse, of `dist` collectives and `plan` kernel calls. Every rank
// holds its own values; all ranks execute an operation before the next one, and
// a collective combines what the ranks of each group hold. Values are freed
// after their last use, so that a training step needs about the memory that a
// real one needs.
//
// Errors (an operation without evaluation, an operand of the wrong shape) are
// emitted at the operation.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_INTERPRETER_H
#define LOCKSTEP_COMPILER_REFERENCE_INTERPRETER_H

#include "compiler/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep {

/// One value of a program: its tensor on every rank.
using RankTensors = llvm::SmallVector<HostTensor, 1>;

/// Runs a function on one rank. `arguments` have the types of the function's
/// arguments.
mlir::FailureOr<llvm::SmallVector<HostTensor>>
interpret(mlir::func::FuncOp function, llvm::ArrayRef<HostTensor> arguments);

/// Runs a function on several ranks: arguments[i][rank] and results[i][rank]. A
/// mesh that the program uses must have as many ranks.
mlir::FailureOr<llvm::SmallVector<RankTensors>>
interpretRanks(mlir::func::FuncOp function, int64_t ranks,
               llvm::ArrayRef<RankTensors> arguments);

} // namespace lockstep

#endif
