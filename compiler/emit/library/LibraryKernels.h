//===- LibraryKernels.h - Kernels that the runtime has ----------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_LIBRARY_LIBRARYKERNELS_H
#define LOCKSTEP_COMPILER_EMIT_LIBRARY_LIBRARYKERNELS_H

#include "dialects/plan/Plan.h"
#include "runtime/artifact/artifact_generated.h"

namespace lockstep::emit {

/// A kernel of the runtime's library in place of a plan.kernel.
struct LibraryCall {
  artifact::LibraryKernel kernel = artifact::LibraryKernel::None;
  std::vector<std::unique_ptr<artifact::AttributeT>> attributes;
  /// For each operand of the library kernel, which of the launch's operands it
  /// is (inputs first, then outputs), and how many bytes behind that operand's
  /// begin it starts.
  llvm::SmallVector<int> order;
  llvm::SmallVector<int64_t> byteOffsets;
};

/// True for kinds that library kernels compute: contraction, attention,
/// convolution and their gradients, sort.
bool isLibraryKind(plan::KernelKind kind);

/// Reads strides and sizes off the region: the anchor and the views around it.
/// An error at the kernel where the library cannot do it.
mlir::FailureOr<LibraryCall> describeLibraryKernel(plan::KernelOp kernel);

} // namespace lockstep::emit

#endif
