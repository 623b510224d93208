//===- Index.h - Positions in a tensor as mixed-radix digits ---*- C++ -*-===//
//
// The position of an element in a tensor is a number in a mixed radix: a list
// of digits, major first, whose sizes multiply to the tensor's number of
// elements. Digits need not be the dimensions. A loop over a whole tensor
// starts with one digit; an operation that treats dimensions differently (a
// broadcast that drops one, a transpose that moves one) asks for a cut between
// them, and only then is a digit split. So a reshape changes nothing, pointwise
// work on any shape is one flat loop, and a cut costs no division where the
// loop itself can be split there: planning (LoopKernel) runs the same code once
// without emitting, notes which loop digits were cut, and starts again with
// finer loops.
//
// The alternative, one index per dimension with affine maps, needs divisions at
// every reshape or an analysis to remove them.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_INDEX_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_INDEX_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace lockstep::emit {

/// One digit: a number (ElementEmitter::number) in [0, size).
struct Digit {
  mlir::Value value; ///< null while planning
  int64_t size;
  int64_t id;       ///< equal ids are equal values
  unsigned level;   ///< the loop level (ElementEmitter) that defines it
  int loop = -1;    ///< the list of loops (LoopShape) it belongs to, -1 for a
                    ///< computed digit
  int position = 0; ///< in that list
};

/// Major first; digits of size 1 are left out.
using Index = llvm::SmallVector<Digit, 4>;

} // namespace lockstep::emit

#endif
