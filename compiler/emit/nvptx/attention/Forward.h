//===- Forward.h - The parts of the forward kernel -------------*- C++ -*-===//
//
// Each consumer warpgroup has 64 rows of queries of a tile and walks the blocks
// of keys from the last, which may be masked, to the first. Its scores, the
// running maximum and sum of each row, and the sums of the output stay in
// registers: the next block's scores are multiplied while this block's
// probabilities multiply the values, and the warpgroups take turns at issuing
// products, so that one computes exponentials while the other one multiplies.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_FORWARD_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_FORWARD_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/MaskPieces.h"

namespace lockstep::attention {

/// The kernel's arguments, in order.
struct ForwardArguments {
  Value query, key, value, output;
  Value lse, keyBias, table, bounds;
  Value queries, keys, queryHeads, window, scale;
  MaskPieceArguments mask;
};

struct ForwardFrame : BlockFrame {
  ForwardFrame(AttentionBuilder &b, const ForwardConfig &config,
               const ForwardArguments &arguments);

  /// The bias of the block of keys at a stage.
  Value getKeyBias(Value stage);

  const ForwardConfig &config;
  ForwardLayout layout;
  ForwardArguments arguments;
  Ring queries, keys, values;
};

void emitForwardProducer(ForwardFrame &frame);
void emitForwardConsumer(ForwardFrame &frame);

} // namespace lockstep::attention

#endif
