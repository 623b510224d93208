//===- GridFunction.h - A generated kernel as a grid of threads -*- C++ -*-===//
//
// On a GPU a generated kernel is `name(arg0, ..., argN-1)`: one global pointer
// per argument, then per result. Block b does the work items [b * items per
// block, ...); the kernel knows how many there are. Sums between threads have a
// fixed order, so that a kernel gives the same bits on every run.
//
// An argument may lie exactly on a result (plan::canWriteOver). Where one
// thread reads what another one stores, there is a barrier, or a value that all
// threads exchange after reading, between the two.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GRIDFUNCTION_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GRIDFUNCTION_H

#include "compiler/emit/Target.h"
#include "compiler/emit/loops/KernelFunction.h"

namespace lockstep::emit {

constexpr int64_t kWarpSize = 32;
constexpr int64_t kMaxThreads = 1024;
/// Threads of a block where nothing asks for another number.
constexpr int64_t kBlockThreads = 256;
/// Blocks that keep every processor of a large GPU busy.
constexpr int64_t kManyBlocks = 264;
/// Static shared memory of a block that every GPU has.
constexpr int64_t kSharedBytes = 48 * 1024;
/// Shared memory of each of two blocks that share a multiprocessor (of 228 KiB,
/// less what the system and the blocks' static buffers take).
constexpr int64_t kHalfSharedBytes = 112 * 1024;
/// Bytes of the widest access of a thread.
constexpr int64_t kVectorBytes = 16;

/// The function under construction: what one thread does. While planning, there
/// is none, and values are null.
struct GridFunction : KernelFunction {
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  explicit GridFunction(KernelFunction function)
      : KernelFunction(std::move(function)) {}

  int64_t blocks = 1, threads = kBlockThreads;
  /// This thread's block, and its place in it: numbers (ElementEmitter).
  Value block, thread;

  /// Sets the size of the grid; before anything else is emitted.
  void setGrid(int64_t blocks, int64_t threads);
  /// One thread per item, of `count` in all. Sets the grid.
  KernelShape forEachItem(int64_t count, llvm::function_ref<void(Value)> body);
  /// The launch of a grid in which a block is an item.
  KernelShape getBlockShape() const;

  /// value + a * b in numbers.
  Value addProduct(Value value, Value a, int64_t b);
  Value divide(Value a, int64_t b);
  Value remainder(Value a, int64_t b);
  Value less(Value a, Value b);

  // ---- Between threads; every thread of the warp or block must take part.
  void barrier();
  void syncWarp();
  /// The value of the lane whose number differs in the bits of `mask`.
  Value shuffleXor(Value value, int64_t mask);
  /// The value of the lane `delta` below; a lane below `delta` keeps its own.
  Value shuffleUp(Value value, int64_t delta);
  Value broadcastLane(Value value, int64_t lane);
  /// i32: bit i is the condition of lane i.
  Value ballot(Value condition);

  using Combine =
      llvm::function_ref<Values(llvm::ArrayRef<Value>, llvm::ArrayRef<Value>)>;
  /// Combines over groups of `size` neighbouring threads, a power of two: up to
  /// a warp, or the whole block. All threads of a group get the same result if
  /// `combine` is commutative.
  Values reduceThreads(Values values, int64_t size, Combine combine);

  /// `count` elements of a type of computation in the block's shared memory.
  Buffer sharedBuffer(mlir::Type element, int64_t count);
  /// As many elements of any type as are asked for, behind those asked for
  /// before, in the part of shared memory whose size the launch gives. Shapes
  /// that the function returns from now on have that size.
  Buffer dynamicSharedBuffer(mlir::Type element, int64_t count);

  /// Blocks that a multiprocessor should hold at a time, for which registers
  /// are divided; 0 leaves it to the assembler.
  int64_t residentBlocks = 0;

private:
  Value shuffle(Value value, int64_t offset, int64_t clamp, int kind);
  Value addSharedGlobal(llvm::StringRef name, mlir::Type type, bool isDynamic);
  int sharedBuffers = 0;
  int64_t dynamicBytes = 0;
};

/// Emits the threads of one kind of kernel; called several times for planning,
/// last for emission.
using EmitThreads =
    llvm::function_ref<mlir::FailureOr<KernelShape>(GridFunction &)>;

/// Builds the grid function of `kernel` at the end of `module`.
mlir::FailureOr<KernelShape> buildGridFunction(const GeneratedKernel &kernel,
                                               mlir::ModuleOp module,
                                               EmitThreads emitThreads);

/// Index arithmetic takes 32 bits where all numbers of the kernel's tensors
/// fit, with room for what a grid's last block leaves over.
ScalarModel getScalarModel(plan::KernelOp kernel);

/// Marks `function` as a kernel of blocks of `threads` threads, of which a
/// multiprocessor holds at least so many (0: any number).
void markAsKernel(mlir::LLVM::LLVMFuncOp function, int64_t threads,
                  int64_t residentBlocks = 0);

// One per kind.
mlir::FailureOr<KernelShape> emitLoopThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitScatterThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitScanThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitWindowThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitSortThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitConvolutionThreads(GridFunction &function);
mlir::FailureOr<KernelShape> emitUpdateGrid(const GeneratedKernel &kernel,
                                            mlir::ModuleOp module);

/// Emits the grid function of a kernel of any kind but contraction and
/// attention. Errors are emitted at the operation.
mlir::FailureOr<KernelShape> emitGridKernel(const GeneratedKernel &kernel,
                                            mlir::ModuleOp module);

} // namespace lockstep::emit

#endif
