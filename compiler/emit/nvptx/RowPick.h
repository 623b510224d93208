//===- RowPick.h - Sums of which one element counts -----------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ROWPICK_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ROWPICK_H

#include "compiler/emit/loops/LoopAnalysis.h"

namespace lockstep::emit {

/// The value, for the row `kept`, of a sum along the one reduced run of the
/// domain that takes an element at the position which the row's number (a
/// label) says, and zeros elsewhere: reduce sum (select (iota == number),
/// element, 0). Null while planning; nothing for another reduction.
std::optional<mlir::Value> emitRowPick(ElementEmitter &e,
                                       const LoopAnalysis &domain,
                                       llvm::ArrayRef<Index> kept,
                                       train::ReduceOp reduce);

} // namespace lockstep::emit

#endif
