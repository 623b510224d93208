//===- Program.h - Reading @forward, writing @step and @eval ----*- C++ -*-===//
//
// Programs are functions whose arguments and results say by attributes what
// they are (role and name). ForwardProgram reads those of the imported function
// once; ProgramBuilder collects a new function's body, arguments and results in
// any order and groups them by role when it is finished: the order of the
// enumeration Role is the order of a program's signature.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_PROGRAM_H
#define LOCKSTEP_COMPILER_AUTODIFF_PROGRAM_H

#include "dialects/train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::autodiff {

/// The role attribute of an argument's or result's dictionary.
std::optional<train::Role> getRole(mlir::DictionaryAttr attributes);
/// The name attribute, empty if there is none.
llvm::StringRef getName(mlir::DictionaryAttr attributes);

class ForwardProgram {
public:
  struct Slot {
    train::Role role;
    llvm::StringRef name;
    mlir::DictionaryAttr attributes;
    /// The argument, or the returned value.
    mlir::Value value;

    bool has(llvm::StringRef attribute) const {
      return attributes.contains(attribute);
    }
    mlir::RankedTensorType getType() const {
      return llvm::cast<mlir::RankedTensorType>(value.getType());
    }
  };

  /// Fails, with an error, where the module has no @forward of one block whose
  /// arguments and results all have roles and names.
  static mlir::FailureOr<ForwardProgram> read(mlir::ModuleOp module);

  mlir::func::FuncOp getFunction() const { return function; }
  llvm::ArrayRef<Slot> getArguments() const { return arguments; }
  llvm::ArrayRef<Slot> getResults() const { return results; }
  /// The values that the model returns, in its order.
  llvm::SmallVector<Slot> getOutputs() const;
  const Slot *findInput(llvm::StringRef name) const;
  /// Size of the global batch: dimension 0 of the first input that is not
  /// whole; 0 where there is none.
  int64_t getBatchSize() const;

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<Slot> arguments, results;
};

class ProgramBuilder {
public:
  /// Starts an empty function `name` in front of `before`.
  ProgramBuilder(mlir::Operation *before, llvm::StringRef name);

  /// Builds at the end of the body.
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() { return function.getLoc(); }
  mlir::Block &getBlock() { return *block; }
  mlir::func::FuncOp getFunction() { return function; }

  mlir::BlockArgument
  addArgument(mlir::RankedTensorType type, train::Role role,
              llvm::StringRef name,
              llvm::ArrayRef<mlir::NamedAttribute> further = {});
  void addResult(mlir::Value value, train::Role role, llvm::StringRef name);
  /// Adds the return and settles the signature.
  mlir::func::FuncOp finish();

private:
  struct Entry {
    train::Role role;
    mlir::DictionaryAttr attributes;
    mlir::Value value;
  };
  mlir::DictionaryAttr
  makeAttributes(train::Role role, llvm::StringRef name,
                 llvm::ArrayRef<mlir::NamedAttribute> further);
  /// The end of the entries with this role or one before it.
  static size_t endOfRole(llvm::ArrayRef<Entry> entries, train::Role role);

  mlir::func::FuncOp function;
  mlir::Block *block;
  mlir::OpBuilder builder;
  llvm::SmallVector<Entry> arguments, results;
};

} // namespace lockstep::autodiff

#endif
