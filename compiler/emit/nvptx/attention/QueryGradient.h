//===- QueryGradient.h - The parts of the query gradient kernel -*- C++ -*-===//
//
// Like the forward kernel, each consumer warpgroup has 64 rows of queries and
// walks the blocks of keys: S and dP from shared memory, dS as the register
// operand of dQ += dS K. It also finds, for the backward kernel that runs
// after it, each row's lse and sum of dout times out.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_QUERYGRADIENT_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_QUERYGRADIENT_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/MaskPieces.h"
#include "compiler/emit/nvptx/attention/RowTensors.h"

namespace lockstep::attention {

/// The kernel's arguments, in order.
struct QueryGradientArguments {
  Value query, key, value, outputGradient, queryGradient;
  RowTensor outputRows, gradientRows;
  Value lse, logSum, rowSum, keyBias, table, bounds;
  Value queries, keys, paddedRows, queryHeads, window, headDim, scale;
  MaskPieceArguments mask;
};

struct QueryGradientFrame : BlockFrame {
  QueryGradientFrame(AttentionBuilder &b, const QueryGradientConfig &config,
                     const QueryGradientArguments &arguments);

  /// The bias of the block of keys at a stage.
  Value getKeyBias(Value stage);

  const QueryGradientConfig &config;
  QueryGradientLayout layout;
  QueryGradientArguments arguments;
  /// dout comes with the queries and goes with them.
  Ring queries, keys, values;
};

void emitQueryGradientConsumer(QueryGradientFrame &frame);

} // namespace lockstep::attention

#endif
