//===- QueryGradientConsumer.cpp - The warpgroups that multiply dq --------===//
#include "compiler/emit/nvptx/attention/KeyBias.h"
#include "compiler/emit/nvptx/attention/QueryGradient.h"
#include "compiler/emit/nvptx/attention/ScoreMask.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// Of the thread's two rows.
struct RowVectors {
  Value logSum[2], rowSum[2];

  Values toValues() const {
    return {logSum[0], logSum[1], rowSum[0], rowSum[1]};
  }
  static RowVectors fromValues(ValueRange values) {
    return {{values[0], values[1]}, {values[2], values[3]}};
  }
};

class QueryGradientConsumer {
public:
  explicit QueryGradientConsumer(QueryGradientFrame &frame);
  void run();

private:
  Values runItem(Value index, ValueRange carried);
  /// Finds and stores the vectors of the warpgroup's rows, two threads a row.
  RowVectors findVectors(const QueryWork &item);
  Value sumRow(const QueryWork &item, Value row, Value half);
  /// dS of one block of keys as a register operand; frees the values, and the
  /// keys of the block before, from the second block on. At the first block it
  /// may find the vectors.
  Values getScoreGradients(const QueryWork &item, Value j, RowVectors &vectors,
                           Position at, Value queryStage, Value lastStage);
  Matrix getOwnRows(Value queryStage, int offset);
  /// Of the keys, those of dq's columns that the warpgroup has.
  Matrix getOwnColumns(Value keyStage);

  QueryGradientFrame &frame;
  AttentionBuilder &b;
  const QueryGradientConfig &config;
  int keyBlock;
  Consumer self;
  RowStore rowStore;
  MaskPieceReader pieces;
  /// In base 2.
  Value scale;
  /// The loads for the vectors take long. Where registers are plenty, they run
  /// under the first block's products.
  bool findsVectorsLate;
};
} // namespace

QueryGradientConsumer::QueryGradientConsumer(QueryGradientFrame &frame)
    : frame(frame), b(frame.b), config(frame.config),
      keyBlock(getKeyBlock(config.headDim)),
      self(frame, sharesRows(config.headDim)),
      rowStore(frame, self, frame.layout.output, getStagedColumns(config)),
      pieces(frame, self, config.tensorMask, frame.arguments.mask),
      scale(b.multiplyF32(frame.arguments.scale, b.constantF32(log2E))),
      findsVectorsLate(config.headDim == 64) {}

void QueryGradientConsumer::run() {
  Value zero = b.constant(0);
  Values initial{zero, zero, zero, zero};
  initial.append(QueryWork::load(frame, frame.arguments.table, frame.begin));
  b.loop(
      frame.begin, frame.end, b.constant(1), initial,
      [&](Value index, ValueRange carried) { return runItem(index, carried); });
  rowStore.finish();
}

Values QueryGradientConsumer::runItem(Value index, ValueRange carried) {
  QueryWork item(carried.drop_front(4));
  Values nextItem = QueryWork::loadNext(frame, frame.arguments.table, index);
  Position query{carried[2], carried[3]};
  RowVectors vectors;
  if (!findsVectorsLate)
    vectors = findVectors(item);
  frame.queries.waitUntilFull(query);
  int sums = getStagedColumns(config) / 2;
  Values initial(sums, b.undefinedF32());
  initial.append({carried[0], carried[1], carried[0]});
  if (findsVectorsLate)
    initial.append(4, b.undefinedF32());
  Values results =
      b.loop(b.constant(0), item.blocks, b.constant(1), initial,
             [&](Value j, ValueRange values) -> Values {
               ValueRange rest = values.drop_front(sums);
               Position at{rest[0], rest[1]};
               RowVectors rows = vectors;
               if (findsVectorsLate)
                 rows = RowVectors::fromValues(rest.drop_front(3));
               Values packed =
                   getScoreGradients(item, j, rows, at, query.stage, rest[2]);
               b.fenceProducts();
               Values next =
                   b.accumulate(Values(values.take_front(sums)), packed,
                                getOwnColumns(at.stage), keyBlock, /*keep=*/j);
               Position after = frame.keys.advance(at);
               next.append({after.stage, after.parity, at.stage});
               if (findsVectorsLate)
                 next.append(rows.toValues());
               return next;
             });
  Position keyAt{results[sums], results[sums + 1]};
  Value lastStage = results[sums + 2];
  Values gradient = b.settle(0, ArrayRef(results).take_front(sums));
  arriveOnce(frame, self, frame.keys.getEmpty(lastStage));
  arriveOnce(frame, self, frame.queries.getEmpty(query.stage));
  for (Value &sum : gradient)
    sum = b.multiplyF32(sum, frame.arguments.scale);
  Value row = b.add(item.row, self.firstRow);
  rowStore.store(frame.arguments.queryGradient, gradient,
                 {row, item.head, item.batch});
  query = frame.queries.advance(query);
  Values after{keyAt.stage, keyAt.parity, query.stage, query.parity};
  after.append(nextItem);
  return after;
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

/// Half of a row's columns, in eights. Beyond the head dimension the first
/// eight are read instead, and count for nothing.
Value QueryGradientConsumer::sumRow(const QueryWork &item, Value row,
                                    Value half) {
  auto at = [&](const RowTensor &tensor) {
    return getRowPointer(b, tensor, row, item.head, item.batch);
  };
  Value output = at(frame.arguments.outputRows);
  Value gradient = at(frame.arguments.gradientRows);
  Value sum = b.constantF32(0);
  for (int i = 0; i < config.headDim / 16; ++i) {
    Value column = b.add(b.multiply(half, config.headDim / 2), int64_t(8) * i);
    Value isInside = b.lessThan(column, frame.arguments.headDim);
    Value place = b.select(isInside, column, b.constant(0));
    Value more = addProducts(b, sum, b.element(output, place, b.getI16Type()),
                             b.element(gradient, place, b.getI16Type()));
    sum = b.select(isInside, more, sum);
  }
  return sum;
}

RowVectors QueryGradientConsumer::findVectors(const QueryWork &item) {
  const QueryGradientArguments &arguments = frame.arguments;
  Value half = b.bitAnd(frame.thread, 1);
  Value row =
      b.add(b.add(item.row, self.firstRow), b.shiftRight(self.thread, 1));
  Value head = b.add(b.multiply(item.batch, arguments.queryHeads), item.head);
  Type f32 = b.getF32Type();
  Values both = b.ifThenElse(
      b.lessThan(row, arguments.queries), {f32, f32},
      [&]() -> Values {
        Value index = b.add(b.multiply(head, arguments.queries), row);
        return {sumRow(item, row, half), loadLogSum(b, arguments.lse, index)};
      },
      [&]() -> Values { return {b.constantF32(0), b.constantF32(-INFINITY)}; });
  Value rowSum = b.addF32(both[0], b.exchange(both[0], 1)), logSum = both[1];
  Value stores =
      b.both(b.equal(half, int64_t(0)), b.lessThan(row, arguments.paddedRows));
  b.ifThen(stores, [&] {
    Value index = b.add(b.multiply(head, arguments.paddedRows), row);
    storeVectors(b, arguments.logSum, arguments.rowSum, index, logSum, rowSum);
  });
  RowVectors vectors;
  for (int i = 0; i < 2; ++i) {
    Value lane = b.add(b.shiftLeft(b.shiftRight(frame.lane, 2), 1), 16 * i);
    vectors.logSum[i] = b.fromLane(logSum, lane);
    vectors.rowSum[i] = b.fromLane(rowSum, lane);
  }
  return vectors;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Matrix QueryGradientConsumer::getOwnRows(Value queryStage, int offset) {
  Matrix rows =
      frame.queries.getMatrix(queryStage, getQueryRows(config), self.firstRow);
  rows.address = b.add(rows.address, offset >> 4);
  return rows;
}

Matrix QueryGradientConsumer::getOwnColumns(Value keyStage) {
  Matrix keys = frame.keys.getMatrix(keyStage, keyBlock);
  int bytes = getStagedColumns(config) * keyBlock * 2;
  keys.address = b.add(keys.address, b.multiply(self.columnGroup, bytes >> 4));
  return keys;
}

Values QueryGradientConsumer::getScoreGradients(const QueryWork &item, Value j,
                                                RowVectors &vectors,
                                                Position at, Value queryStage,
                                                Value lastStage) {
  int gradientOffset = frame.layout.outputGradient - frame.layout.query;
  frame.keys.waitUntilFull(at);
  b.fenceProducts();
  Values scores = b.multiplyRows(getOwnRows(queryStage, 0),
                                 frame.keys.getMatrix(at.stage, keyBlock),
                                 keyBlock, config.headDim);
  // dq of the block before is done: its operand's registers are free, else
  // ptxas serializes the products (warning C7512).
  b.waitForProducts(1);
  frame.values.waitUntilFull(at);
  b.fenceProducts();
  Values weightGradients = b.multiplyRows(
      getOwnRows(queryStage, gradientOffset),
      frame.values.getMatrix(at.stage, keyBlock), keyBlock, config.headDim);
  if (findsVectorsLate)
    vectors = RowVectors::fromValues(b.ifThenElse(
        b.equal(j, int64_t(0)), SmallVector<Type>(4, b.getF32Type()),
        [&] { return findVectors(item).toValues(); },
        [&] { return vectors.toValues(); }));
  Value firstKey = item.getFirstKey(b, j, keyBlock);
  Value piece = pieces.getPiece(item.batch, item.head,
                                b.add(item.row, self.firstRow), firstKey);
  Values ahead = pieces.loadAhead(piece, scores.size());
  scores = pieces.apply(b.settle(1, scores), piece, ahead);
  if (config.keyBias)
    scores = addKeyBias(frame, self, scores, frame.getKeyBias(at.stage));
  b.ifThen(b.both(self.isLead, b.lessThan(b.constant(0), j)),
           [&] { b.arrive(frame.keys.getEmpty(lastStage)); });
  // Data hides keys past the end, too.
  if (config.mask != Mask::Full || !hidesByData(config)) {
    MaskArguments mask{config.mask, keyBlock, frame.arguments.keys,
                       frame.arguments.window};
    scores = maskKeys(frame, self, mask, scores, item.row, firstKey);
  }
  Values weights;
  for (auto [i, score] : llvm::enumerate(scores))
    weights.push_back(
        b.exp2F32(b.fusedF32(score, scale, vectors.logSum[i / 2 % 2])));
  weightGradients = b.settle(0, weightGradients);
  arriveOnce(frame, self, frame.values.getEmpty(at.stage));
  Values gradients;
  for (auto [i, weight] : llvm::enumerate(weights))
    gradients.push_back(b.multiplyF32(
        weight, b.subtractF32(weightGradients[i], vectors.rowSum[i / 2 % 2])));
  return b.packSums(gradients);
}

void attention::emitQueryGradientConsumer(QueryGradientFrame &frame) {
  QueryGradientConsumer(frame).run();
}
