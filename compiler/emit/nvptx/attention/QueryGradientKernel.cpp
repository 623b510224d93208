//===- QueryGradientKernel.cpp - The query gradient kernel, its producer --===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/QueryGradient.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

QueryGradientFrame::QueryGradientFrame(AttentionBuilder &b,
                                       const QueryGradientConfig &config,
                                       const QueryGradientArguments &arguments)
    : BlockFrame(b, getSharedLayout(config).barriers), config(config),
      layout(getSharedLayout(config)), arguments(arguments),
      queries(*this, layout.query, layout.queryBytes, config.queryStages, 2),
      keys(*this, layout.key, layout.keyBytes, config.stages, 2),
      values(*this, layout.value, layout.keyBytes, config.stages, 2) {
  findItems(arguments.bounds);
  initializeBarriers();
}

static void loadQueries(QueryGradientFrame &frame, const QueryWork &item,
                        Position at) {
  AttentionBuilder &b = frame.b;
  const QueryGradientLayout &layout = frame.layout;
  frame.queries.waitUntilEmpty(at);
  Value full = frame.queries.getFull(at.stage);
  b.expectBytes(full, 2 * layout.queryBytes);
  Value target = frame.queries.getAddress(at.stage);
  for (auto [map, offset] :
       {std::pair{frame.arguments.query, layout.query},
        std::pair{frame.arguments.outputGradient, layout.outputGradient}})
    copyRows(frame, map, b.add(target, offset - layout.query),
             getQueryRows(frame.config), frame.config.headDim,
             {item.row, item.head, item.batch}, full);
}

static void loadBlock(QueryGradientFrame &frame, const QueryWork &item, Value j,
                      Position at) {
  AttentionBuilder &b = frame.b;
  Value key = item.getFirstKey(b, j);
  auto load = [&](Ring &ring, Value map) {
    ring.waitUntilEmpty(at);
    b.expectBytes(ring.getFull(at.stage), frame.layout.keyBytes);
    copyRows(frame, map, ring.getAddress(at.stage), keyBlock,
             frame.config.headDim, {key, item.keyHead, item.batch},
             ring.getFull(at.stage));
  };
  load(frame.keys, frame.arguments.key);
  load(frame.values, frame.arguments.value);
}

static void emitProducer(QueryGradientFrame &frame) {
  AttentionBuilder &b = frame.b;
  Value zero = b.constant(0), one = b.constant(1);
  auto loadItem = [&](Value index, ValueRange carried) -> Values {
    QueryWork item(frame, frame.arguments.table, index);
    Position query{carried[2], carried[3]};
    loadQueries(frame, item, query);
    Values next = b.loop(zero, item.blocks, one, carried.take_front(2),
                         [&](Value j, ValueRange position) -> Values {
                           Position at{position[0], position[1]};
                           loadBlock(frame, item, j, at);
                           Position after = frame.keys.advance(at);
                           return {after.stage, after.parity};
                         });
    query = frame.queries.advance(query);
    return {next[0], next[1], query.stage, query.parity};
  };
  frame.inOneThread(0, [&] {
    b.loop(frame.begin, frame.end, one, {zero, zero, zero, zero}, loadItem);
  });
}

static QueryGradientArguments getArguments(Block &entry) {
  QueryGradientArguments a;
  unsigned next = 0;
  for (Value *value : {&a.query,
                       &a.key,
                       &a.value,
                       &a.outputGradient,
                       &a.queryGradient,
                       &a.outputRows.data,
                       &a.gradientRows.data,
                       &a.lse,
                       &a.logSum,
                       &a.rowSum,
                       &a.table,
                       &a.bounds,
                       &a.queries,
                       &a.keys,
                       &a.paddedRows,
                       &a.queryHeads,
                       &a.window,
                       &a.headDim,
                       &a.outputRows.rowStride,
                       &a.outputRows.headStride,
                       &a.outputRows.batchStride,
                       &a.gradientRows.rowStride,
                       &a.gradientRows.headStride,
                       &a.gradientRows.batchStride,
                       &a.scale})
    *value = entry.getArgument(next++);
  return a;
}

LogicalResult
attention::buildQueryGradientKernel(ModuleOp module,
                                    const QueryGradientConfig &config,
                                    llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  using enum ArgumentKind;
  AttentionBuilder b(module.getLoc(), module.getContext());
  SmallVector<ArgumentKind> kinds{Map,    Map,      Map,      Map,
                                  Map,    ReadOnly, ReadOnly, Memory,
                                  Memory, Memory,   ReadOnly, ReadOnly};
  kinds.append(6, Number);
  kinds.append(6, Wide);
  kinds.push_back(Scalar);
  Block *entry = createKernel(b, module, symbol, kinds, getThreads(config));
  QueryGradientFrame frame(b, config, getArguments(*entry));
  frame.emitRoles(
      2, [&] { emitProducer(frame); },
      [&] { emitQueryGradientConsumer(frame); });
  return success();
}
