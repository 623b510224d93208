//===- MaskPieces.h - A mask over queries and keys -------------*- C++ -*-===//
//
// A mask may lie in any way, with sizes of 1 for what it is shared by; a pass
// brings it into the order in which threads hold scores (AttentionConfig.h).
// A warpgroup then reads 4 bytes a thread for 64 x 64 scores of a Boolean mask,
// whatever its strides, and needs no bounds, since padding is hidden.
//
// Alternative: tiles of the mask by tensor copies. They need strides of 16
// bytes, buffers that the kernels at head 128 do not have, and 8 times the
// bytes of a Boolean mask for every head that shares it.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_MASKPIECES_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_MASKPIECES_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

/// Of a kernel: the pieces, and how many of them come between one row of
/// pieces, head, batch and the next (0: shared).
struct MaskPieceArguments {
  Value pieces, row, head, batch;
};

/// A warpgroup's view of the pieces. Does nothing where the kernel has no mask.
class MaskPieceReader {
public:
  MaskPieceReader(BlockFrame &frame, const Consumer &self, TensorMask mask,
                  const MaskPieceArguments &arguments)
      : b(frame.b), self(self), mask(mask), arguments(arguments) {}

  /// The number of the first piece of the rows that begin at a row of scores,
  /// plus a column's.
  Value getPiece(Value batch, Value head, Value row, Value column);
  /// What should be loaded while the scores are multiplied.
  Values loadAhead(Value piece, size_t scores);
  /// The scores with the mask, of which `ahead` has been loaded.
  Values apply(llvm::ArrayRef<Value> scores, Value piece,
               llvm::ArrayRef<Value> ahead);

private:
  Values applyBits(llvm::ArrayRef<Value> scores, llvm::ArrayRef<Value> words);
  /// This thread's part of a piece.
  Value getPointer(Value piece, int threadBytes);

  AttentionBuilder &b;
  const Consumer &self;
  TensorMask mask;
  MaskPieceArguments arguments;
};

} // namespace lockstep::attention

#endif
