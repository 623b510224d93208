//===- Entry.h - Programs by the names of their values ------------------*- C++
//-*-===//
//
// The step and the evaluation take the same named values in every stage: as a
// function's arguments and results (`train.name`, `train.role`), and after
// schedule as named buffers. An entry is either; so one set of inputs can be
// run through the IR of any stage, and the results compared.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_ENTRY_H
#define LOCKSTEP_COMPILER_REFERENCE_ENTRY_H

#include "compiler/reference/Interpreter.h"
#include "dialects/train/Train.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace lockstep {

struct EntryValue {
  /// `train.name`, preceded by "<role>/" where two arguments (or results) have
  /// one name; else "arg3" or "result0".
  std::string name;
  std::optional<train::Role> role;
  /// What one rank holds.
  mlir::RankedTensorType type;
};

struct EntrySignature {
  llvm::SmallVector<EntryValue> arguments, results;
};

/// The function or plan.program `name` of a module (for a program, its
/// `entry`); an error if there is none.
mlir::FailureOr<mlir::Operation *> findEntry(mlir::ModuleOp module,
                                             llvm::StringRef name);

EntrySignature getEntrySignature(mlir::Operation *entry);

/// Runs an entry on all ranks: arguments[i][rank] and results[i][rank].
mlir::FailureOr<llvm::SmallVector<RankTensors>>
runEntry(mlir::Operation *entry, int64_t ranks,
         llvm::ArrayRef<RankTensors> arguments);

/// Ranks of the module's mesh; 1 if it has none.
int64_t getNumRanks(mlir::ModuleOp module);

} // namespace lockstep

#endif
