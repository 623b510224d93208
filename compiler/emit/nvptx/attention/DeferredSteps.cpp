//===- DeferredSteps.cpp - Backward with dq one step late -----------------===//
//
// Products in flight are waited for in the order in which they were issued,
// and a register operand lives until its product has retired: the waits below
// keep few of them alive, else ptxas runs out of registers and serializes the
// products (warning C7512).
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/attention/BackwardConsumer.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// What an item carries from step to step.
struct StepState {
  Values keyGradient, valueGradient;
  Position at;
  /// The step before: its stage, and its tile's number.
  Value lastStage, lastTile;
  /// Steps since the kernel's start: which buffer of dS, in which round.
  Value count;
  QueryTile tile;
};

class DeferredSteps : BackwardConsumer {
public:
  using BackwardConsumer::BackwardConsumer;
  void run();

private:
  /// Only what is wanted, since nothing removes the rest, which would take
  /// registers: the stage of the step before where dk is deferred.
  Values toValues(const StepState &state);
  StepState fromValues(ValueRange values);
  Values runItem(Value index, ValueRange carried);
  /// The first step of an item has no dq to multiply and begins its sums.
  StepState runStep(const BackwardItem &item, Position key,
                    const StepState &state, bool isFirst);
  void stageScoreGradients(ArrayRef<Value> packed, Value count);
  /// dq of the step before the one of this count. `between` is issued while it
  /// runs, and stays in flight.
  void addQueryGradient(Value keyStage, Value count, Value tile,
                        llvm::function_ref<void()> between);
  void reduce(ArrayRef<Value> sums, Value tile);
  void reduceInBulk(ArrayRef<Value> sums, Value tile);
  Value getSums(Value tile, Value offset);
  /// The buffer of dS of a step, and the parity of its round.
  Position getBuffer(Value count) {
    return {b.bitAnd(count, 1), b.bitAnd(b.shiftRight(count, 1), 1)};
  }
  Value getBarrier(Value barriers, Position buffer) {
    return b.add(barriers, b.shiftLeft(buffer.stage, 3));
  }
};
} // namespace

Values DeferredSteps::toValues(const StepState &state) {
  Values values(state.keyGradient);
  values.append(state.valueGradient);
  values.append({state.at.stage, state.at.parity, state.lastTile, state.count,
                 state.tile.tile, state.tile.head});
  if (config.deferKeyGradient)
    values.push_back(state.lastStage);
  return values;
}

StepState DeferredSteps::fromValues(ValueRange values) {
  StepState state;
  auto take = [&] {
    Values taken(values.take_front(gradientSums));
    values = values.drop_front(gradientSums);
    return taken;
  };
  state.keyGradient = take();
  state.valueGradient = take();
  state.at = {values[0], values[1]};
  state.lastTile = values[2];
  state.count = values[3];
  state.tile = {values[4], values[5]};
  if (config.deferKeyGradient)
    state.lastStage = values[6];
  return state;
}

void DeferredSteps::run() {
  Value zero = b.constant(0), one = b.constant(1);
  b.loop(
      frame.begin, frame.end, one, {zero, zero, zero, zero, zero, one},
      [&](Value index, ValueRange carried) { return runItem(index, carried); });
  if (config.queryGradient == QueryGradient::BulkReduce)
    b.ifThen(self.isWarpLead, [&] { b.waitForWrites(0); });
}

Values DeferredSteps::runItem(Value index, ValueRange carried) {
  BackwardItem item = loadItem(index);
  Position key{carried[2], carried[3]};
  Value stagingParity = carried[5];
  frame.keys.waitUntilFull(key);
  StepState state;
  state.keyGradient.assign(gradientSums, b.undefinedF32());
  state.valueGradient = state.keyGradient;
  state.at = {carried[0], carried[1]};
  state.count = carried[4];
  state.tile = getFirstTile(frame, item);
  state = runStep(item, key, state, /*isFirst=*/true);
  Values results =
      b.loop(b.constant(1), item.steps, b.constant(1), toValues(state),
             [&](Value, ValueRange values) {
               return toValues(runStep(item, key, fromValues(values),
                                       /*isFirst=*/false));
             });
  state = fromValues(results);
  addQueryGradient(key.stage, state.count, state.lastTile, nullptr);
  Values both(state.keyGradient);
  both.append(state.valueGradient);
  both = b.settle(0, both);
  if (config.deferKeyGradient)
    releaseQueries(state.lastStage);
  b.waitForPhase(frame.stagingEmpty, stagingParity);
  handOver(ArrayRef(both).take_front(gradientSums),
           ArrayRef(both).drop_front(gradientSums), key.stage);
  key = frame.keys.advance(key);
  return {state.at.stage, state.at.parity, key.stage,
          key.parity,     state.count,     b.bitXor(stagingParity, 1)};
}

StepState DeferredSteps::runStep(const BackwardItem &item, Position key,
                                 const StepState &state, bool isFirst) {
  Value keyStage = key.stage, stage = state.at.stage;
  Value keep = isFirst ? b.constant(0) : Value();
  StepMask mask = startMask(item, state.tile);
  frame.queries.waitUntilFull(state.at);
  b.fenceProducts();
  Values scores = issueScores(keyStage, stage);
  if (config.deferKeyGradient && !isFirst) {
    b.waitForProducts(1);
    releaseQueries(state.lastStage);
  }
  // The values are wanted only now.
  if (isFirst)
    frame.values.waitUntilFull(key);
  frame.outputGradients.waitUntilFull(state.at);
  b.fenceProducts();
  Values weightGradients = issueWeightGradients(keyStage, stage);
  Values weights =
      getWeights(item, state.tile, b.settle(1, scores), mask, stage);

  StepState next;
  auto issueValues = [&] {
    next.valueGradient = issueValueGradient(state.valueGradient,
                                            b.packSums(weights), stage, keep);
  };
  if (!config.lateValueGradient)
    issueValues();
  weightGradients = b.settle(config.lateValueGradient ? 0 : 1, weightGradients);
  Values packed =
      b.packSums(getScoreGradients(weights, weightGradients, stage));
  if (config.lateValueGradient)
    issueValues();
  stageScoreGradients(packed, state.count);
  b.fenceProducts();
  auto issueKeys = [&] {
    next.keyGradient = issueKeyGradient(state.keyGradient, packed, stage, keep);
  };
  // The first step's dk may not be in flight into the loop.
  if (isFirst || !config.deferKeyGradient)
    issueKeys();
  if (isFirst)
    next.keyGradient = b.settle(0, next.keyGradient);
  else if (config.deferKeyGradient)
    addQueryGradient(keyStage, state.count, state.lastTile, issueKeys);
  else
    addQueryGradient(keyStage, state.count, state.lastTile, nullptr);
  releaseOutputGradients(stage);
  if (!config.deferKeyGradient)
    releaseQueries(stage);
  next.at = frame.queries.advance(state.at);
  next.lastStage = stage;
  next.lastTile = getTileNumber(frame, state.tile);
  next.count = b.add(state.count, 1);
  next.tile = getNextTile(frame, item, state.tile);
  return next;
}

//===----------------------------------------------------------------------===//
// dq
//===----------------------------------------------------------------------===//

/// As rows of keys, for the product that adds over keys.
void DeferredSteps::stageScoreGradients(ArrayRef<Value> packed, Value count) {
  Position buffer = getBuffer(count);
  b.waitForPhase(getBarrier(frame.scoresEmpty, buffer),
                 b.bitXor(buffer.parity, 1));
  Value target =
      b.add(b.add(b.add(frame.sharedBase, frame.layout.scoreGradient),
                  b.shiftLeft(self.index, 13)),
            b.multiply(buffer.stage, frame.layout.scoreBytes));
  stageRows(frame, target, keyBlock * 128, b.hide(self.matrixOffset), packed);
  b.fenceSharedStores();
  b.synchronizeWarp();
  arriveOfWarp(frame, self, getBarrier(frame.scoresFull, buffer));
}

/// A warpgroup multiplies 64 queries by 64 columns: its own queries of a tile
/// of 128, or its own columns of 128.
void DeferredSteps::addQueryGradient(Value keyStage, Value count, Value tile,
                                     llvm::function_ref<void()> between) {
  Position buffer = getBuffer(b.subtract(count, b.constant(1)));
  b.waitForPhase(getBarrier(frame.scoresFull, buffer), buffer.parity);
  b.fenceProducts();
  int chunk = keyBlock * 128 >> 4;
  Value ownChunk = b.multiply(self.index, chunk);
  Matrix scores{b.add(frame.getMatrixAddress(frame.layout.scoreGradient),
                      b.multiply(buffer.stage, frame.layout.scoreBytes >> 4)),
                keyBlock};
  Matrix keys = frame.keys.getMatrix(keyStage, keyBlock);
  if (queryRows == 128)
    scores.address = b.add(scores.address, ownChunk);
  else
    keys.address = b.add(keys.address, ownChunk);
  Values sums = b.multiplyColumns(scores, keys, keyBlock);
  if (between)
    between();
  sums = b.settle(between ? 1 : 0, sums);
  arriveOnce(frame, self, getBarrier(frame.scoresEmpty, buffer));
  if (config.queryGradient == QueryGradient::BulkReduce)
    reduceInBulk(sums, tile);
  else
    reduce(sums, tile);
}

Value DeferredSteps::getSums(Value tile, Value offset) {
  Value bytes = LLVM::MulOp::create(b, b.extend(tile), b.constant64(32768));
  bytes = LLVM::AddOp::create(b, bytes, b.extend(offset));
  return b.element(frame.arguments.querySums, bytes, b.getI8Type());
}

void DeferredSteps::reduce(ArrayRef<Value> sums, Value tile) {
  Value offset =
      b.add(b.add(b.shiftLeft(self.index, 14), b.shiftLeft(self.warp, 12)),
            b.shiftLeft(frame.lane, 4));
  Value pointer = getSums(tile, b.hide(offset));
  for (int i = 0; i < 8; ++i) {
    Values operands{pointer};
    operands.append(sums.begin() + 4 * i, sums.begin() + 4 * i + 4);
    b.assembly("red.relaxed.gpu.global.add.v4.f32 [$0+" +
                   std::to_string(512 * i) + "], {$1, $2, $3, $4};",
               "l,f,f,f,f", operands);
  }
}

/// Through a buffer of the warp's own, 4 KB.
void DeferredSteps::reduceInBulk(ArrayRef<Value> sums, Value tile) {
  Value ofWarp = b.add(b.shiftLeft(self.index, 14), b.shiftLeft(self.warp, 12));
  Value buffer =
      b.add(b.add(frame.sharedBase, frame.layout.queryGradient), ofWarp);
  Value ofLane = b.add(buffer, b.shiftLeft(frame.lane, 4));
  b.ifThen(self.isWarpLead, [&] { b.waitForReads(0); });
  b.synchronizeWarp();
  for (int i = 0; i < 8; ++i) {
    Values operands{ofLane};
    operands.append(sums.begin() + 4 * i, sums.begin() + 4 * i + 4);
    b.assembly("st.shared.v4.f32 [$0+" + std::to_string(512 * i) +
                   "], {$1, $2, $3, $4};",
               "r,f,f,f,f,~{memory}", operands);
  }
  b.fenceSharedStores();
  b.synchronizeWarp();
  b.ifThen(self.isWarpLead, [&] {
    b.assembly("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
               "[$0], [$1], $2;",
               "l,r,r,~{memory}",
               {getSums(tile, ofWarp), buffer, b.constant(4096)});
    b.commitCopies();
  });
}

void attention::emitDeferredSteps(BackwardFrame &frame) {
  DeferredSteps(frame).run();
}
