//===- BackwardKernel.cpp - The backward kernel and its arguments ---------===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/Backward.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

BackwardFrame::BackwardFrame(AttentionBuilder &b, const BackwardConfig &config,
                             const BackwardArguments &arguments)
    : BlockFrame(b, getSharedLayout(config).barriers), config(config),
      layout(getSharedLayout(config)), arguments(arguments),
      queries(*this, layout.query, layout.queryBytes, config.stages, 2),
      outputGradients(*this, layout.outputGradient, layout.queryBytes,
                      config.stages, 2),
      // The thread that stores the results frees keys and values together.
      keys(*this, layout.key, layout.keyBytes, config.keyStages, 1),
      values(*this, layout.value, layout.keyBytes, config.keyStages, 0),
      // One arrival of each of the consumers' eight warps.
      resultsFull(addBarriers(config.keyStages, 8)) {
  if (hasQueryGradient()) {
    scoresFull = addBarriers(2, 8);
    scoresEmpty = addBarriers(2, 2);
    stagingEmpty = addBarriers(1, 1);
  }
  findItems(arguments.bounds);
  initializeBarriers();
}

BackwardItem::BackwardItem(BackwardFrame &frame, Value index) {
  Values numbers = frame.loadItem(frame.arguments.table, index);
  row = numbers[0];
  keyHead = numbers[1];
  batch = numbers[2];
  firstHead = numbers[3];
  steps = numbers[4];
  first = numbers[5];
  start = numbers[6];
  // An argument costs no register.
  bool goesToEnd = frame.config.mask != Mask::CausalWindow;
  end = goesToEnd ? frame.arguments.tiles : numbers[7];
}

QueryTile attention::getFirstTile(BackwardFrame &frame,
                                  const BackwardItem &item) {
  AttentionBuilder &b = frame.b;
  Value batchHead = b.multiply(item.batch, frame.arguments.queryHeads);
  return {item.start, b.add(batchHead, item.firstHead)};
}

QueryTile attention::getNextTile(BackwardFrame &frame, const BackwardItem &item,
                                 QueryTile at) {
  AttentionBuilder &b = frame.b;
  Value next = b.add(at.tile, 1);
  next = b.select(b.equal(next, item.end), item.first, next);
  Value isNewHead = b.equal(next, item.start);
  return {next, b.select(isNewHead, b.add(at.head, 1), at.head)};
}

Value attention::getTileNumber(BackwardFrame &frame, QueryTile at) {
  AttentionBuilder &b = frame.b;
  return b.add(b.multiply(at.head, frame.arguments.tiles), at.tile);
}

LogicalResult attention::buildBackwardKernel(ModuleOp module,
                                             const BackwardConfig &config,
                                             llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  AttentionBuilder b(module.getLoc(), module.getContext());
  BackwardArguments a;
  createKernel(b, module, symbol, {{ArgumentKind::Map, &a.query},
                                   {ArgumentKind::Map, &a.key},
                                   {ArgumentKind::Map, &a.value},
                                   {ArgumentKind::Map, &a.outputGradient},
                                   {ArgumentKind::Map, &a.keyGradient},
                                   {ArgumentKind::Map, &a.valueGradient},
                                   {ArgumentKind::Memory, &a.logSum},
                                   {ArgumentKind::Memory, &a.rowSum},
                                   {ArgumentKind::Memory, &a.querySums},
                                   {ArgumentKind::ReadOnly, &a.keyBias},
                                   {ArgumentKind::ReadOnly, &a.table},
                                   {ArgumentKind::ReadOnly, &a.bounds},
                                   {ArgumentKind::Number, &a.tiles},
                                   {ArgumentKind::Number, &a.keys},
                                   {ArgumentKind::Number, &a.queryHeads},
                                   {ArgumentKind::Number, &a.window},
                                   {ArgumentKind::Scalar, &a.scale},
                                   {ArgumentKind::ReadOnly, &a.mask.pieces},
                                   {ArgumentKind::Number, &a.mask.row},
                                   {ArgumentKind::Number, &a.mask.head},
                                   {ArgumentKind::Number, &a.mask.batch}},
               getThreads(config));
  BackwardFrame frame(b, config, a);
  frame.emitRoles(
      2, [&] { emitBackwardProducer(frame); },
      [&] { emitBackwardConsumer(frame); });
  return success();
}
