//===- BackwardProducer.cpp - Loads and stores of the backward kernel -----===//
#include "compiler/emit/nvptx/attention/Backward.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
class Loads {
public:
  explicit Loads(BackwardFrame &frame) : frame(frame), b(frame.b) {}

  /// A tile of queries with their logSum; of dout with their rowSum.
  void loadQueries(const BackwardItem &item, QueryTile tile, Position at) {
    load(frame.queries, frame.arguments.query, frame.arguments.logSum,
         frame.layout.logSum, item, tile, at);
  }
  void loadOutputGradients(const BackwardItem &item, QueryTile tile,
                           Position at) {
    load(frame.outputGradients, frame.arguments.outputGradient,
         frame.arguments.rowSum, frame.layout.rowSum, item, tile, at);
  }
  void loadKeys(const BackwardItem &item, Position at);

private:
  void load(Ring &ring, Value map, Value vector, int vectorOffset,
            const BackwardItem &item, QueryTile tile, Position at);

  BackwardFrame &frame;
  AttentionBuilder &b;
};
} // namespace

void Loads::load(Ring &ring, Value map, Value vector, int vectorOffset,
                 const BackwardItem &item, QueryTile tile, Position at) {
  const BackwardLayout &layout = frame.layout;
  int rows = getQueryRows(frame.config);
  ring.waitUntilEmpty(at);
  Value full = ring.getFull(at.stage);
  b.expectBytes(full, layout.queryBytes + layout.vectorBytes);
  Value head =
      b.subtract(tile.head, b.multiply(item.batch, frame.arguments.queryHeads));
  copyRows(frame, map, ring.getAddress(at.stage), rows, frame.config.headDim,
           {b.multiply(tile.tile, rows), head, item.batch}, full);
  Value target = b.add(b.add(frame.sharedBase, vectorOffset),
                       b.multiply(at.stage, layout.vectorBytes));
  Value firstRow = b.multiply(getTileNumber(frame, tile), rows);
  b.copyBytes(target, b.element(vector, firstRow, b.getF32Type()),
              layout.vectorBytes, full);
}

void Loads::loadKeys(const BackwardItem &item, Position at) {
  frame.keys.waitUntilEmpty(at);
  for (auto [ring, map] : {std::pair{&frame.keys, frame.arguments.key},
                           std::pair{&frame.values, frame.arguments.value}}) {
    Value full = ring->getFull(at.stage);
    b.expectBytes(full, frame.layout.keyBytes);
    copyRows(frame, map, ring->getAddress(at.stage),
             getKeyBlock(frame.config.headDim), frame.config.headDim,
             {item.row, item.keyHead, item.batch}, full);
  }
}

static Values loadItem(BackwardFrame &frame, Value index, ValueRange carried) {
  AttentionBuilder &b = frame.b;
  Loads loads(frame);
  BackwardItem item(frame, index);
  Position query{carried[0], carried[1]}, key{carried[2], carried[3]};
  QueryTile tile = getFirstTile(frame, item);
  // In the order in which the consumers want them.
  loads.loadQueries(item, tile, query);
  loads.loadKeys(item, key);
  loads.loadOutputGradients(item, tile, query);
  query = frame.queries.advance(query);
  tile = getNextTile(frame, item, tile);
  Values next = b.loop(b.constant(1), item.steps, b.constant(1),
                       {query.stage, query.parity, tile.tile, tile.head},
                       [&](Value, ValueRange values) -> Values {
                         Position at{values[0], values[1]};
                         QueryTile now{values[2], values[3]};
                         loads.loadQueries(item, now, at);
                         loads.loadOutputGradients(item, now, at);
                         Position after = frame.queries.advance(at);
                         now = getNextTile(frame, item, now);
                         return {after.stage, after.parity, now.tile, now.head};
                       });
  key = frame.keys.advance(key);
  return {next[0], next[1], key.stage, key.parity};
}

/// dv lies where the values were, dk in its staging buffer or, where no product
/// of another warpgroup reads the keys, where they were.
static Values storeItem(BackwardFrame &frame, Value index, ValueRange carried) {
  AttentionBuilder &b = frame.b;
  BackwardItem item(frame, index);
  Position key{carried[0], carried[1]};
  b.waitForPhase(b.add(frame.resultsFull, b.shiftLeft(key.stage, 3)),
                 key.parity);
  int keyBlock = getKeyBlock(frame.config.headDim);
  auto store = [&](Value map, Value source) {
    for (int half = 0; half < keyBlock / 64; ++half)
      for (int chunk = 0; chunk < frame.config.headDim / 64; ++chunk)
        b.storeBox(map, b.add(source, chunk * keyBlock * 128 + 8192 * half),
                   {b.constant(64 * chunk), b.add(item.row, 64 * half),
                    item.keyHead, item.batch});
  };
  store(frame.arguments.valueGradient, frame.values.getAddress(key.stage));
  store(frame.arguments.keyGradient,
        frame.hasQueryGradient()
            ? b.add(frame.sharedBase, frame.layout.keyGradient)
            : frame.keys.getAddress(key.stage));
  b.commitCopies();
  b.waitForReads(0);
  b.arrive(frame.keys.getEmpty(key.stage));
  if (frame.hasQueryGradient())
    b.arrive(frame.stagingEmpty);
  key = frame.keys.advance(key);
  return {key.stage, key.parity};
}

void attention::emitBackwardProducer(BackwardFrame &frame) {
  AttentionBuilder &b = frame.b;
  Value zero = b.constant(0), one = b.constant(1);
  frame.inOneThread(0, [&] {
    b.loop(frame.begin, frame.end, one, {zero, zero, zero, zero},
           [&](Value index, ValueRange carried) {
             return loadItem(frame, index, carried);
           });
  });
  frame.inOneThread(1, [&] {
    b.loop(frame.begin, frame.end, one, {zero, zero},
           [&](Value index, ValueRange carried) {
             return storeItem(frame, index, carried);
           });
    b.waitForWrites(0);
  });
}
