//===- ForwardConsumer.cpp - The warpgroups of the forward kernel ---------===//
#include "compiler/emit/nvptx/attention/Forward.h"
#include "compiler/emit/nvptx/attention/KeyBias.h"
#include "compiler/emit/nvptx/attention/MaskPieces.h"
#include "compiler/emit/nvptx/attention/ScoreMask.h"
#include "compiler/emit/nvptx/attention/Turns.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// Of the thread's two rows: the largest score so far, the sum of exponentials.
struct RowState {
  Value maximum[2], sum[2];
};

/// What an item carries from block to block.
struct BlockState {
  Position key, value;
  RowState rows;
  Values output, packed;

  Values toValues() const;
  static BlockState fromValues(ValueRange values, int outputs);
};

class ForwardConsumer {
public:
  explicit ForwardConsumer(ForwardFrame &frame);
  void run();

private:
  Values runItem(Value index, ValueRange carried);
  BlockState startItem(const QueryWork &item, Position keyAt, Value queryStage);
  BlockState continueItem(const QueryWork &item, Value j,
                          const BlockState &state, Value queryStage);
  /// The last block's values, and the end of the rows.
  Values finishOutput(const BlockState &state);
  void store(const QueryWork &item, const RowState &rows,
             ArrayRef<Value> output);

  /// A block's scores, with what data adds, once `groups` of products may still
  /// run.
  Values settleScores(int groups, ArrayRef<Value> scores, Value keyStage,
                      Value piece);
  /// Of a mask over queries and keys, at the warpgroup's rows.
  Value getPiece(const QueryWork &item, Value j);
  Values issueScores(Value keyStage, Value queryStage);
  Values issueOutput(ArrayRef<Value> output, ArrayRef<Value> packed,
                     Value valueStage);
  void releaseKeys(Value stage);
  Values mask(const QueryWork &item, Value j, ArrayRef<Value> scores);
  /// Whether a row may see no key in the blocks so far: in the first blocks of
  /// a tall tile, or where data hides them.
  bool mayHideAll() const {
    return hidesByData(config) || (config.mask != Mask::Full && !isSquare());
  }
  /// Whether tiles and blocks are alike, so that of a causal mask's blocks only
  /// the last one is not seen whole.
  bool isSquare() const { return getQueryRows(config) == keyBlock; }
  /// Probabilities before the division by their sum; `rows` goes on, `scales`
  /// is what the earlier sums are multiplied by. None of them at the start.
  Values exponentiate(ArrayRef<Value> scores, RowState &rows, Value *scales);
  Value exponential(Value x, int i);
  Value foldQuad(Value x, bool maximum);

  ForwardFrame &frame;
  AttentionBuilder &b;
  const ForwardConfig &config;
  int keyBlock;
  Consumer self;
  Turns turns;
  RowStore rowStore;
  MaskPieceReader pieces;
  /// In base 2.
  Value scale;
};
} // namespace

Values BlockState::toValues() const {
  Values values{key.stage,       key.parity,      value.stage, value.parity,
                rows.maximum[0], rows.maximum[1], rows.sum[0], rows.sum[1]};
  values.append(output);
  values.append(packed);
  return values;
}

BlockState BlockState::fromValues(ValueRange values, int outputs) {
  BlockState state;
  state.key = {values[0], values[1]};
  state.value = {values[2], values[3]};
  state.rows = {{values[4], values[5]}, {values[6], values[7]}};
  state.output.assign(values.begin() + 8, values.begin() + 8 + outputs);
  state.packed.assign(values.begin() + 8 + outputs, values.end());
  return state;
}

ForwardConsumer::ForwardConsumer(ForwardFrame &frame)
    : frame(frame), b(frame.b), config(frame.config),
      keyBlock(getKeyBlock(config.headDim)), self(frame),
      turns(frame, self, config.consumers),
      rowStore(frame, self, frame.layout.output, getStagedColumns(config)),
      pieces(frame, self, config.tensorMask, frame.arguments.mask),
      scale(b.multiplyF32(frame.arguments.scale, b.constantF32(log2E))) {}

void ForwardConsumer::run() {
  Value zero = b.constant(0);
  Values initial{zero, zero, zero, zero};
  initial.append(QueryWork::load(frame, frame.arguments.table, frame.begin));
  b.loop(
      frame.begin, frame.end, b.constant(1), initial,
      [&](Value index, ValueRange carried) { return runItem(index, carried); });
  rowStore.finish();
}

Values ForwardConsumer::runItem(Value index, ValueRange carried) {
  QueryWork item(carried.drop_front(4));
  Values nextItem = QueryWork::loadNext(frame, frame.arguments.table, index);
  Position keyAt{carried[0], carried[1]}, queryAt{carried[2], carried[3]};
  frame.queries.waitUntilFull(queryAt);
  frame.keys.waitUntilFull(keyAt);
  BlockState first = startItem(item, keyAt, queryAt.stage);
  int outputs = config.headDim / 2;
  Values results =
      b.loop(b.constant(1), item.blocks, b.constant(1), first.toValues(),
             [&](Value j, ValueRange values) {
               BlockState state = BlockState::fromValues(values, outputs);
               return continueItem(item, j, state, queryAt.stage).toValues();
             });
  BlockState last = BlockState::fromValues(results, outputs);
  arriveOnce(frame, self, frame.queries.getEmpty(queryAt.stage));
  store(item, last.rows, finishOutput(last));
  queryAt = frame.queries.advance(queryAt);
  Values after{last.key.stage, last.key.parity, queryAt.stage, queryAt.parity};
  after.append(nextItem);
  return after;
}

/// Scores and probabilities of the item's last block: the one that may be
/// masked.
BlockState ForwardConsumer::startItem(const QueryWork &item, Position keyAt,
                                      Value queryStage) {
  turns.await();
  b.fenceProducts();
  Values scores = issueScores(keyAt.stage, queryStage);
  turns.pass();
  scores = settleScores(0, scores, keyAt.stage, getPiece(item, b.constant(0)));
  BlockState state;
  Values exponentials = exponentiate(mask(item, b.constant(0), scores),
                                     state.rows, /*scales=*/nullptr);
  state.packed = b.packSums(exponentials);
  state.output.assign(config.headDim / 2, b.constantF32(0));
  state.key = frame.keys.advance(keyAt);
  state.value = keyAt;
  return state;
}

BlockState ForwardConsumer::continueItem(const QueryWork &item, Value j,
                                         const BlockState &state,
                                         Value queryStage) {
  frame.keys.waitUntilFull(state.key);
  turns.await();
  b.fenceProducts();
  Values scores = issueScores(state.key.stage, queryStage);
  frame.values.waitUntilFull(state.value);
  Values output = issueOutput(state.output, state.packed, state.value.stage);
  turns.pass();
  scores = settleScores(1, scores, state.key.stage, getPiece(item, j));
  // Blocks before the last one are seen whole unless tiles and blocks differ.
  if ((config.mask == Mask::Causal && !isSquare()) ||
      config.mask == Mask::CausalWindow)
    scores = mask(item, j, scores);
  BlockState next;
  next.rows = state.rows;
  Value scales[2];
  Values exponentials = exponentiate(scores, next.rows, scales);
  output = b.settle(0, output);
  arriveOnce(frame, self, frame.values.getEmpty(state.value.stage));
  for (auto [i, sum] : llvm::enumerate(output))
    next.output.push_back(b.multiplyF32(sum, scales[i / 2 % 2]));
  next.packed = b.packSums(exponentials);
  next.key = frame.keys.advance(state.key);
  next.value = state.key;
  return next;
}

Values ForwardConsumer::finishOutput(const BlockState &state) {
  frame.values.waitUntilFull(state.value);
  Values output =
      b.settle(0, issueOutput(state.output, state.packed, state.value.stage));
  arriveOnce(frame, self, frame.values.getEmpty(state.value.stage));
  return output;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Values ForwardConsumer::issueScores(Value keyStage, Value queryStage) {
  Matrix query =
      frame.queries.getMatrix(queryStage, getQueryRows(config), self.firstRow);
  Matrix key = frame.keys.getMatrix(keyStage, keyBlock);
  return b.multiplyRows(query, key, keyBlock, config.headDim);
}

Values ForwardConsumer::issueOutput(ArrayRef<Value> output,
                                    ArrayRef<Value> packed, Value valueStage) {
  // Ordinary instructions wrote the sums and the packed operand.
  b.fenceProducts();
  return b.accumulate(output, packed,
                      frame.values.getMatrix(valueStage, keyBlock), keyBlock);
}

Value ForwardConsumer::getPiece(const QueryWork &item, Value j) {
  return pieces.getPiece(item.batch, item.head, b.add(item.row, self.firstRow),
                         item.getFirstKey(b, j, keyBlock));
}

Values ForwardConsumer::settleScores(int groups, ArrayRef<Value> scores,
                                     Value keyStage, Value piece) {
  Values ahead = pieces.loadAhead(piece, scores.size());
  Values settled = b.settle(groups, scores);
  if (config.keyBias)
    settled = addKeyBias(frame, self, settled, frame.getKeyBias(keyStage));
  releaseKeys(keyStage);
  return pieces.apply(settled, piece, ahead);
}

/// A finished product has been read by the whole warpgroup, but each warp reads
/// the bias when it gets there.
void ForwardConsumer::releaseKeys(Value stage) {
  Value barrier = frame.keys.getEmpty(stage);
  if (!config.keyBias)
    return arriveOnce(frame, self, barrier);
  b.synchronizeWarp();
  arriveOfWarp(frame, self, barrier);
}

Values ForwardConsumer::mask(const QueryWork &item, Value j,
                             ArrayRef<Value> scores) {
  // Data hides keys past the end, too.
  if (config.mask == Mask::Full && hidesByData(config))
    return Values(scores);
  MaskArguments arguments{config.mask, keyBlock, frame.arguments.keys,
                          frame.arguments.window};
  return maskKeys(frame, self, arguments, scores, item.row,
                  item.getFirstKey(b, j, keyBlock));
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// A balanced tree, for parallelism.
static Value fold(ArrayRef<Value> values,
                  llvm::function_ref<Value(Value, Value)> combine) {
  Values level(values);
  while (level.size() > 1) {
    Values next;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      next.push_back(combine(level[i], level[i + 1]));
    if (level.size() % 2)
      next.push_back(level.back());
    level = std::move(next);
  }
  return level.front();
}

/// Over the four lanes that share a row.
Value ForwardConsumer::foldQuad(Value x, bool maximum) {
  for (int bits : {1, 2}) {
    Value other = b.exchange(x, bits);
    x = maximum ? b.maximumF32(x, other) : b.addF32(x, other);
  }
  return x;
}

/// Of the thread's exponentials of a row, the i-th.
Value ForwardConsumer::exponential(Value x, int i) {
  int every = config.polynomial;
  if (every && i % every == every - 1)
    return b.polynomialExp2F32(x);
  return b.exp2F32(x);
}

Values ForwardConsumer::exponentiate(ArrayRef<Value> scores, RowState &rows,
                                     Value *scales) {
  auto larger = [&](Value x, Value y) { return b.maximumF32(x, y); };
  auto sum = [&](Value x, Value y) { return b.addF32(x, y); };
  Values results(scores);
  for (int half = 0; half < 2; ++half) {
    SmallVector<int> places;
    for (size_t i = 0; i < scores.size(); ++i)
      if (i / 2 % 2 == half)
        places.push_back(i);
    Values row;
    for (int i : places)
      row.push_back(scores[i]);
    Value maximum = foldQuad(fold(row, larger), /*maximum=*/true);
    if (scales)
      maximum = larger(maximum, rows.maximum[half]);
    Value shift = b.negateF32(b.multiplyF32(maximum, scale));
    if (mayHideAll())
      shift = b.select(b.equalF32(maximum, b.constantF32(-INFINITY)),
                       b.constantF32(0), shift);
    Values exponentials;
    for (auto [n, i] : llvm::enumerate(places)) {
      results[i] = exponential(b.fusedF32(scores[i], scale, shift), n);
      exponentials.push_back(results[i]);
    }
    Value total = fold(exponentials, sum);
    if (scales) {
      scales[half] = b.exp2F32(b.fusedF32(rows.maximum[half], scale, shift));
      total = b.fusedF32(rows.sum[half], scales[half], total);
    }
    rows.maximum[half] = maximum;
    rows.sum[half] = total;
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void ForwardConsumer::store(const QueryWork &item, const RowState &rows,
                            ArrayRef<Value> output) {
  Value inverse[2];
  Value head =
      b.add(b.multiply(item.batch, frame.arguments.queryHeads), item.head);
  Value firstOfHead = b.multiply(head, frame.arguments.queries);
  for (int half = 0; half < 2; ++half) {
    Value sum = foldQuad(rows.sum[half], /*maximum=*/false);
    inverse[half] = LLVM::FDivOp::create(b, b.constantF32(1), sum,
                                         LLVM::FastmathFlags::arcp);
    // A row without keys gives zeros, and minus infinity as lse.
    if (hidesByData(config))
      inverse[half] =
          b.select(b.equalF32(rows.maximum[half], b.constantF32(-INFINITY)),
                   b.constantF32(0), inverse[half]);
    Value logSum = b.fusedF32(rows.maximum[half], scale, b.log2F32(sum));
    Value row = b.add(b.add(item.row, self.row), 8 * half);
    Value stores = b.both(b.equal(self.column, int64_t(0)),
                          b.lessThan(row, frame.arguments.queries));
    b.ifThen(stores, [&] {
      Value pointer = b.element(frame.arguments.lse, b.add(firstOfHead, row),
                                b.getF32Type());
      b.store(b.multiplyF32(logSum, b.constantF32(1 / log2E)), pointer, 4);
    });
  }
  Values normalized;
  for (auto [i, sum] : llvm::enumerate(output))
    normalized.push_back(b.multiplyF32(sum, inverse[i / 2 % 2]));
  Value row = b.add(item.row, self.firstRow);
  rowStore.store(frame.arguments.output, normalized,
                 {row, item.head, item.batch});
}

void attention::emitForwardConsumer(ForwardFrame &frame) {
  ForwardConsumer(frame).run();
}
