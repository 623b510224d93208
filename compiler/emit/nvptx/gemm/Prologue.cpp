//===- Prologue.cpp - The start of a GEMM kernel --------------------------===//
#include "compiler/emit/nvptx/gemm/KernelFrame.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

static void identify(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  Type i32 = b.getI32Type();
  frame.thread = NVVM::ThreadIdXOp::create(b, i32);
  frame.lane = b.bitAnd(frame.thread, 31);
  // The shuffle tells ptxas that the warp's index is the same in all lanes.
  frame.warp = NVVM::ShflOp::create(
      b, i32, b.constant(-1), b.shiftRight(frame.thread, 5), b.constant(0),
      b.constant(31), NVVM::ShflKind::idx, UnitAttr());
  frame.warpgroup = b.shiftRight(frame.warp, 2);
}

/// This block's items, and its place in the cluster.
static void findItems(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  Type i32 = b.getI32Type();
  frame.begin = NVVM::BlockIdXOp::create(b, i32);
  frame.step = NVVM::GridDimXOp::create(b, i32);
  if (frame.config.cluster != Cluster::None) {
    frame.rank = NVVM::ClusterId::create(b, i32);
    frame.begin = b.shiftRight(frame.begin, 1);
    frame.step = b.shiftRight(frame.step, 1);
  }
  frame.end = frame.arguments.itemCount;
  if (!frame.config.splitK)
    return;
  // Each cluster's end follows the items (TileTable.h).
  Type itemType = LLVM::LLVMArrayType::get(i32, 8);
  Value ends = b.element(frame.arguments.table, frame.end, itemType);
  frame.end = b.load(b.element(ends, frame.begin, i32), i32, 4,
                     /*invariant=*/true);
}

static void initialize(KernelFrame &frame, Value address, int count) {
  KernelBuilder &b = frame.b;
  NVVM::MBarrierInitOp::create(b, b.shared(address), b.constant(count),
                               Value());
}

static void initializeBarriers(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  const GemmConfig &config = frame.config;
  // Who reads a stage: one warpgroup at a time (ping-pong) or all, in each
  // block of the cluster, since a shared operand's halves go to both.
  int readers = getClusterSize(config) *
                (config.schedule == Schedule::PingPong ? 1 : config.consumers);
  for (int stage = 0; stage < config.stages; ++stage) {
    initialize(frame, b.add(frame.fullBarriers, 8 * stage), 1);
    initialize(frame, b.add(frame.emptyBarriers, 8 * stage), readers);
  }
  if (readsSide(config))
    for (int consumer = 0; consumer < config.consumers; ++consumer)
      initialize(frame, b.add(frame.sideBarriers, 8 * consumer), 1);
  NVVM::FenceMbarrierInitOp::create(b);
}

static void prefetchMaps(KernelFrame &frame) {
  llvm::SmallVector<Value> maps{frame.arguments.mapA, frame.arguments.mapB,
                                frame.arguments.mapD};
  if (frame.config.side != Side::None)
    maps.push_back(frame.arguments.mapSide);
  for (Value map : maps)
    NVVM::PrefetchOp::create(
        frame.b, NVVM::PrefetchCacheLevelAttr(),
        NVVM::CacheEvictionPriorityAttr(), map, /*predicate=*/Value(),
        /*tensormap=*/true, /*uniform=*/false, /*in_param_space=*/false);
}

void gemm::emitPrologue(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  const SharedLayout &layout = frame.layout;
  int stages = frame.config.stages;
  identify(frame);
  frame.fullBarriers = b.add(frame.sharedBase, layout.barrierOffset);
  frame.emptyBarriers =
      b.add(frame.sharedBase, layout.barrierOffset + 8 * stages);
  frame.sideBarriers =
      b.add(frame.sharedBase, layout.barrierOffset + 16 * stages);
  findItems(frame);
  b.ifThen(b.equal(frame.thread, int64_t(0)), [&] {
    initializeBarriers(frame);
    prefetchMaps(frame);
  });
  if (frame.config.cluster != Cluster::None) {
    NVVM::ClusterArriveOp::create(b, b.getUnitAttr());
    NVVM::ClusterWaitOp::create(b, b.getUnitAttr());
  } else {
    NVVM::BarrierOp::create(b);
  }
  if (frame.config.overlapLaunch) {
    NVVM::GriddepcontrolOp::create(b,
                                   NVVM::GridDepActionKind::launch_dependents);
    NVVM::GriddepcontrolOp::create(b, NVVM::GridDepActionKind::wait);
  }
}
