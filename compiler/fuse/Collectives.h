//===- Collectives.h - Collectives in the runtime's form --------*- C++ -*-===//
//
// The runtime gathers and scatters along the leading dimension, where a rank's
// part is one range of memory, and has no all-to-all. What partition made for
// other dimensions becomes that and transposes, which fold into kernels.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_FUSE_COLLECTIVES_H
#define LOCKSTEP_COMPILER_FUSE_COLLECTIVES_H

#include "mlir/IR/Operation.h"

namespace lockstep::fuse {

/// True for a local_slice, an all_to_all, and a gather or scatter along an
/// inner dimension.
bool needsLeadingForm(mlir::Operation *op);

/// Replaces an operation for which needsLeadingForm holds.
void rewriteToLeadingForm(mlir::Operation *op);

} // namespace lockstep::fuse

#endif
