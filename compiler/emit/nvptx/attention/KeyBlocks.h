//===- KeyBlocks.h - Loading blocks of keys and values ---------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBLOCKS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBLOCKS_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/KeyBias.h"

namespace lockstep::attention {

/// Starts to copy one block of keys, with their bias, and the same block of
/// values, for a kernel that walks over them for its rows of queries (forward,
/// dq alone).
template <typename Frame>
void loadKeyBlock(Frame &frame, const QueryWork &item, Value j, Position at) {
  AttentionBuilder &b = frame.b;
  int headDim = frame.config.headDim;
  Value key = item.getFirstKey(b, j, getKeyBlock(headDim));
  const auto &arguments = frame.arguments;
  auto load = [&](Ring &ring, Value map, bool withBias) {
    ring.waitUntilEmpty(at);
    Value full = ring.getFull(at.stage);
    int biasBytes = withBias ? getKeyBiasBytes(headDim) : 0;
    b.expectBytes(full, frame.layout.keyBytes + biasBytes);
    copyRows(frame, map, ring.getAddress(at.stage), getKeyBlock(headDim),
             headDim, {key, item.keyHead, item.batch}, full);
    if (withBias)
      copyKeyBias(
          b, getKeyBias(b, arguments.keyBias, item.batch, arguments.keys, key),
          frame.getKeyBias(at.stage), biasBytes, full);
  };
  load(frame.keys, arguments.key, frame.config.keyBias);
  load(frame.values, arguments.value, false);
}

} // namespace lockstep::attention

#endif
