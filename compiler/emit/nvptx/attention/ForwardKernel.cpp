//===- ForwardKernel.cpp - The forward kernel, and its producer -----------===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/Forward.h"
#include "compiler/emit/nvptx/attention/KeyBlocks.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

ForwardFrame::ForwardFrame(AttentionBuilder &b, const ForwardConfig &config,
                           const ForwardArguments &arguments)
    : BlockFrame(b, getSharedLayout(config).barriers), config(config),
      layout(getSharedLayout(config)), arguments(arguments),
      queries(*this, layout.query, layout.queryBytes, config.queryStages,
              config.consumers),
      // ForwardConsumer::releaseKeys says who arrives.
      keys(*this, layout.key, layout.keyBytes, config.stages,
           config.consumers * (config.keyBias ? 4 : 1)),
      values(*this, layout.value, layout.keyBytes, config.stages,
             config.consumers) {
  findItems(arguments.bounds);
  initializeBarriers();
}

Value ForwardFrame::getKeyBias(Value stage) {
  return b.add(b.add(sharedBase, layout.keyBias),
               b.multiply(stage, getKeyBiasBytes(config.headDim)));
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
                           loadKeyBlock(frame, item, j, at);
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
  AttentionBuilder b(module.getLoc(), module.getContext());
  ForwardArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::Map, &a.query},
                {ArgumentKind::Map, &a.key},
                {ArgumentKind::Map, &a.value},
                {ArgumentKind::Map, &a.output},
                {ArgumentKind::Memory, &a.lse},
                {ArgumentKind::ReadOnly, &a.keyBias},
                {ArgumentKind::ReadOnly, &a.table},
                {ArgumentKind::ReadOnly, &a.bounds},
                {ArgumentKind::Number, &a.queries},
                {ArgumentKind::Number, &a.keys},
                {ArgumentKind::Number, &a.queryHeads},
                {ArgumentKind::Number, &a.window},
                {ArgumentKind::Scalar, &a.scale},
                {ArgumentKind::ReadOnly, &a.mask.pieces},
                {ArgumentKind::Number, &a.mask.row},
                {ArgumentKind::Number, &a.mask.head},
                {ArgumentKind::Number, &a.mask.batch}},
               getThreads(config));
  ForwardFrame frame(b, config, a);
  frame.emitRoles(
      config.consumers, [&] { emitForwardProducer(frame); },
      [&] { emitForwardConsumer(frame); });
  return success();
}
