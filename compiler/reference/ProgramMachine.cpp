//===- ProgramMachine.cpp - Runs a scheduled program in real memory
//----------------===//
#include "compiler/reference/ProgramMachine.h"
#include "compiler/reference/EvaluateSupport.h"
#include <cstring>

using namespace mlir;

namespace lockstep {

static RankedTensorType getTensorType(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor();
}

SmallVector<NamedBuffer> getNamedBuffers(plan::ProgramOp program) {
  SmallVector<NamedBuffer> buffers;
  program.walk([&](plan::BufferOp op) {
    if (op.getKind() == plan::BufferKind::Temporary || !op.getName())
      return;
    RankedTensorType type = getTensorType(op.getResult());
    auto loop = op->getParentOfType<plan::LoopOp>();
    if (loop && op.getIterationStride() != 0 && type.getRank() > 0) {
      SmallVector<int64_t> shape(type.getShape());
      shape[0] *= int64_t(loop.getSteps());
      type = RankedTensorType::get(shape, type.getElementType());
    }
    NamedBuffer buffer{op.getName()->str(),
                       op.getKind(),
                       op.getRole(),
                       type,
                       int64_t(op.getOffset()),
                       op->getAttrOfType<FlatSymbolRefAttr>("dist.mesh"),
                       op->getAttrOfType<dist::AxesAttr>("dist.axes")};
    bool known = llvm::any_of(buffers, [&](const NamedBuffer &other) {
      return other.name == buffer.name && other.kind == buffer.kind &&
             other.role == buffer.role;
    });
    if (!known)
      buffers.push_back(buffer);
  });
  return buffers;
}

ProgramMachine::ProgramMachine(plan::ProgramOp program, int64_t ranks)
    : program(program), ranks(ranks),
      arenas(ranks, std::vector<char>(program.getArenaBytes(), char(0xff))),
      interpreter(ranks) {}

//===--- Memory ---===//

static HostTensor readBytes(const std::vector<char> &arena, int64_t offset,
                            RankedTensorType type) {
  int64_t bytes = type.getNumElements() *
                  HostTensor::getElementBytes(type.getElementType());
  return HostTensor::copy(type, ArrayRef(arena).slice(offset, bytes));
}

static void writeBytes(std::vector<char> &arena, int64_t offset,
                       const HostTensor &tensor) {
  HostTensor all = tensor.expand();
  std::memcpy(&arena[offset], all.getData(), all.getNumBytes());
}

void ProgramMachine::write(const NamedBuffer &buffer, int64_t rank,
                           const HostTensor &tensor) {
  writeBytes(arenas[rank], buffer.offset, tensor);
}

HostTensor ProgramMachine::read(const NamedBuffer &buffer, int64_t rank) const {
  return readBytes(arenas[rank], buffer.offset, buffer.type);
}

ProgramMachine::Range ProgramMachine::getRange(Value buffer,
                                               int64_t iteration) const {
  plan::BufferOp op = getBuffer(buffer);
  int64_t begin =
      int64_t(op.getOffset()) + iteration * int64_t(op.getIterationStride());
  return {begin, begin + op.getBytes()};
}

HostTensor ProgramMachine::load(Value buffer, int64_t rank,
                                int64_t iteration) const {
  return readBytes(arenas[rank], getRange(buffer, iteration).begin,
                   getTensorType(buffer));
}

void ProgramMachine::store(Value buffer, int64_t rank, int64_t iteration,
                           const HostTensor &tensor) {
  writeBytes(arenas[rank], getRange(buffer, iteration).begin, tensor);
}

//===--- Operations ---===//

LogicalResult ProgramMachine::run() {
  underWay.clear();
  return runBlock(program.getBody().front(), 0);
}

LogicalResult ProgramMachine::runBlock(Block &block, int64_t iteration) {
  for (Operation &op : block) {
    LogicalResult result =
        TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([](plan::BufferOp) { return success(); })
            .Case([&](plan::LaunchOp op) { return runLaunch(op, iteration); })
            .Case([&](plan::CollectiveStartOp op) {
              return runCollectiveStart(op, iteration);
            })
            .Case([&](plan::CollectiveWaitOp op) {
              return runCollectiveWait(op);
            })
            .Case([&](plan::LoopOp op) {
              for (int64_t k = 0, steps = op.getSteps(); k < steps; ++k)
                if (failed(runBlock(op.getBody().front(), k)))
                  return failure();
              return success();
            })
            .Case([&](plan::CopyOp op) {
              for (int64_t rank = 0; rank < ranks; ++rank) {
                Range from = getRange(op.getSource(), iteration),
                      to = getRange(op.getDestination(), iteration);
                std::memmove(&arenas[rank][to.begin], &arenas[rank][from.begin],
                             from.end - from.begin);
              }
              return checkUntouched(op,
                                    getRange(op.getDestination(), iteration));
            })
            .Case([&](plan::FillOp op) {
              Range range = getRange(op.getDestination(), iteration);
              for (std::vector<char> &arena : arenas)
                std::fill(arena.begin() + range.begin,
                          arena.begin() + range.end, 0);
              return checkUntouched(op, range);
            })
            .Default([](Operation *op) {
              return op->emitError("the reference interpreter cannot run '")
                     << op->getName() << "'";
            });
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult ProgramMachine::runLaunch(plan::LaunchOp op, int64_t iteration) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<plan::KernelOp>(op, op.getKernelAttr());
  if (!kernel)
    return op.emitError("expected a kernel, but got '")
           << op.getKernel() << "'";
  if (failed(checkLaunch(op, kernel, iteration)))
    return failure();
  for (int64_t segment = 0, segments = op.getSegments(); segment < segments;
       ++segment) {
    SmallVector<RankTensors> inputs;
    for (Value input : op.getSegmentInputs(segment)) {
      inputs.emplace_back();
      for (int64_t rank = 0; rank < ranks; ++rank)
        inputs.back().push_back(load(input, rank, iteration));
    }
    SmallVector<Type> types =
        llvm::map_to_vector(op.getSegmentOutputs(segment),
                            [](Value v) -> Type { return getTensorType(v); });
    FailureOr<SmallVector<RankTensors>> results =
        interpreter.runKernel(kernel, inputs, types);
    if (failed(results))
      return failure();
    for (auto [output, tensors] :
         llvm::zip_equal(op.getSegmentOutputs(segment), *results))
      for (int64_t rank = 0; rank < ranks; ++rank)
        store(output, rank, iteration, tensors[rank]);
  }
  return success();
}

LogicalResult ProgramMachine::checkLaunch(plan::LaunchOp op,
                                          plan::KernelOp kernel,
                                          int64_t iteration) {
  struct Operand {
    Range range;
    int64_t segment;
    unsigned index;
    bool written;
  };
  SmallVector<Operand> all;
  for (int64_t segment = 0, segments = op.getSegments(); segment < segments;
       ++segment) {
    for (auto [i, value] : llvm::enumerate(op.getSegmentInputs(segment)))
      all.push_back({getRange(value, iteration), segment, unsigned(i), false});
    for (auto [i, value] : llvm::enumerate(op.getSegmentOutputs(segment)))
      all.push_back({getRange(value, iteration), segment, unsigned(i), true});
  }
  for (const Operand &a : all)
    if (a.range.begin < 0 || a.range.end > int64_t(program.getArenaBytes()))
      return op.emitError("expected operands inside the arena of ")
             << program.getArenaBytes() << " bytes";
  // Sorted by position: what overlaps operand i begins before its end.
  llvm::sort(all, [](const Operand &a, const Operand &b) {
    return a.range.begin < b.range.begin;
  });
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].written && failed(checkUntouched(op, all[i].range)))
      return failure();
    for (size_t j = i + 1;
         j < all.size() && all[j].range.begin < all[i].range.end; ++j) {
      const Operand &a = all[i], &b = all[j];
      if ((!a.written && !b.written) || !a.range.overlaps(b.range))
        continue;
      const Operand &output = a.written ? a : b, &other = a.written ? b : a;
      bool allowed = a.segment == b.segment && !other.written &&
                     a.range == b.range &&
                     plan::canWriteOver(kernel, other.index, output.index);
      if (!allowed)
        return op.emitError("output ")
               << output.index << " of segment " << output.segment
               << " overlaps " << (other.written ? "output " : "input ")
               << other.index << " of segment " << other.segment << ", which @"
               << kernel.getSymName() << " does not allow";
    }
  }
  return success();
}

/// Nothing may write into the operands of a collective that is under way.
LogicalResult ProgramMachine::checkUntouched(Operation *op,
                                             const Range &written) {
  for (auto &[id, collective] : underWay)
    for (const SmallVector<Range> *ranges :
         {&collective.inputs, &collective.outputs})
      for (const Range &range : *ranges)
        if (range.overlaps(written))
          return op->emitError("writes bytes ")
                 << written.begin << " to " << written.end
                 << " while collective " << id << " is under way there";
  return success();
}

} // namespace lockstep
