//===- Turns.h - Warpgroups that issue products in turn --------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_TURNS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_TURNS_H

#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

/// While one warpgroup issues its products the other ones compute: without
/// turns they would all wait for the tensor cores at once. Every warpgroup must
/// take as many turns as the others. Made before the loop over items.
class Turns {
public:
  Turns(BlockFrame &frame, const Consumer &self, int consumers) : b(frame.b) {
    // The first turn is warpgroup 0's: as if the last one had passed it on.
    Value isLast = b.equal(self.index, consumers - 1);
    b.ifThen(isLast,
             [&] { b.arriveAtBarrier(b.constant(firstTurnBarrier), 256); });
    own = b.add(self.index, firstTurnBarrier);
    next = b.select(isLast, b.constant(firstTurnBarrier), b.add(own, 1));
  }
  void await() { b.barrier(own, 256); }
  void pass() { b.arriveAtBarrier(next, 256); }

private:
  AttentionBuilder &b;
  Value own, next;
};

} // namespace lockstep::attention

#endif
