//===- SplitK.cpp - Partial sums through a workspace ----------------------===//
//
// A slot holds a block's tile in the order of the registers, so that every
// access is 16 bytes and coalesced. A counter for each slot and warpgroup says
// that the slot is filled; whoever reads the slot sets it back.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/gemm/Consumers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// A slot's number with the block's place in the cluster.
static Value getSlot(KernelFrame &frame, Value slot) {
  if (frame.config.cluster == Cluster::None)
    return slot;
  return frame.b.add(frame.b.multiply(slot, 2), frame.rank);
}

/// This thread's first 16 bytes in a slot; the next ones are 2048 bytes on.
static Value getSlotPointer(KernelFrame &frame, const ConsumerIdentity &self,
                            Value slot) {
  KernelBuilder &b = frame.b;
  const GemmConfig &config = frame.config;
  Type i64 = b.getI64Type();
  int64_t slotBytes = int64_t(config.tileM) * config.tileN * 4;
  int groupBytes = getWarpgroupRows(config) * config.tileN * 4;
  Value wide = LLVM::ZExtOp::create(b, i64, slot);
  Value offset = LLVM::MulOp::create(b, wide, b.constant64(slotBytes));
  Value inSlot =
      b.add(b.multiply(self.index, groupBytes), b.shiftLeft(self.thread, 4));
  offset = LLVM::AddOp::create(b, offset, LLVM::ZExtOp::create(b, i64, inSlot));
  return b.element(frame.arguments.workspace, offset, b.getI8Type());
}

static Value getCounter(KernelFrame &frame, const ConsumerIdentity &self,
                        Value slot) {
  KernelBuilder &b = frame.b;
  Value index = b.add(b.multiply(slot, frame.config.consumers), self.index);
  return b.element(frame.arguments.counters, index, b.getI32Type());
}

void gemm::storePartial(KernelFrame &frame, const ConsumerIdentity &self,
                        const Item &item, ArrayRef<Value> sums) {
  KernelBuilder &b = frame.b;
  auto four = VectorType::get(4, b.getF32Type());
  Value slot = getSlot(frame, item.slot);
  Value pointer = getSlotPointer(frame, self, slot);
  for (size_t i = 0; i < sums.size(); i += 4) {
    Value vector = LLVM::UndefOp::create(b, four);
    for (int lane = 0; lane < 4; ++lane)
      vector = LLVM::InsertElementOp::create(b, vector, sums[i + lane],
                                             b.constant(lane));
    b.store(vector, b.element(pointer, 512 * i, b.getI8Type()), 16);
  }
  b.assembly("fence.acq_rel.gpu;", "~{memory}", {});
  synchronizeGroup(frame, self);
  b.ifThen(self.isLead, [&] {
    b.assembly("red.release.gpu.global.add.u32 [$0], 1;", "l,~{memory}",
               getCounter(frame, self, slot));
  });
}

/// Until the counter is not zero.
static void awaitCounter(KernelBuilder &b, Value counter) {
  auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&loop.getBefore());
  Value count = b.assembly("ld.acquire.gpu.global.b32 $0, [$1];",
                           "=r,l,~{memory}", counter, b.getI32Type());
  scf::ConditionOp::create(b, b.equal(count, int64_t(0)), ValueRange());
  b.createBlock(&loop.getAfter());
  scf::YieldOp::create(b);
}

Sums gemm::addPartials(KernelFrame &frame, const ConsumerIdentity &self,
                       const Item &item, ArrayRef<Value> sums) {
  KernelBuilder &b = frame.b;
  auto four = VectorType::get(4, b.getF32Type());
  return b.loop(
      b.constant(0), item.partials, b.constant(1), sums,
      [&](Value index, ValueRange running) {
        Value slot = getSlot(frame, b.add(item.slot, index));
        Value counter = getCounter(frame, self, slot);
        b.ifThen(self.isLead, [&] { awaitCounter(b, counter); });
        synchronizeGroup(frame, self);
        Value pointer = getSlotPointer(frame, self, slot);
        Sums added;
        for (size_t i = 0; i < running.size(); i += 4) {
          Value part =
              b.load(b.element(pointer, 512 * i, b.getI8Type()), four, 16);
          for (int lane = 0; lane < 4; ++lane)
            added.push_back(
                b.addF32(running[i + lane], b.extractElement(part, lane)));
        }
        b.ifThen(self.isLead, [&] { b.store(b.constant(0), counter, 4); });
        return added;
      });
}
