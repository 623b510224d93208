//===- BackwardConsumer.cpp - The warpgroups of the backward kernel -------===//
#include "compiler/emit/nvptx/attention/BackwardConsumer.h"
#include "compiler/emit/nvptx/attention/KeyBias.h"
#include "compiler/emit/nvptx/attention/ScoreMask.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

BackwardConsumer::BackwardConsumer(BackwardFrame &frame)
    : frame(frame), b(frame.b), config(frame.config),
      self(frame, sharesRows(config.headDim)),
      keyBlock(getKeyBlock(config.headDim)), queryRows(getQueryRows(config)),
      gradientSums(config.headDim / (sharesRows(config.headDim) ? 4 : 2)),
      pieces(frame, self, config.tensorMask, frame.arguments.mask),
      scale(b.multiplyF32(frame.arguments.scale, b.constantF32(log2E))) {}

BackwardItem BackwardConsumer::loadItem(Value index) {
  BackwardItem item(frame, index);
  if (!config.keyBias)
    return item;
  Value bias = getKeyBias(b, frame.arguments.keyBias, item.batch,
                          frame.arguments.keys, b.add(item.row, self.row));
  for (int half = 0; half < 2; ++half)
    item.bias[half] = b.load(b.element(bias, 8 * half, b.getF32Type()),
                             b.getF32Type(), 4, /*invariant=*/true);
  return item;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Matrix BackwardConsumer::getOwnColumns(Matrix matrix) {
  int bytes = 2 * gradientSums * matrix.rows * 2;
  matrix.address =
      b.add(matrix.address, b.multiply(self.columnGroup, bytes >> 4));
  return matrix;
}

Values BackwardConsumer::issueScores(Value keyStage, Value stage) {
  return b.multiplyRows(frame.keys.getMatrix(keyStage, keyBlock, self.firstRow),
                        frame.queries.getMatrix(stage, queryRows), queryRows,
                        config.headDim);
}

Values BackwardConsumer::issueWeightGradients(Value keyStage, Value stage) {
  return b.multiplyRows(
      frame.values.getMatrix(keyStage, keyBlock, self.firstRow),
      frame.outputGradients.getMatrix(stage, queryRows), queryRows,
      config.headDim);
}

Values BackwardConsumer::issueValueGradient(ArrayRef<Value> sums,
                                            ArrayRef<Value> weights,
                                            Value stage, Value keep) {
  b.fenceProducts();
  return b.accumulate(
      sums, weights,
      getOwnColumns(frame.outputGradients.getMatrix(stage, queryRows)),
      queryRows, keep);
}

Values BackwardConsumer::issueKeyGradient(ArrayRef<Value> sums,
                                          ArrayRef<Value> scoreGradients,
                                          Value stage, Value keep) {
  return b.accumulate(sums, scoreGradients,
                      getOwnColumns(frame.queries.getMatrix(stage, queryRows)),
                      queryRows, keep);
}

//===----------------------------------------------------------------------===//
// Weights and their gradients
//===----------------------------------------------------------------------===//

Value BackwardConsumer::getVectorColumn(Value stage) {
  Value column = b.add(frame.sharedBase, b.shiftLeft(self.column, 2));
  return b.add(b.hide(column), b.multiply(stage, frame.layout.vectorBytes));
}

BackwardConsumer::StepMask BackwardConsumer::startMask(const BackwardItem &item,
                                                       QueryTile tile) {
  if (config.tensorMask == TensorMask::None)
    return {};
  Value head =
      b.subtract(tile.head, b.multiply(item.batch, frame.arguments.queryHeads));
  Value piece =
      pieces.getPiece(item.batch, head, b.add(item.row, self.firstRow),
                      b.multiply(tile.tile, queryRows));
  return {piece, pieces.loadAhead(piece, queryRows / 2)};
}

Values BackwardConsumer::getWeights(const BackwardItem &item, QueryTile tile,
                                    ArrayRef<Value> scores,
                                    const StepMask &mask, Value stage) {
  Values seen = pieces.apply(scores, mask.piece, mask.ahead);
  // Data hides keys past the end, too.
  if (config.mask != Mask::Full || !hidesByData(config)) {
    MaskArguments arguments{config.mask, keyBlock, frame.arguments.keys,
                            frame.arguments.window};
    seen = maskQueries(frame, self, arguments, seen,
                       b.multiply(tile.tile, queryRows), item.row);
  }
  if (config.keyBias)
    for (size_t i = 0; i < seen.size(); ++i)
      seen[i] = b.addF32(seen[i], item.bias[i / 2 % 2]);
  Value column = getVectorColumn(stage);
  Values weights;
  for (int group = 0; group < queryRows / 8; ++group) {
    Values logSums =
        b.loadSharedPair(b.add(column, frame.layout.logSum + 32 * group));
    for (int i = 4 * group; i < 4 * group + 4; ++i)
      weights.push_back(b.exp2F32(b.fusedF32(seen[i], scale, logSums[i % 2])));
  }
  return weights;
}

Values BackwardConsumer::getScoreGradients(ArrayRef<Value> weights,
                                           ArrayRef<Value> weightGradients,
                                           Value stage) {
  Value column = getVectorColumn(stage);
  Values gradients;
  for (int group = 0; group < queryRows / 8; ++group) {
    Values rowSums =
        b.loadSharedPair(b.add(column, frame.layout.rowSum + 32 * group));
    for (int i = 4 * group; i < 4 * group + 4; ++i)
      gradients.push_back(b.multiplyF32(
          weights[i], b.subtractF32(weightGradients[i], rowSums[i % 2])));
  }
  return gradients;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

void BackwardConsumer::releaseQueries(Value stage) {
  arriveOnce(frame, self, frame.queries.getEmpty(stage));
}
void BackwardConsumer::releaseOutputGradients(Value stage) {
  arriveOnce(frame, self, frame.outputGradients.getEmpty(stage));
}

void BackwardConsumer::handOver(ArrayRef<Value> keyGradient,
                                ArrayRef<Value> valueGradient, Value keyStage) {
  Values scaled;
  for (Value sum : keyGradient)
    scaled.push_back(b.multiplyF32(sum, frame.arguments.scale));
  Value offset = b.hide(self.matrixOffset);
  // Rows of 128 bytes; the next 64 columns after all rows.
  Value own =
      b.add(b.shiftLeft(self.firstRow, 7),
            b.multiply(self.columnGroup, 2 * gradientSums * keyBlock * 2));
  auto put = [&](Value target, ArrayRef<Value> sums) {
    stageRows(frame, b.add(target, own), keyBlock * 128, offset,
              b.packSums(sums));
  };
  // The other warpgroup's products read the whole block.
  if (sharesRows(config.headDim))
    synchronizePair(frame);
  put(frame.values.getAddress(keyStage), valueGradient);
  put(frame.hasQueryGradient()
          ? b.add(frame.sharedBase, frame.layout.keyGradient)
          : frame.keys.getAddress(keyStage),
      scaled);
  b.fenceSharedStores();
  b.synchronizeWarp();
  arriveOfWarp(frame, self, b.add(frame.resultsFull, b.shiftLeft(keyStage, 3)));
}

void attention::emitBackwardConsumer(BackwardFrame &frame) {
  if (frame.hasQueryGradient())
    emitDeferredSteps(frame);
  else
    emitAheadSteps(frame);
}
