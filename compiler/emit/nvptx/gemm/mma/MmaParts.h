//===- MmaParts.h - The parts of an mma.sync kernel ------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMAPARTS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_MMA_MMAPARTS_H

#include "compiler/emit/nvptx/gemm/KernelBuilder.h"
#include "compiler/emit/nvptx/gemm/mma/MmaConfig.h"

namespace lockstep::gemm {

/// A's or B's tiles: from memory to a stage, from a stage to fragments.
///
/// A stage holds the tile in rows of the contiguous index, 16-byte places
/// exchanged by the row so that ldmatrix meets no bank twice: 128 rows of 32 k
/// (64 bytes), or 32 rows of 128 m or n (256 bytes).
class OperandTiles {
public:
  struct Operand {
    mlir::Value pointer; // of this block's matrix
    mlir::Value leading; // i64
    mlir::Value extent;  // along m or n
    mlir::Value extentK;
    mlir::Value first; // the tile's first row, along m or n
    Major major;
  };
  OperandTiles(KernelBuilder &b, const Operand &operand, mlir::Value thread)
      : b(b), operand(operand), thread(thread) {}

  /// Starts to copy the tile from k on to a stage at a shared address. What is
  /// outside the matrix becomes zero.
  void copy(mlir::Value k, mlir::Value target);
  /// Four 8x8 matrices of 16 rows from `row` on and 16 k from `k` on: of A in
  /// the order of mma's operand, of B two operands of 8 columns.
  llvm::SmallVector<mlir::Value> loadFragment(mlir::Value stage,
                                              mlir::Value row, int k, bool isA);

private:
  mlir::Value getPlace(mlir::Value line, mlir::Value chunk);
  void copyChunk(int index, mlir::Value k, mlir::Value target);

  KernelBuilder &b;
  Operand operand;
  mlir::Value thread;
};

/// Where a warp's sums go.
struct MmaOutput {
  mlir::Value d, side, bias; // of this block's matrix; null where unused
  mlir::Value leading;       // i64
  mlir::Value rows, columns;
  mlir::Value firstRow, firstColumn; // of the warp
  mlir::Value lane;
};
/// Sums of 16 rows and 8 columns, four a thread, as mma leaves them.
void storeProduct(KernelBuilder &b, const MmaConfig &config,
                  const MmaOutput &output, int row, int column,
                  llvm::ArrayRef<mlir::Value> sums);

} // namespace lockstep::gemm

#endif
