//===- MainLoop.cpp - wgmma over the blocks of an item --------------------===//
//
// An operand's tile in shared memory is rows of 128 bytes with the 128-byte
// swizzle: along k (K-major: 64 rows make a group of 8 KB) or along m or n
// (64 of them by 64 k make 8 KB, the next 64 follow).
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/gemm/Consumers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

static int getSumsOfProduct(const GemmConfig &config) {
  return config.tileN / 2;
}

static Type getStruct(MLIRContext *context, int count) {
  return LLVM::LLVMStructType::getLiteral(
      context, SmallVector<Type>(count, Float32Type::get(context)));
}

MainLoop::MainLoop(KernelFrame &frame, const ConsumerIdentity &self)
    : frame(frame), b(frame.b), self(self),
      sumsType(getStruct(b.getContext(), getSumsOfProduct(frame.config))),
      groups(getWarpgroupRows(frame.config) / 64) {
  // One lane for each block whose stages this warpgroup has read.
  if (frame.config.cluster != Cluster::None) {
    Value lane0 = b.equal(frame.lane, int64_t(0));
    releases = b.both(lane0, b.lessUnsigned(self.warp, 2));
    auto clusterPointer = LLVM::LLVMPointerType::get(b.getContext(), 7);
    emptyBarriersOfRank = NVVM::MapaOp::create(
        b, clusterPointer, b.shared(frame.emptyBarriers), self.warp);
  } else {
    releases = self.isLead;
  }
  makeDescriptors();
}

void MainLoop::makeDescriptors() {
  const GemmConfig &config = frame.config;
  // In a cluster a shared address carries the block's rank above bit 24.
  Value base = b.bitAnd(b.shiftRight(frame.sharedBase, 4), 0x3FFF);
  int rows = config.schedule == Schedule::PingPong ? 0 : 64 * groups;
  firstA = b.add(base, b.multiply(self.index, rows * tileK * 2 >> 4));
  firstB = b.add(base, frame.layout.aBytes >> 4);
}

/// The shared memory matrix descriptor of wgmma (PTX ISA, "Matrix-descriptor"):
/// address, leading and stride byte offsets in units of 16 bytes; bits 62-63:
/// the 128-byte swizzle.
Value MainLoop::getDescriptor(Value address, Major major) {
  constexpr int64_t swizzle128 = int64_t(1) << 62;
  constexpr int64_t strideOffset = int64_t(1024 >> 4) << 32;
  // Unused by K-major operands; else the distance of one 64 to the next.
  int64_t leadingOffset = (major == Major::K ? 1 : 8192 >> 4) << 16;
  Value wide = b.createOrFold<LLVM::ZExtOp>(b.getI64Type(), address);
  return LLVM::OrOp::create(
      b, wide, b.constant64(swizzle128 | strideOffset | leadingOffset));
}

Value MainLoop::issueProduct(Value sums, Value a, Value bDescriptor,
                             bool first) {
  MLIRContext *context = b.getContext();
  const GemmConfig &config = frame.config;
  // "col" of A and "row" of B are the transposed ones.
  auto layoutA =
      config.a == Major::K ? NVVM::MMALayout::row : NVVM::MMALayout::col;
  auto layoutB =
      config.b == Major::K ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  return NVVM::WgmmaMmaAsyncOp::create(
      b, sumsType, sums, a, bDescriptor,
      NVVM::MMAShapeAttr::get(context, 64, config.tileN, 16),
      NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::f32,
      first ? NVVM::WGMMAScaleOut::zero : NVVM::WGMMAScaleOut::one,
      NVVM::WGMMAScaleIn::one, NVVM::WGMMAScaleIn::one, layoutA, layoutB,
      NVVM::MMAIntOverflowAttr());
}

/// The products of one stage: four steps of 16 along k for each 64 rows.
void MainLoop::issueBlock(SmallVectorImpl<Value> &sums, Value stage,
                          bool first) {
  const GemmConfig &config = frame.config;
  NVVM::WgmmaFenceAlignedOp::create(b);
  Value offset = b.multiply(stage, frame.layout.stageBytes >> 4);
  Value addressA = b.add(firstA, offset), addressB = b.add(firstB, offset);
  // 16 along k, and 64 rows, in units of 16 bytes.
  int stepA = config.a == Major::K ? 2 : 128;
  int stepB = config.b == Major::K ? 2 : 128;
  constexpr int groupStep = 8192 >> 4;
  for (int k = 0; k < 4; ++k) {
    Value operandB = getDescriptor(b.add(addressB, k * stepB), config.b);
    for (int group = 0; group < groups; ++group) {
      Value operandA = getDescriptor(
          b.add(addressA, k * stepA + group * groupStep), config.a);
      sums[group] =
          issueProduct(sums[group], operandA, operandB, first && k == 0);
    }
  }
  NVVM::WgmmaGroupSyncAlignedOp::create(b);
}

/// Tells the producers that this warpgroup has read a stage. The arrival has
/// the default scope: cluster scope would add a fence of all memory.
void MainLoop::release(Value stage) {
  b.ifThen(releases, [&] {
    if (frame.config.cluster != Cluster::None) {
      Value barrier = b.element(emptyBarriersOfRank, stage, b.getI64Type());
      NVVM::MBarrierArriveOp::create(b, Type(), barrier, Value());
    } else {
      Value barrier = b.shared(getBarrier(frame, frame.emptyBarriers, stage));
      NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier, Value());
    }
  });
}

void MainLoop::run(const Item &item, StagePosition at) {
  Value undefined = LLVM::UndefOp::create(b, sumsType);
  SmallVector<Value> sums(groups, undefined);
  // The first block replaces the sums: the flag for it is not a run-time value.
  b.waitForPhase(getBarrier(frame, frame.fullBarriers, at.stage), at.parity);
  issueBlock(sums, at.stage, /*first=*/true);
  StagePosition second = advance(frame, at);
  SmallVector<Value> initial(sums);
  initial.append({second.stage, second.parity, at.stage});
  SmallVector<Value> results =
      b.loop(b.constant(1), item.blocks, b.constant(1), initial,
             [&](Value, ValueRange carried) -> KernelBuilder::Values {
               SmallVector<Value> running(carried.take_front(groups));
               StagePosition now{carried[groups], carried[groups + 1]};
               b.waitForPhase(getBarrier(frame, frame.fullBarriers, now.stage),
                              now.parity);
               issueBlock(running, now.stage, /*first=*/false);
               // The products before these are done: their stage is free.
               NVVM::WgmmaWaitGroupSyncOp::create(b, 1);
               release(carried[groups + 2]);
               StagePosition after = advance(frame, now);
               running.append({after.stage, after.parity, now.stage});
               return running;
             });
  pending.assign(results.begin(), results.begin() + groups);
  next = {results[groups], results[groups + 1]};
  lastStage = results[groups + 2];
}

/// wgmma.wait_group names no registers, so that nothing in LLVM's eyes keeps a
/// read of the sums after it. Here they go through it.
Sums MainLoop::finish() {
  int each = getSumsOfProduct(frame.config), count = groups * each;
  SmallVector<Value> operands;
  for (Value sums : pending)
    for (int i = 0; i < each; ++i)
      operands.push_back(b.extractField(sums, i));
  std::string outputs, inputs;
  for (int i = 0; i < count; ++i) {
    outputs += "=f,";
    inputs += std::to_string(i) + (i + 1 < count ? "," : "");
  }
  Value settled =
      b.assembly("wgmma.wait_group.sync.aligned 0;", outputs + inputs, operands,
                 getStruct(b.getContext(), count));
  release(lastStage);
  Sums sums;
  for (int i = 0; i < count; ++i)
    sums.push_back(b.extractField(settled, i));
  return sums;
}
