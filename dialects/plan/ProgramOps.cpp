//===- ProgramOps.cpp - Programs on memory: verification ------------------===//
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/Plan.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

/// (C2) within one block, and recursively in loops.
static LogicalResult verifyCollectives(Block &block,
                                       llvm::DenseSet<int64_t> &ids) {
  llvm::SmallVector<CollectiveStartOp> pending;
  for (Operation &op : block) {
    if (auto start = dyn_cast<CollectiveStartOp>(op)) {
      if (!ids.insert(start.getId()).second)
        return start.emitOpError("(C2) expected distinct collective ids, but ")
               << start.getId() << " starts twice";
      pending.push_back(start);
    } else if (auto wait = dyn_cast<CollectiveWaitOp>(op)) {
      auto *it = llvm::find_if(pending, [&](CollectiveStartOp start) {
        return start.getId() == wait.getId();
      });
      if (it == pending.end())
        return wait.emitOpError("(C2) expected a collective in flight, but ")
               << wait.getId() << " is not";
      pending.erase(it);
    } else if (auto loop = dyn_cast<LoopOp>(op)) {
      if (failed(verifyCollectives(loop.getBody().front(), ids)))
        return failure();
    }
  }
  if (!pending.empty())
    return pending.front().emitOpError("(C2) expected a wait for collective ")
           << pending.front().getId();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t arena = getArenaBytes();
  auto check = [&](BufferOp buffer) -> WalkResult {
    int64_t steps = 1;
    if (auto loop = buffer->getParentOfType<LoopOp>())
      steps = loop.getSteps();
    int64_t end = buffer.getOffset() +
                  (steps - 1) * buffer.getIterationStride() + buffer.getBytes();
    if (end > arena)
      return buffer.emitOpError("(C1) expected to end within the arena of ")
             << arena << " bytes, but ends at " << end;
    return WalkResult::advance();
  };
  if (getBody().walk(check).wasInterrupted())
    return failure();
  llvm::DenseSet<int64_t> ids;
  return verifyCollectives(getBody().front(), ids);
}

LogicalResult BufferOp::verify() {
  int64_t offset = getOffset(), stride = getIterationStride();
  int64_t size = getType().getBytes() /
                 std::max<int64_t>(1, getType().getTensor().getNumElements());
  if (offset < 0 || stride < 0 || (size > 0 && offset % size))
    return emitOpError("(C1) expected an offset that is a multiple of ")
           << size << " and a stride that is not negative, but got " << offset
           << " and " << stride;
  if (getKind() != BufferKind::Temporary && !getName())
    return emitOpError("(C2) expected a name for a ")
           << stringifyBufferKind(getKind()) << " buffer";
  if (stride != 0 && !(*this)->getParentOfType<LoopOp>())
    return emitOpError("(C3) expected an iteration stride only in a loop");
  return success();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

OperandRange LaunchOp::getSegmentInputs(int64_t segment) {
  int64_t size = getInputs().size() / getSegments();
  return getInputs().slice(segment * size, size);
}

OperandRange LaunchOp::getSegmentOutputs(int64_t segment) {
  int64_t size = getOutputs().size() / getSegments();
  return getOutputs().slice(segment * size, size);
}

LogicalResult LaunchOp::verify() {
  int64_t segments = getSegments();
  if (segments < 1 || getInputs().size() % segments ||
      getOutputs().size() % segments)
    return emitOpError("(C1) expected segments that divide ")
           << getInputs().size() << " inputs and " << getOutputs().size()
           << " outputs, but got " << segments;
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto kernel =
      symbolTable.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("(C2) expected a plan.kernel, but '")
           << getKernel() << "' is none";
  auto tensors = [](OperandRange buffers) {
    return llvm::map_to_vector(buffers, [](Value buffer) -> Type {
      return cast<BufferType>(buffer.getType()).getTensor();
    });
  };
  for (int64_t segment = 0; segment < static_cast<int64_t>(getSegments());
       ++segment) {
    int64_t elements = -1;
    if (failed(verifyKernelTypes(*this, kernel, kernel.getArgumentTypes(),
                                 tensors(getSegmentInputs(segment)), elements,
                                 "input")) ||
        failed(verifyKernelTypes(*this, kernel, kernel.getResultTypes(),
                                 tensors(getSegmentOutputs(segment)), elements,
                                 "output")))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives, loops, copies
//===----------------------------------------------------------------------===//

LogicalResult CollectiveStartOp::verify() {
  bool reduces = getKind() == CollectiveKind::AllReduce ||
                 getKind() == CollectiveKind::ReduceScatter;
  if (getReduction().has_value() != reduces)
    return emitOpError(
        "(C2) expected a reduction exactly for all_reduce and reduce_scatter");
  if (reduces && *getReduction() != train::ReduceKind::Sum &&
      *getReduction() != train::ReduceKind::Max &&
      *getReduction() != train::ReduceKind::Min)
    return emitOpError("(C2) expected sum, max or min, but got ")
           << train::stringifyReduceKind(*getReduction());
  if (getInputs().size() != getOutputs().size())
    return emitOpError("(C1) expected as many inputs as outputs, but got ")
           << getInputs().size() << " and " << getOutputs().size();
  for (auto [input, output] : llvm::zip_equal(getInputs(), getOutputs())) {
    auto from = cast<BufferType>(input.getType()),
         to = cast<BufferType>(output.getType());
    auto element = cast<BufferType>(getInputs().front().getType())
                       .getTensor()
                       .getElementType();
    if (from.getTensor().getElementType() != element ||
        to.getTensor().getElementType() != element)
      return emitOpError("(C1) expected one element type, but got ")
             << from.getTensor() << " and " << to.getTensor();
    int64_t a = from.getBytes(), b = to.getBytes();
    bool sizesMatch =
        getKind() == CollectiveKind::AllGather       ? a != 0 && b % a == 0
        : getKind() == CollectiveKind::ReduceScatter ? b != 0 && a % b == 0
                                                     : a == b;
    if (!sizesMatch)
      return emitOpError("(C1) expected sizes that fit ")
             << stringifyCollectiveKind(getKind()) << ", but got "
             << from.getTensor() << " and " << to.getTensor();
  }
  return success();
}

LogicalResult LoopOp::verify() {
  if (static_cast<int64_t>(getSteps()) < 1)
    return emitOpError("(C1) expected at least 1 step, but got ")
           << static_cast<int64_t>(getSteps());
  return success();
}

LogicalResult CopyOp::verify() {
  auto from = cast<BufferType>(getSource().getType()),
       to = cast<BufferType>(getDestination().getType());
  if (from.getBytes() != to.getBytes())
    return emitOpError("(C1) expected buffers of one size, but got ")
           << from.getBytes() << " and " << to.getBytes() << " bytes";
  auto source = getSource().getDefiningOp<BufferOp>(),
       destination = getDestination().getDefiningOp<BufferOp>();
  if (source && destination && source.getIterationStride() == 0 &&
      destination.getIterationStride() == 0 &&
      source.getOffset() < destination.getOffset() + to.getBytes() &&
      destination.getOffset() < source.getOffset() + from.getBytes())
    return emitOpError(
               "(C1) expected buffers that do not overlap, but got offsets ")
           << source.getOffset() << " and " << destination.getOffset();
  return success();
}
