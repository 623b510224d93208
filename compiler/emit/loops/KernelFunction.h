//===- KernelFunction.h - The function of a generated kernel ---*- C++ -*-===//
//
// A generated kernel computes its results from its arguments, row-major
// buffers, by work items that are independent of one another. An argument may
// lie exactly on a result where plan::canWriteOver says so, and nowhere else
// overlap one. On the host it is `void name(void *const *args, int64_t begin,
// int64_t end)`, which does the items [begin, end); args are the kernel's
// arguments, then its results. nvptx/GridFunction.h has the form of GPUs.
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
  /// Host: least items that are worth a task of their own; 0 leaves it to the
  /// executor.
  int64_t grain = 0;
  // GPU:
  /// Threads of a block; 0 for a host kernel.
  uint32_t threads = 0;
  /// Dynamic shared memory of a block.
  uint32_t sharedBytes = 0;
  /// Items of a block, which does [block * itemsPerBlock, ...).
  int64_t itemsPerBlock = 1;
  /// One launch for all segments, which the kernel finds in tables.
  bool segmented = false;
};

/// The function under construction. While planning, there is none, and values
/// are null.
struct KernelFunction {
  plan::KernelOp kernel;
  ElementEmitter &emitter;
  llvm::SmallVector<Buffer> results;
};

/// One that a host's thread calls for a range of items.
struct HostFunction : KernelFunction {
  mlir::Value begin, end;

  /// Runs `body` for every work item of the call, of `count` in all. A single
  /// item is no loop, so that its values belong to the function.
  void forEachItem(int64_t count, llvm::function_ref<void(mlir::Value)> body);
};

/// Every operation of the region must be one that ElementEmitter or the kind's
/// own code lowers.
mlir::LogicalResult checkOperations(plan::KernelOp kernel);

/// Splits the loops of `shapes` until `emitItems`, which emits the kernel with
/// a planning emitter, asks for no further split.
mlir::LogicalResult
planLoops(plan::KernelOp kernel, LoopShapes &shapes, const ScalarModel &model,
          llvm::function_ref<mlir::LogicalResult(KernelFunction)> emitItems);

/// Emits the items of one kind of host kernel; called several times for
/// planning, last for emission.
using EmitItems =
    llvm::function_ref<mlir::FailureOr<KernelShape>(HostFunction &)>;

/// Builds the host function `symbol` for `kernel` at the end of `module`.
mlir::FailureOr<KernelShape> buildKernelFunction(plan::KernelOp kernel,
                                                 llvm::StringRef symbol,
                                                 mlir::ModuleOp module,
                                                 EmitItems emitItems);

/// Emits a host kernel that is not a library's: loop, update, scatter, scan,
/// window. Errors are emitted at the operation.
mlir::FailureOr<KernelShape> emitKernel(plan::KernelOp kernel,
                                        llvm::StringRef symbol,
                                        mlir::ModuleOp module);

/// An update kernel is written for one element, tensor<1xT>; this makes it one
/// for kUpdateSize elements, more than there ever are.
void widenUpdate(plan::KernelOp kernel);
constexpr int64_t kUpdateSize = int64_t(1) << 40;

// One per kind.
mlir::FailureOr<KernelShape> emitLoopItems(HostFunction &function);
mlir::FailureOr<KernelShape> emitUpdateKernel(plan::KernelOp kernel,
                                              llvm::StringRef symbol,
                                              mlir::ModuleOp module);
mlir::FailureOr<KernelShape> emitScatterItems(HostFunction &function);
mlir::FailureOr<KernelShape> emitScanItems(HostFunction &function);
mlir::FailureOr<KernelShape> emitWindowItems(HostFunction &function);

} // namespace lockstep::emit

#endif
