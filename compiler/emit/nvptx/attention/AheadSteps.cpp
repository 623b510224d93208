//===- AheadSteps.cpp - Backward without dq, scores one step ahead --------===//
#include "compiler/emit/nvptx/attention/BackwardConsumer.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// What an item carries from step to step. The scores are the next step's.
struct StepState {
  Values scores, keyGradient, valueGradient;
  Position at;
  QueryTile tile;
};

class AheadSteps : BackwardConsumer {
public:
  using BackwardConsumer::BackwardConsumer;
  void run();

private:
  /// Only what is wanted, since nothing removes the rest, which would take
  /// registers: the tile for a mask, the head for one over queries and keys.
  Values toValues(const StepState &state);
  StepState fromValues(ValueRange values);
  bool wantsTile() const { return config.mask != Mask::Full || wantsHead(); }
  bool wantsHead() const { return config.tensorMask != TensorMask::None; }
  Values runItem(Value index, ValueRange carried);
  StepState runStep(const BackwardItem &item, Value keyStage, Value step,
                    const StepState &state, bool isLast);
};
} // namespace

Values AheadSteps::toValues(const StepState &state) {
  Values values(state.scores);
  values.append(state.keyGradient);
  values.append(state.valueGradient);
  values.append({state.at.stage, state.at.parity});
  if (wantsTile())
    values.push_back(state.tile.tile);
  if (wantsHead())
    values.push_back(state.tile.head);
  return values;
}

StepState AheadSteps::fromValues(ValueRange values) {
  StepState state;
  auto take = [&](int count) {
    Values taken(values.take_front(count));
    values = values.drop_front(count);
    return taken;
  };
  state.scores = take(queryRows / 2);
  state.keyGradient = take(gradientSums);
  state.valueGradient = take(gradientSums);
  state.at = {values[0], values[1]};
  Value zero = b.constant(0);
  state.tile = {wantsTile() ? values[2] : zero, wantsHead() ? values[3] : zero};
  return state;
}

void AheadSteps::run() {
  Value zero = b.constant(0);
  b.loop(
      frame.begin, frame.end, b.constant(1), {zero, zero, zero, zero},
      [&](Value index, ValueRange carried) { return runItem(index, carried); });
}

Values AheadSteps::runItem(Value index, ValueRange carried) {
  BackwardItem item = loadItem(index);
  Position key{carried[2], carried[3]};
  StepState state;
  state.at = {carried[0], carried[1]};
  state.tile = getFirstTile(frame, item);
  frame.keys.waitUntilFull(key);
  frame.queries.waitUntilFull(state.at);
  b.fenceProducts();
  state.scores = b.settle(0, issueScores(key.stage, state.at.stage));
  frame.values.waitUntilFull(key);
  state.keyGradient.assign(gradientSums, b.undefinedF32());
  state.valueGradient = state.keyGradient;
  Value lastStep = b.subtract(item.steps, b.constant(1));
  Values results = b.loop(b.constant(0), lastStep, b.constant(1),
                          toValues(state), [&](Value step, ValueRange values) {
                            return toValues(runStep(item, key.stage, step,
                                                    fromValues(values),
                                                    /*isLast=*/false));
                          });
  state = fromValues(results);
  Value stage = state.at.stage;
  state = runStep(item, key.stage, lastStep, state, /*isLast=*/true);
  Values both(state.keyGradient);
  both.append(state.valueGradient);
  both = b.settle(0, both);
  releaseQueries(stage);
  handOver(ArrayRef(both).take_front(gradientSums),
           ArrayRef(both).drop_front(gradientSums), key.stage);
  key = frame.keys.advance(key);
  return {state.at.stage, state.at.parity, key.stage, key.parity};
}

/// `step` is 0 where the sums begin.
StepState AheadSteps::runStep(const BackwardItem &item, Value keyStage,
                              Value step, const StepState &state, bool isLast) {
  Value stage = state.at.stage;
  StepState next;
  StepMask mask = startMask(item, state.tile);
  frame.outputGradients.waitUntilFull(state.at);
  b.fenceProducts();
  Values weightGradients = issueWeightGradients(keyStage, stage);
  Values weights = getWeights(item, state.tile, state.scores, mask, stage);
  auto issueValues = [&] {
    next.valueGradient = issueValueGradient(state.valueGradient,
                                            b.packSums(weights), stage, step);
  };
  if (!config.lateValueGradient)
    issueValues();
  weightGradients = b.settle(config.lateValueGradient ? 0 : 1, weightGradients);
  Values packed =
      b.packSums(getScoreGradients(weights, weightGradients, stage));
  if (config.lateValueGradient)
    issueValues();
  else
    b.fenceProducts();
  next.keyGradient = issueKeyGradient(state.keyGradient, packed, stage, step);
  // dv is done: its operand's registers and dout's buffer are free.
  b.waitForProducts(1);
  releaseOutputGradients(stage);
  next.at = frame.queries.advance(state.at);
  next.tile = getNextTile(frame, item, state.tile);
  next.scores = state.scores;
  if (isLast)
    return next;
  // The scores may not be in flight into the next step (warning C7514).
  frame.queries.waitUntilFull(next.at);
  b.fenceProducts();
  next.scores = b.settle(0, issueScores(keyStage, next.at.stage));
  releaseQueries(stage);
  return next;
}

void attention::emitAheadSteps(BackwardFrame &frame) {
  AheadSteps(frame).run();
}
