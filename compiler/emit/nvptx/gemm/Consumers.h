//===- Consumers.h - The warpgroups that multiply and store ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_CONSUMERS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_CONSUMERS_H

#include "compiler/emit/nvptx/gemm/KernelFrame.h"

namespace lockstep::gemm {

/// Who a thread is among the consumers.
struct ConsumerIdentity {
  /// The warpgroup, from 0; thread and warp in it; whether the thread is the
  /// one that does what one thread of the warpgroup has to do.
  mlir::Value index, thread, warp, isLead;
};

/// The barriers that ptxas's and our own code number.
constexpr int firstGroupBarrier = 1; // one of each consumer warpgroup
constexpr int firstOrderBarrier = 4; // ping-pong: whose main loop may run

/// All threads of this warpgroup.
void synchronizeGroup(KernelFrame &frame, const ConsumerIdentity &self);

/// Sums of a tile in the registers of a warpgroup: for each 64 rows, then for
/// each 8 columns, four a thread: columns 2i and 2i+1 (i: lane modulo 4) of the
/// rows lane/4 and lane/4 + 8 of the warp's 16.
using Sums = llvm::SmallVector<mlir::Value>;

/// wgmma over the blocks of an item.
class MainLoop {
public:
  MainLoop(KernelFrame &frame, const ConsumerIdentity &self);

  /// Issues all of an item's products. The last ones may still run: nothing may
  /// read the sums before finish.
  void run(const Item &item, StagePosition at);
  /// The stage after the item's last one.
  StagePosition getNext() const { return next; }
  /// Waits for the products, frees the last stage and gives the sums.
  Sums finish();

private:
  void makeDescriptors();
  mlir::Value getDescriptor(mlir::Value address, Major major);
  void issueBlock(llvm::SmallVectorImpl<mlir::Value> &sums, mlir::Value stage,
                  bool first);
  mlir::Value issueProduct(mlir::Value sums, mlir::Value a, mlir::Value b,
                           bool first);
  void release(mlir::Value stage);

  KernelFrame &frame;
  KernelBuilder &b;
  const ConsumerIdentity &self;
  mlir::Type sumsType;
  int groups;
  mlir::Value firstA, firstB;
  mlir::Value releases, emptyBarriersOfRank;
  llvm::SmallVector<mlir::Value> pending;
  StagePosition next;
  mlir::Value lastStage;
};

/// From sums to memory: bias, activation, the second tensor, column sums, then
/// bf16 or f32 through staging buffers.
class Epilogue {
public:
  Epilogue(KernelFrame &frame, const ConsumerIdentity &self);

  /// Starts to fetch the item's part of the second tensor, where it is read.
  void fetchSide(const Item &item);
  /// The bias of the thread's columns, two of them packed in each value; to be
  /// loaded while the last products run.
  llvm::SmallVector<mlir::Value> loadBias(const Item &item);
  /// `sideParity` tells one item's fetch from the next one's.
  void store(const Item &item, llvm::ArrayRef<mlir::Value> sums,
             llvm::ArrayRef<mlir::Value> bias, mlir::Value sideParity);
  /// Waits until everything is written.
  void finish();

private:
  struct Place {
    int group;  // of 64 rows
    int column; // of the tile
  };
  void computeMatrixOffsets();
  void computePairOffsets();
  mlir::Value getRow(const Item &item, int group);
  mlir::Value getBuffer(int index);
  llvm::SmallVector<mlir::Value> readSide(int buffer);
  void applySide(llvm::MutableArrayRef<mlir::Value> sums, int buffer);
  void storeBFloat16(const Item &item, const Place &place,
                     llvm::MutableArrayRef<mlir::Value> sums,
                     llvm::ArrayRef<mlir::Value> bias);
  /// One round of the ring: fills a buffer and sends it off.
  void sendBuffer(const Item &item, const Place &place, mlir::Value map,
                  llvm::function_ref<void(mlir::Value)> fill);
  void writeMatrices(mlir::Value buffer, llvm::ArrayRef<mlir::Value> packed);
  void writePairs(mlir::Value buffer, llvm::ArrayRef<mlir::Value> sums);

  KernelFrame &frame;
  KernelBuilder &b;
  const ConsumerIdentity &self;
  /// First staging buffer of the warpgroup; this lane's places in a buffer: for
  /// each 16 columns of bf16, for each 8 of f32.
  mlir::Value ring;
  llvm::SmallVector<mlir::Value> offsets;
  /// First of the lane's columns in each 8.
  mlir::Value laneColumn;
  mlir::Value dropPolicy;
  int nextBuffer = 0;
};

/// Sums over each warp's rows of the tile, to the array of column sums.
void storeColumnSums(KernelFrame &frame, const ConsumerIdentity &self,
                     const Item &item, llvm::ArrayRef<mlir::Value> sums);

/// Split K: leaves the sums in the item's slot of the workspace.
void storePartial(KernelFrame &frame, const ConsumerIdentity &self,
                  const Item &item, llvm::ArrayRef<mlir::Value> sums);
/// Split K: adds the item's slots, in order, waiting for each.
Sums addPartials(KernelFrame &frame, const ConsumerIdentity &self,
                 const Item &item, llvm::ArrayRef<mlir::Value> sums);

} // namespace lockstep::gemm

#endif
