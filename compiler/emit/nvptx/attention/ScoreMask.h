//===- ScoreMask.h - Scores that a row does not see ------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_SCOREMASK_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_SCOREMASK_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

struct MaskArguments {
  Mask mask;
  int keyBlock;
  Value keys, window;
};

/// Minus infinity for the keys that a query does not see, in a warpgroup's 64
/// rows of queries by a block of keys: the first row of the tile is
/// `firstQuery`, the first column `firstKey`.
Values maskKeys(BlockFrame &frame, const Consumer &self,
                const MaskArguments &arguments, llvm::ArrayRef<Value> scores,
                Value firstQuery, Value firstKey);

/// The same with rows of keys and columns of queries.
Values maskQueries(BlockFrame &frame, const Consumer &self,
                   const MaskArguments &arguments, llvm::ArrayRef<Value> scores,
                   Value firstQuery, Value firstKey);

} // namespace lockstep::attention

#endif
