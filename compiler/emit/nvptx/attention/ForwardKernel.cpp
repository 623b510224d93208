//===- ForwardKernel.cpp - The forward kernel, and its producer -----------===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/Forward.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

ForwardFrame::ForwardFrame(AttentionBuilder &b, const ForwardConfig &config,
                           const ForwardArguments &arguments)
    : BlockFrame(b, getSharedLayout(config).barriers), config(config),
      layout(getSharedLayout(config)), arguments(arguments),
      queries(*this, layout.query, layout.queryBytes, config.queryStages,
              config.consumers),
      keys(*this, layout.key, layout.keyBytes, config.stages, config.consumers),
      values(*this, layout.value, layout.keyBytes, config.stages,
             config.consumers) {
  findItems(arguments.bounds);
  initializeBarriers();
}

/// One block of keys and the same block of values.
static void loadBlock(ForwardFrame &frame, const QueryWork &item, Value j,
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

void attention::emitForwardProducer(ForwardFrame &frame) {
  AttentionBuilder &b = frame.b;
  Value zero = b.constant(0), one = b.constant(1);
  auto loadItem = [&](Value index, ValueRange carried) -> Values {
    QueryWork item(frame, frame.arguments.table, index);
    Position query{carried[2], carried[3]};
    Ring &queries = frame.queries;
    queries.waitUntilEmpty(query);
    Value full = queries.getFull(query.stage);
    b.expectBytes(full, frame.layout.queryBytes);
    copyRows(frame, frame.arguments.query, queries.getAddress(query.stage),
             getQueryRows(frame.config), frame.config.headDim,
             {item.row, item.head, item.batch}, full);
    Values next = b.loop(zero, item.blocks, one, carried.take_front(2),
                         [&](Value j, ValueRange position) -> Values {
                           Position at{position[0], position[1]};
                           loadBlock(frame, item, j, at);
                           Position after = frame.keys.advance(at);
                           return {after.stage, after.parity};
                         });
    query = queries.advance(query);
    return {next[0], next[1], query.stage, query.parity};
  };
  frame.inOneThread(0, [&] {
    b.loop(frame.begin, frame.end, one, {zero, zero, zero, zero}, loadItem);
  });
}

LogicalResult attention::buildForwardKernel(ModuleOp module,
                                            const ForwardConfig &config,
                                            llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  using enum ArgumentKind;
  AttentionBuilder b(module.getLoc(), module.getContext());
  Block *entry = createKernel(b, module, symbol,
                              {Map, Map, Map, Map, Memory, ReadOnly, ReadOnly,
                               Number, Number, Number, Number, Scalar},
                              getThreads(config));
  ForwardArguments arguments;
  unsigned next = 0;
  for (Value *value :
       {&arguments.query, &arguments.key, &arguments.value, &arguments.output,
        &arguments.lse, &arguments.table, &arguments.bounds, &arguments.queries,
        &arguments.keys, &arguments.queryHeads, &arguments.window,
        &arguments.scale})
    *value = entry->getArgument(next++);
  ForwardFrame frame(b, config, arguments);
  frame.emitRoles(
      config.consumers, [&] { emitForwardProducer(frame); },
      [&] { emitForwardConsumer(frame); });
  return success();
}
