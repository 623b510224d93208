//===- ProgramMachine.h - Runs a scheduled program in real memory -------*- C++
//-*-===//
//
// After schedule, values are ranges of one arena per rank. The machine has an
// arena of bytes for each rank, filled with a pattern that is NaN as a float,
// runs every launch by the kernel's region on what lies at the operands'
// offsets, and writes what it gives to the results'. So a wrong alias, a buffer
// used before it is written or an operand overwritten too early shows as a
// wrong value, and what the plan promises is checked as well: results overlap
// operands only where the kernel allows it, segments of a launch do not touch
// each other, and no memory of a collective changes between its start and its
// wait.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_PROGRAMMACHINE_H
#define LOCKSTEP_COMPILER_REFERENCE_PROGRAMMACHINE_H

#include "compiler/reference/InterpreterState.h"
#include <map>

namespace lockstep {

/// A buffer that outlives the program or is filled from outside; one for all
/// operations that name it.
struct NamedBuffer {
  std::string name;
  plan::BufferKind kind;
  std::optional<train::Role> role;
  /// All of it: for a loop's micro batch, the batch of all iterations.
  mlir::RankedTensorType type;
  int64_t offset;
  /// Of a rank's coordinates, which the runtime fills in.
  mlir::FlatSymbolRefAttr mesh = {};
  dist::AxesAttr axes = {};
};

/// In the order in which they are first named.
llvm::SmallVector<NamedBuffer> getNamedBuffers(plan::ProgramOp program);

class ProgramMachine {
public:
  ProgramMachine(plan::ProgramOp program, int64_t ranks);

  void write(const NamedBuffer &buffer, int64_t rank, const HostTensor &tensor);
  HostTensor read(const NamedBuffer &buffer, int64_t rank) const;
  /// Runs the program once; errors are emitted at the operation.
  mlir::LogicalResult run();

private:
  /// A range of the arena in the present iteration.
  struct Range {
    int64_t begin, end;
    bool overlaps(const Range &other) const {
      return begin < other.end && other.begin < end;
    }
    bool operator==(const Range &other) const {
      return begin == other.begin && end == other.end;
    }
  };
  struct UnderWay {
    llvm::SmallVector<Range> inputs, outputs;
    /// Bytes of the inputs when it started, and of the results:
    /// [rank][operand].
    std::vector<std::vector<std::vector<char>>> contributed, received;
  };

  mlir::LogicalResult runBlock(mlir::Block &block, int64_t iteration);
  mlir::LogicalResult runLaunch(plan::LaunchOp op, int64_t iteration);
  mlir::LogicalResult checkLaunch(plan::LaunchOp op, plan::KernelOp kernel,
                                  int64_t iteration);
  mlir::LogicalResult checkUntouched(mlir::Operation *op, const Range &written);
  mlir::LogicalResult runCollectiveStart(plan::CollectiveStartOp op,
                                         int64_t iteration);
  mlir::LogicalResult runCollectiveWait(plan::CollectiveWaitOp op);
  mlir::LogicalResult runGroup(plan::CollectiveStartOp op,
                               llvm::ArrayRef<int64_t> group, unsigned operand,
                               UnderWay &collective);

  static plan::BufferOp getBuffer(mlir::Value value) {
    return value.getDefiningOp<plan::BufferOp>();
  }
  Range getRange(mlir::Value buffer, int64_t iteration) const;
  HostTensor load(mlir::Value buffer, int64_t rank, int64_t iteration) const;
  void store(mlir::Value buffer, int64_t rank, int64_t iteration,
             const HostTensor &tensor);

  plan::ProgramOp program;
  int64_t ranks;
  std::vector<std::vector<char>> arenas;
  Interpreter interpreter;
  mlir::SymbolTableCollection symbols;
  std::map<int64_t, UnderWay> underWay;
};

} // namespace lockstep

#endif
