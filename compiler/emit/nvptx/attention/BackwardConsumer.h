//===- BackwardConsumer.h - The warpgroups of the backward kernel -*- C++ -*-=//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BACKWARDCONSUMER_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BACKWARDCONSUMER_H

#include "compiler/emit/nvptx/attention/Backward.h"

namespace lockstep::attention {

/// What both schedules of the consumers do in a step.
class BackwardConsumer {
public:
  explicit BackwardConsumer(BackwardFrame &frame);

protected:
  /// Products: of this warpgroup's keys (values) with a tile of queries (dout);
  /// of weights with a tile, added up over queries. A null `keep` adds.
  Values issueScores(Value keyStage, Value stage);
  Values issueWeightGradients(Value keyStage, Value stage);
  Values issueValueGradient(llvm::ArrayRef<Value> sums,
                            llvm::ArrayRef<Value> weights, Value stage,
                            Value keep);
  Values issueKeyGradient(llvm::ArrayRef<Value> sums,
                          llvm::ArrayRef<Value> scoreGradients, Value stage,
                          Value keep);

  /// An item, with the bias of the thread's two rows.
  BackwardItem loadItem(Value index);

  /// Where a mask over queries and keys has the scores of a step, and what is
  /// loaded of it while they are multiplied.
  struct StepMask {
    Value piece;
    Values ahead;
  };
  StepMask startMask(const BackwardItem &item, QueryTile tile);
  /// exp(scale s - lse) of the scores that are seen.
  Values getWeights(const BackwardItem &item, QueryTile tile,
                    llvm::ArrayRef<Value> scores, const StepMask &mask,
                    Value stage);
  /// p (dp - rowSum).
  Values getScoreGradients(llvm::ArrayRef<Value> weights,
                           llvm::ArrayRef<Value> weightGradients, Value stage);

  void releaseQueries(Value stage);
  void releaseOutputGradients(Value stage);
  /// Hands dk and dv of the item over to the thread that stores.
  void handOver(llvm::ArrayRef<Value> keyGradient,
                llvm::ArrayRef<Value> valueGradient, Value keyStage);

  BackwardFrame &frame;
  AttentionBuilder &b;
  const BackwardConfig &config;
  Consumer self;
  int keyBlock, queryRows;
  /// Sums of a thread: of dk and of dv each.
  int gradientSums;

  /// A matrix from the columns of a gradient on that the warpgroup has.
  Matrix getOwnColumns(Matrix matrix);

private:
  MaskPieceReader pieces;

  /// This thread's first column of the vectors of the queries.
  Value getVectorColumn(Value stage);

  /// In base 2.
  Value scale;
};

/// dq, dk and dv.
void emitDeferredSteps(BackwardFrame &frame);
/// dk and dv.
void emitAheadSteps(BackwardFrame &frame);

} // namespace lockstep::attention

#endif
