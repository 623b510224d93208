//===- Producer.cpp - The warpgroup that loads ----------------------------===//
#include "compiler/emit/nvptx/gemm/KernelFrame.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// createpolicy's encodings of evict_last and evict_first, as CUTLASS has them.
static constexpr int64_t keepInCache = 0x14F0000000000000;

namespace {
/// The copies of one stage.
class StageCopies {
public:
  StageCopies(KernelFrame &frame, Value keepPolicy, Value clusterMask)
      : frame(frame), b(frame.b), keepPolicy(keepPolicy),
        clusterMask(clusterMask) {}

  void copyAll(const Item &item, Value block, Value stage, Value barrier);

private:
  struct Operand {
    Value map;
    Major major;
    int rows;
    /// The cluster's blocks read the same rows: each fetches half for both.
    bool shared;
    Value cachePolicy;
  };
  void copyOperand(const Operand &operand, const Item &item, Value target,
                   Value firstRow, Value k);
  void copyBox(const Operand &operand, const Item &item, Value target,
               Value inner, Value outer);

  KernelFrame &frame;
  KernelBuilder &b;
  Value keepPolicy, clusterMask, fullBarrier;
};
} // namespace

void StageCopies::copyBox(const Operand &operand, const Item &item,
                          Value target, Value inner, Value outer) {
  auto clusterPointer = LLVM::LLVMPointerType::get(b.getContext(), 7);
  Value address =
      LLVM::AddrSpaceCastOp::create(b, clusterPointer, b.shared(target));
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, address, operand.map, getCoordinates(frame, inner, outer, item),
      fullBarrier, ValueRange(), operand.shared ? clusterMask : Value(),
      operand.cachePolicy, NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

void StageCopies::copyOperand(const Operand &operand, const Item &item,
                              Value target, Value firstRow, Value k) {
  int rows = operand.rows;
  if (operand.shared) {
    rows /= 2;
    firstRow = b.add(firstRow, b.multiply(frame.rank, rows));
    target = b.add(target, b.multiply(frame.rank, rows * tileK * 2));
  }
  if (operand.major == Major::K)
    return copyBox(operand, item, target, k, firstRow);
  for (int first = 0; first < rows; first += 64)
    copyBox(operand, item, b.add(target, first * tileK * 2),
            b.add(firstRow, first), k);
}

void StageCopies::copyAll(const Item &item, Value block, Value stage,
                          Value barrier) {
  const GemmConfig &config = frame.config;
  const KernelArguments &arguments = frame.arguments;
  fullBarrier = b.shared(barrier);
  NVVM::MBarrierArriveExpectTxOp::create(
      b, Type(), fullBarrier, b.constant(frame.layout.stageBytes),
      NVVM::MemScopeKind::CTA, /*relaxed=*/false, /*predicate=*/Value());
  Value targetA =
      b.add(frame.sharedBase, b.multiply(stage, frame.layout.stageBytes));
  Value targetB = b.add(targetA, frame.layout.aBytes);
  Value k = b.shiftLeft(block, 6);
  copyOperand({arguments.mapA, config.a, config.tileM,
               config.cluster == Cluster::AlongN, Value()},
              item, targetA, item.row, k);
  copyOperand({arguments.mapB, config.b, config.tileN,
               config.cluster == Cluster::AlongM, keepPolicy},
              item, targetB, item.column, k);
}

/// One thread: for each item and block along k, waits for a free stage and
/// starts the copies into it.
static void emitLoads(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  Value clusterMask, keepPolicy;
  if (frame.config.cluster != Cluster::None)
    clusterMask =
        LLVM::ConstantOp::create(b, b.getI16Type(), b.getI16IntegerAttr(3));
  if (frame.config.cacheHints)
    keepPolicy = b.constant64(keepInCache);
  StageCopies copies(frame, keepPolicy, clusterMask);
  Value zero = b.constant(0);
  b.loop(
      frame.begin, frame.end, frame.step, {zero, zero},
      [&](Value index, ValueRange position) {
        Item item = loadItem(frame, index);
        Value end = b.add(item.firstBlock, item.blocks);
        return b.loop(
            item.firstBlock, end, b.constant(1), position,
            [&](Value block, ValueRange carried) -> KernelBuilder::Values {
              StagePosition at{carried[0], carried[1]};
              b.waitForPhase(getBarrier(frame, frame.emptyBarriers, at.stage),
                             b.bitXor(at.parity, 1));
              copies.copyAll(item, block, at.stage,
                             getBarrier(frame, frame.fullBarriers, at.stage));
              StagePosition next = advance(frame, at);
              return {next.stage, next.parity};
            });
      });
}

void gemm::emitProducer(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  NVVM::SetMaxRegisterOp::create(b, frame.config.producerRegisters,
                                 NVVM::SetMaxRegisterAction::decrease);
  Value firstWarp = b.equal(frame.warp, int64_t(0));
  Value elected = NVVM::ElectSyncOp::create(b, b.getI1Type(), Value());
  b.ifThen(b.both(firstWarp, elected), [&] { emitLoads(frame); });
}
