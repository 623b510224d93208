//===- KeyBlocks.h - Loading blocks of keys and values ---------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBLOCKS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBLOCKS_H

#include "compiler/emit/nvptx/attention/KeyBias.h"

namespace lockstep::attention {

/// Starts to copy one block of keys, with their bias, and the same block of
/// values, for a kernel that walks over them for its rows of queries (forward,
/// dq alone).
template <typename Frame>
void loadKeyBlock(Frame &frame, const QueryWork &item, Value j, Position at) {
  AttentionBuilder &b = frame.b;
  Value key = item.getFirstKey(b, j);
  const auto &arguments = frame.arguments;
  auto load = [&](Ring &ring, Value map, bool withBias) {
    ring.waitUntilEmpty(at);
    Value full = ring.getFull(at.stage);
    b.expectBytes(full, frame.layout.keyBytes + (withBias ? keyBiasBytes : 0));
    copyRows(frame, map, ring.getAddress(at.stage), keyBlock,
             frame.config.headDim, {key, item.keyHead, item.batch}, full);
    if (withBias)
      copyKeyBias(
          b, getKeyBias(b, arguments.keyBias, item.batch, arguments.keys, key),
          frame.getKeyBias(at.stage), full);
  };
  load(frame.keys, arguments.key, frame.config.keyBias);
  load(frame.values, arguments.value, false);
}

} // namespace lockstep::attention

#endif
