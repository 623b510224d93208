//===- KeyBias.h - What is added to the scores of a key --------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBIAS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_KEYBIAS_H

#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

/// An element of a mask (i64): i1, whether the key is seen, or f32, what is
/// added to the scores before the scale. Minus infinity remains, but the least
/// number (which hides as well, where anything is seen) does not become it.
Value loadMaskElement(AttentionBuilder &b, MaskElement element, Value mask,
                      Value index, Value scale);

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
