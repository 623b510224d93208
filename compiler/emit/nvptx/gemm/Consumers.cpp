//===- Consumers.cpp - The warpgroups that multiply and store -------------===//
#include "compiler/emit/nvptx/gemm/Consumers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

void gemm::synchronizeGroup(KernelFrame &frame, const ConsumerIdentity &self) {
  frame.b.barrier(frame.b.add(self.index, firstGroupBarrier), 128);
}

static ConsumerIdentity identify(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  ConsumerIdentity self;
  self.index = b.subtract(frame.warpgroup, b.constant(1));
  self.thread = b.bitAnd(frame.thread, 127);
  self.warp = b.bitAnd(frame.warp, 3);
  self.isLead = b.equal(self.thread, int64_t(0));
  return self;
}

namespace {
/// Ping-pong: warpgroup w takes every second item, from item w on, and the two
/// run their main loops in turns. Without turns a warpgroup could fall two
/// rounds of the ring behind, and parities would mean the wrong round.
class Turns {
public:
  Turns(KernelFrame &frame, const ConsumerIdentity &self)
      : frame(frame), b(frame.b), self(self) {
    // The first turn is warpgroup 0's: as if 1 had just passed it on.
    b.ifThen(b.equal(self.index, 1),
             [&] { b.arriveAtBarrier(b.constant(firstOrderBarrier), 256); });
    own = b.add(self.index, firstOrderBarrier);
    other = b.subtract(b.constant(firstOrderBarrier + 1), self.index);
  }
  void await() { b.barrier(own, 256); }
  void pass() { b.arriveAtBarrier(other, 256); }
  /// Warpgroup 1 begins where warpgroup 0's first item ends.
  StagePosition getFirstPosition() {
    Value zero = b.constant(0);
    StagePosition after =
        skip(frame, {zero, zero}, loadItemBlocks(frame, frame.begin));
    Value isFirst = b.equal(self.index, int64_t(0));
    return {b.select(isFirst, zero, after.stage),
            b.select(isFirst, zero, after.parity)};
  }

private:
  KernelFrame &frame;
  KernelBuilder &b;
  const ConsumerIdentity &self;
  Value own, other;
};
} // namespace

/// Split K: a partial sum goes to the workspace; else the epilogue runs, after
/// the other slices' sums were added.
static void emitSplitStore(KernelFrame &frame, const ConsumerIdentity &self,
                           Epilogue &epilogue, const Item &item,
                           const Sums &sums, ArrayRef<Value> bias,
                           Value sideParity) {
  KernelBuilder &b = frame.b;
  Value isPartial = b.equal(item.kind, 1);
  b.ifThenElse(
      isPartial, {},
      [&]() -> KernelBuilder::Values {
        storePartial(frame, self, item, sums);
        return {};
      },
      [&]() -> KernelBuilder::Values {
        Sums whole = addPartials(frame, self, item, sums);
        epilogue.store(item, whole, bias, sideParity);
        return {};
      });
}

void gemm::emitConsumers(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  const GemmConfig &config = frame.config;
  NVVM::SetMaxRegisterOp::create(b, config.consumerRegisters,
                                 NVVM::SetMaxRegisterAction::increase);
  ConsumerIdentity self = identify(frame);
  MainLoop mainLoop(frame, self);
  Epilogue epilogue(frame, self);
  std::optional<Turns> turns;
  Value zero = b.constant(0);
  StagePosition first{zero, zero};
  Value begin = frame.begin, step = frame.step;
  if (config.schedule == Schedule::PingPong) {
    turns.emplace(frame, self);
    first = turns->getFirstPosition();
    begin = b.add(frame.begin, b.multiply(self.index, frame.step));
    step = b.shiftLeft(frame.step, 1);
  }
  b.loop(begin, frame.end, step, {first.stage, first.parity, zero},
         [&](Value index, ValueRange carried) -> KernelBuilder::Values {
           Value othersBlocks;
           if (turns)
             othersBlocks = loadItemBlocks(frame, b.add(index, frame.step));
           Item item = loadItem(frame, index);
           epilogue.fetchSide(item);
           if (turns)
             turns->await();
           mainLoop.run(item, {carried[0], carried[1]});
           StagePosition next = mainLoop.getNext();
           if (turns) {
             next = skip(frame, next, othersBlocks);
             turns->pass();
           }
           SmallVector<Value> bias = epilogue.loadBias(item);
           Sums sums = mainLoop.finish();
           if (config.splitK)
             emitSplitStore(frame, self, epilogue, item, sums, bias,
                            carried[2]);
           else
             epilogue.store(item, sums, bias, carried[2]);
           Value sideParity = carried[2];
           if (readsSide(config))
             sideParity = b.bitXor(sideParity, 1);
           return {next.stage, next.parity, sideParity};
         });
  epilogue.finish();
}
