//===- Tables.h - The artifact's tables from the plan -----------*- C++ -*-===//
//
// The plan dialect after schedule says what the artifact says, one to one;
// these functions write it down. What generated code and library kernels need
// (symbols, attributes, work items) comes in as one KernelEntry per
// plan.kernel.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_ARTIFACT_TABLES_H
#define LOCKSTEP_COMPILER_EMIT_ARTIFACT_TABLES_H

#include "compiler/emit/Emit.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "runtime/artifact/artifact_writer.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace lockstep::emit {

/// A kernel as the artifact has it.
struct KernelEntry {
  /// Index in the plan's table of kernels.
  uint32_t index = 0;
  /// Those of what is launched behind it, with the same operands.
  llvm::SmallVector<uint32_t, 1> further;
  /// Work items of one segment; 0: one per element of the segment's first
  /// output (update kernels).
  int64_t workItems = 1;
  /// For each operand of the runtime's kernel, which of the launch's operands
  /// it is: inputs first, then outputs. Empty: all in that order.
  llvm::SmallVector<int> order;
  /// With `order`: how many bytes behind the operand's begin the kernel's
  /// operand starts.
  llvm::SmallVector<int64_t> byteOffsets;
};
using KernelEntries = llvm::DenseMap<mlir::StringAttr, KernelEntry>;

/// The runtime's element type, or an error at `loc`.
mlir::FailureOr<artifact::DType> toDType(mlir::Type element,
                                         mlir::Location loc);

/// Communicators by mesh and axes, in the order of first use.
class Communicators {
public:
  uint32_t get(dist::MeshOp mesh, mlir::ArrayAttr axes);
  std::vector<std::unique_ptr<artifact::CommunicatorT>> take() {
    return std::move(table);
  }

private:
  llvm::MapVector<std::pair<mlir::Operation *, mlir::ArrayAttr>, uint32_t>
      known;
  std::vector<std::unique_ptr<artifact::CommunicatorT>> table;
};

/// Writes programs down; adds copy and fill kernels to the plan's table where
/// instructions need them.
class ProgramTables {
public:
  ProgramTables(artifact::PlanT &plan, const KernelEntries &kernels,
                mlir::SymbolTable &symbols)
      : plan(plan), kernels(kernels), symbols(symbols) {}

  /// Adds the program, with its inputs and scalars.
  mlir::LogicalResult add(plan::ProgramOp program);
  Communicators &getCommunicators() { return communicators; }

private:
  using Instructions = std::vector<std::unique_ptr<artifact::InstructionT>>;

  mlir::LogicalResult addBuffer(plan::BufferOp buffer,
                                artifact::ProgramT &program);
  mlir::LogicalResult addBlock(mlir::Block &block, Instructions &instructions);
  mlir::LogicalResult addLaunch(plan::LaunchOp launch,
                                Instructions &instructions);
  mlir::LogicalResult addCollective(plan::CollectiveStartOp start,
                                    Instructions &instructions);
  void addLibraryCall(artifact::LibraryKernel kernel, llvm::StringRef name,
                      int64_t bytes, llvm::ArrayRef<mlir::Value> operands,
                      Instructions &instructions);

  artifact::PlanT &plan;
  const KernelEntries &kernels;
  mlir::SymbolTable &symbols;
  Communicators communicators;
  llvm::MapVector<std::pair<int, int64_t>, uint32_t> libraryCalls;
};

/// Adds the persistent tensors of all programs, each once, with values or rules
/// from `weights`. Values go to `writer` and are kept alive in
/// `alive`.
mlir::LogicalResult addTensors(mlir::ModuleOp module,
                               const WeightStore &weights,
                               runtime::ArtifactWriter &writer,
                               artifact::PlanT &plan,
                               std::vector<WeightBytes> &alive);

/// Hyperparameters, schedule, labels, batch and the summary, from the programs'
/// attributes.
mlir::LogicalResult addRecipe(mlir::ModuleOp module, const EmitOptions &options,
                              artifact::PlanT &plan);

} // namespace lockstep::emit

#endif
