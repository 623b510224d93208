//===- Backward.h - The parts of the backward kernel -----------*- C++ -*-===//
//
// A block has 128 rows of keys and their values, 64 for each of two consumer
// warpgroups, and walks the tiles of queries of every query head of their
// group. With rows of keys and columns of queries a step is
//
//   S^T = K Q^T, P^T = exp(S^T - lse); dP^T = V dO^T
//   dS^T = P^T (dP^T - rowSum), both as wgmma's register operand as they are
//   dV += P^T dO, dK += dS^T Q
//   dQ += dS K: dS goes through shared memory, since both warpgroups' keys
//         count; the sum goes to global memory in the order of the registers
//
// dQ of a step is multiplied in the next step, when the other warpgroup has
// long written its dS: no barrier holds the warpgroups together, and one
// computes while the other one multiplies. Without dQ the warpgroups share
// nothing, and the next step's scores are multiplied ahead instead.
//
// Above a head dimension of 128 a block has 64 rows of keys, the scores of
// which both warpgroups compute, and each has half of the columns of dK and dV.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BACKWARD_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BACKWARD_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/MaskPieces.h"

namespace lockstep::attention {

/// The kernel's arguments, in order.
struct BackwardArguments {
  Value query, key, value, outputGradient, keyGradient, valueGradient;
  Value logSum, rowSum, querySums, keyBias, table, bounds;
  Value tiles, keys, queryHeads, window, scale;
  MaskPieceArguments mask;
};

struct BackwardFrame : BlockFrame {
  BackwardFrame(AttentionBuilder &b, const BackwardConfig &config,
                const BackwardArguments &arguments);

  bool hasQueryGradient() const {
    return config.queryGradient != QueryGradient::None;
  }

  const BackwardConfig &config;
  BackwardLayout layout;
  BackwardArguments arguments;
  Ring queries, outputGradients, keys, values;
  /// For each block of keys: both gradients are in shared memory.
  Value resultsFull;
  /// Of the two buffers of dS, and of dk's staging buffer.
  Value scoresFull, scoresEmpty, stagingEmpty;
};

/// A block of keys.
struct BackwardItem {
  BackwardItem(BackwardFrame &frame, Value index);
  Value row, keyHead, batch, firstHead, steps, first, start, end;
  /// Of the thread's two rows, for a consumer that adds one.
  Value bias[2];
};

/// A tile of queries of one head, counted over the whole batch.
struct QueryTile {
  Value tile, head;
};
QueryTile getFirstTile(BackwardFrame &frame, const BackwardItem &item);
QueryTile getNextTile(BackwardFrame &frame, const BackwardItem &item,
                      QueryTile at);
/// Its number among the tiles of all heads.
Value getTileNumber(BackwardFrame &frame, QueryTile at);

/// One thread that loads and one that stores dk and dv.
void emitBackwardProducer(BackwardFrame &frame);
void emitBackwardConsumer(BackwardFrame &frame);

} // namespace lockstep::attention

#endif
