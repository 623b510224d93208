//===- BatchedGathers.h - Rows taken each at its own place ------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SHARDING_BATCHEDGATHERS_H
#define LOCKSTEP_COMPILER_SHARDING_BATCHEDGATHERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::sharding {

/// Rewrites gathers and scatters that index a leading dimension by its own
/// position (`mask[arange(B), columns]`) to ones with that dimension as a batch
/// dimension. It then divides like any other, where an indexed dimension must
/// be whole on every rank.
void batchGathers(mlir::func::FuncOp function);

} // namespace lockstep::sharding

#endif
