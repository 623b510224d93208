//===- QueryGradientKernel.cpp - The query gradient kernel, its producer --===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/KeyBlocks.h"
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

Value QueryGradientFrame::getKeyBias(Value stage) {
  return b.add(b.add(sharedBase, layout.keyBias),
               b.multiply(stage, getKeyBiasBytes(config.headDim)));
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
                           loadKeyBlock(frame, item, j, at);
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

LogicalResult
attention::buildQueryGradientKernel(ModuleOp module,
                                    const QueryGradientConfig &config,
                                    llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  AttentionBuilder b(module.getLoc(), module.getContext());
  QueryGradientArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::Map, &a.query},
                {ArgumentKind::Map, &a.key},
                {ArgumentKind::Map, &a.value},
                {ArgumentKind::Map, &a.outputGradient},
                {ArgumentKind::Map, &a.queryGradient},
                {ArgumentKind::ReadOnly, &a.outputRows.data},
                {ArgumentKind::ReadOnly, &a.gradientRows.data},
                {ArgumentKind::Memory, &a.lse},
                {ArgumentKind::Memory, &a.logSum},
                {ArgumentKind::Memory, &a.rowSum},
                {ArgumentKind::ReadOnly, &a.keyBias},
                {ArgumentKind::ReadOnly, &a.table},
                {ArgumentKind::ReadOnly, &a.bounds},
                {ArgumentKind::Number, &a.queries},
                {ArgumentKind::Number, &a.keys},
                {ArgumentKind::Number, &a.paddedRows},
                {ArgumentKind::Number, &a.queryHeads},
                {ArgumentKind::Number, &a.window},
                {ArgumentKind::Number, &a.headDim},
                {ArgumentKind::Wide, &a.outputRows.rowStride},
                {ArgumentKind::Wide, &a.outputRows.headStride},
                {ArgumentKind::Wide, &a.outputRows.batchStride},
                {ArgumentKind::Wide, &a.gradientRows.rowStride},
                {ArgumentKind::Wide, &a.gradientRows.headStride},
                {ArgumentKind::Wide, &a.gradientRows.batchStride},
                {ArgumentKind::Scalar, &a.scale},
                {ArgumentKind::ReadOnly, &a.mask.pieces},
                {ArgumentKind::Number, &a.mask.row},
                {ArgumentKind::Number, &a.mask.head},
                {ArgumentKind::Number, &a.mask.batch}},
               getThreads(config));
  QueryGradientFrame frame(b, config, a);
  frame.emitRoles(
      2, [&] { emitProducer(frame); },
      [&] { emitQueryGradientConsumer(frame); });
  return success();
}
