//===- KernelFrame.h - What the parts of a GEMM kernel share ---*- C++ -*-===//
//
// The kernel's parts, in the order in which they appear in it:
//
//   prologue    barriers, tensor maps fetched, cluster in step
//   producer    warpgroup 0, one thread: tensor copies into the stages
//   consumers   the other warpgroups, for each item: main loop (wgmma), then
//               epilogue (staging buffers, tensor copies out)
//
// A stage's full barrier counts the bytes that arrive; its empty barrier counts
// the consumers, of every block that reads the stage's contents, that are done.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_KERNELFRAME_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_KERNELFRAME_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include "compiler/emit/nvptx/gemm/KernelBuilder.h"

namespace lockstep::gemm {

/// The kernel's arguments, in order (GemmKernel.h says what they are).
struct KernelArguments {
  mlir::Value mapA, mapB, mapD, mapSide;
  mlir::Value bias, table, workspace, counters, columnSums;
  mlir::Value itemCount, columns;
};

struct KernelFrame {
  KernelFrame(const GemmConfig &config, KernelBuilder &builder,
              const KernelArguments &arguments, mlir::Value sharedBase)
      : config(config), layout(getSharedLayout(config)), b(builder),
        arguments(arguments), sharedBase(sharedBase) {}

  const GemmConfig &config;
  SharedLayout layout;
  KernelBuilder &b;
  KernelArguments arguments;
  /// Address of the block's shared memory.
  mlir::Value sharedBase;

  // Made by the prologue.
  mlir::Value thread, lane, warp, warpgroup;
  /// Addresses: of the stages' barriers, of the consumers' barriers for the
  /// second tensor.
  mlir::Value fullBarriers, emptyBarriers, sideBarriers;
  /// Place in the cluster; null without one.
  mlir::Value rank;
  /// Items of this block: begin, begin + step, ... below end.
  mlir::Value begin, step, end;
};

/// A tile of the table, seen from this block.
struct Item {
  mlir::Value row, column, firstBlock, blocks;
  /// Null where the configuration has no use for them.
  mlir::Value kind, slot, partials, batch;
};
Item loadItem(KernelFrame &frame, mlir::Value index);
/// Only how many blocks along k the item has.
mlir::Value loadItemBlocks(KernelFrame &frame, mlir::Value index);

/// Where a role is in the ring of stages: the parity tells one round of the
/// ring from the next.
struct StagePosition {
  mlir::Value stage, parity;
};
StagePosition advance(KernelFrame &frame, StagePosition position);
/// Passes over the stages that the other warpgroup uses.
StagePosition skip(KernelFrame &frame, StagePosition position,
                   mlir::Value blocks);
mlir::Value getBarrier(KernelFrame &frame, mlir::Value barriers,
                       mlir::Value stage);

/// Of D or the second tensor: a box from or to shared memory.
llvm::SmallVector<mlir::Value> getCoordinates(KernelFrame &frame,
                                              mlir::Value inner,
                                              mlir::Value outer,
                                              const Item &item);

void emitPrologue(KernelFrame &frame);
void emitProducer(KernelFrame &frame);
void emitConsumers(KernelFrame &frame);

} // namespace lockstep::gemm

#endif
