//===- KeyBias.h - What is added to the scores of a key --------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBIAS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBIAS_H

#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

/// What is added to the scaled scores as what is added to the scores. Minus
/// infinity remains, but the least f32 (which hides as well, where anything is
/// seen) does not become it.
Value getUnscaled(AttentionBuilder &b, Value added, Value scale);

/// The part of the bias that begins at a key of a batch's.
Value getKeyBias(AttentionBuilder &b, Value keyBias, Value batch, Value keys,
                 Value key);

/// Starts to copy the bias of a block of keys into shared memory.
void copyKeyBias(AttentionBuilder &b, Value source, Value target, int bytes,
                 Value barrier);

/// Scores with rows of queries, plus the bias of their columns, which lies in
/// shared memory.
Values addKeyBias(BlockFrame &frame, const Consumer &self,
                  llvm::ArrayRef<Value> scores, Value bias);

} // namespace lockstep::attention

#endif
