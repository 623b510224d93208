//===- KernelFunction.h - The function of a generated kernel ---*- C++ -*-===//
//
// Every generated kernel is `void name(void *const *args, int64_t begin,
// int64_t end)`: it does the work items [begin, end), independent of one
// another; args are the kernel's arguments, then its results, as row-major
// buffers. An argument may lie exactly on a result where plan::canWriteOver
// says so, and nowhere else overlap one.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_KERNELFUNCTION_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_KERNELFUNCTION_H

#include "compiler/emit/loops/ElementEmitter.h"
#include "dialects/plan/Plan.h"

namespace lockstep::emit {

/// How a launch drives a generated kernel.
struct KernelShape {
  /// Number of work items; 0 for update kernels, where each element of a
  /// segment is one.
  int64_t workItems = 1;
  /// Least items that are worth a task of their own; 0 leaves it to the
  /// executor.
  int64_t grain = 0;
};

/// The function under construction. While planning, there is none, and values
/// are null.
struct KernelFunction {
  plan::KernelOp kernel;
  ElementEmitter &emitter;
  mlir::Value begin, end;
  llvm::SmallVector<Buffer> results;

  /// Runs `body` for every work item of the call, of `count` in all. A single
  /// item is no loop, so that its values belong to the function.
  void forEachItem(int64_t count, llvm::function_ref<void(mlir::Value)> body);
};

/// Emits the items of one kind of kernel; called several times for planning,
/// last for emission.
using EmitItems =
    llvm::function_ref<mlir::FailureOr<KernelShape>(KernelFunction &)>;

/// Builds `symbol` for `kernel` at the end of `module`.
mlir::FailureOr<KernelShape> buildKernelFunction(plan::KernelOp kernel,
                                                 llvm::StringRef symbol,
                                                 mlir::ModuleOp module,
                                                 EmitItems emitItems);

/// Emits a kernel that is not a library's: loop, update, scatter, scan, window.
/// Errors are emitted at the operation.
mlir::FailureOr<KernelShape> emitKernel(plan::KernelOp kernel,
                                        llvm::StringRef symbol,
                                        mlir::ModuleOp module);

// One per kind.
mlir::FailureOr<KernelShape> emitLoopItems(KernelFunction &function);
mlir::FailureOr<KernelShape> emitUpdateKernel(plan::KernelOp kernel,
                                              llvm::StringRef symbol,
                                              mlir::ModuleOp module);
mlir::FailureOr<KernelShape> emitScatterItems(KernelFunction &function);
mlir::FailureOr<KernelShape> emitScanItems(KernelFunction &function);
mlir::FailureOr<KernelShape> emitWindowItems(KernelFunction &function);

} // namespace lockstep::emit

#endif
