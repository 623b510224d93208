//===- BuildProgram.cpp - Steps become a plan.program ---------------------===//
#include "compiler/schedule/BuildProgram.h"
#include "dialects/train/StepAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

namespace {

class ProgramBuilder {
public:
  ProgramBuilder(const SharedLayout &shared, int numShared,
                 ArrayRef<int64_t> offsets, plan::ProgramOp program)
      : shared(shared), numShared(numShared), offsets(offsets),
        block(program.getBody().front()),
        builder(OpBuilder::atBlockEnd(&block)) {}

  /// Parameters, inputs and scalars, whether used or not, are the tables that
  /// the runtime fills and reads.
  void declareShared(Location loc) {
    for (const SharedBuffer &buffer : shared.getBuffers()) {
      plan::BufferOp op =
          createBuffer(loc, plan::BufferType::get(buffer.type), buffer.kind,
                       buffer.name, buffer.role, buffer.offset);
      op->setDiscardableAttrs(buffer.attributes);
      known[{buffer.offset, 0, op.getType().getAsOpaquePointer()}] = op;
    }
  }

  void build(ArrayRef<Step> steps) {
    for (const Step &step : steps)
      build(step);
  }

private:
  /// At the head of the program, in the order of creation.
  plan::BufferOp createBuffer(Location loc, plan::BufferType type,
                              plan::BufferKind kind, StringAttr name,
                              train::RoleAttr role, int64_t offset) {
    OpBuilder::InsertionGuard guard(builder);
    if (lastBuffer)
      builder.setInsertionPointAfter(lastBuffer);
    else
      builder.setInsertionPointToStart(&block);
    auto op =
        plan::BufferOp::create(builder, loc, type, kind, name, role, offset, 0);
    lastBuffer = op;
    return op;
  }

  Value getBuffer(const Operand &operand) {
    const Place &place = operand.place;
    int64_t base = place.storage < numShared
                       ? shared[place.storage].offset
                       : shared.getBytes() + offsets[place.storage - numShared];
    auto type = plan::BufferType::get(operand.type);
    Value &buffer =
        known[{base + place.offset, place.stride, type.getAsOpaquePointer()}];
    if (buffer)
      return buffer;
    // What moves with the iteration belongs to the loop.
    if (place.stride)
      buffer = plan::BufferOp::create(
          builder, builder.getUnknownLoc(), type, plan::BufferKind::Temporary,
          StringAttr(), train::RoleAttr(), base + place.offset, place.stride);
    else
      buffer = createBuffer(builder.getUnknownLoc(), type,
                            plan::BufferKind::Temporary, StringAttr(),
                            train::RoleAttr(), base + place.offset);
    return buffer;
  }
  SmallVector<Value> getBuffers(ArrayRef<Operand> operands) {
    return llvm::map_to_vector(
        operands, [&](const Operand &operand) { return getBuffer(operand); });
  }

  void build(const Step &step) {
    SmallVector<Value> inputs = getBuffers(step.inputs),
                       outputs = getBuffers(step.outputs);
    switch (step.kind) {
    case Step::Kind::Launch:
      plan::LaunchOp::create(
          builder, step.loc, FlatSymbolRefAttr::get(step.kernel),
          builder.getI64IntegerAttr(step.segments), inputs, outputs);
      break;
    case Step::Kind::Start:
      buildStart(step, inputs, outputs);
      break;
    case Step::Kind::Wait:
      plan::CollectiveWaitOp::create(builder, step.loc, step.id);
      break;
    case Step::Kind::Copy:
      plan::CopyOp::create(builder, step.loc, inputs.front(), outputs.front());
      break;
    case Step::Kind::Fill:
      plan::FillOp::create(builder, step.loc, outputs.front());
      break;
    case Step::Kind::Loop: {
      auto loop = plan::LoopOp::create(builder, step.loc, step.count);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&loop.getBody().emplaceBlock());
      auto outside = known;
      build(step.body);
      // Buffers of the loop's own are not visible behind it; those without a
      // stride stand before everything.
      for (auto &[key, value] : known)
        if (std::get<1>(key) == 0)
          outside[key] = value;
      known = std::move(outside);
      break;
    }
    }
  }

  void buildStart(const Step &step, ValueRange inputs, ValueRange outputs) {
    auto collective = cast<dist::CollectiveOpInterface>(step.collective);
    SmallVector<Attribute> axes;
    for (dist::AxisAttr axis : collective.getCollectiveAxes()) {
      std::string name = axis.getName().str();
      if (!axis.isWhole())
        name += ":(" + std::to_string(axis.getPreSize()) + ")" +
                std::to_string(axis.getSize());
      axes.push_back(builder.getStringAttr(name));
    }
    using Kind = plan::CollectiveKind;
    train::ReduceKindAttr reduction;
    IntegerAttr root;
    Kind kind = llvm::TypeSwitch<Operation *, Kind>(step.collective)
                    .Case<dist::AllReduceOp>([&](auto op) {
                      return reduction = op.getKindAttr(), Kind::AllReduce;
                    })
                    .Case<dist::ReduceScatterOp>([&](auto op) {
                      return reduction = op.getKindAttr(), Kind::ReduceScatter;
                    })
                    .Case<dist::BroadcastOp>([&](auto op) {
                      return root = op.getRootAttr(), Kind::Broadcast;
                    })
                    .Default([](auto) { return Kind::AllGather; });
    plan::CollectiveStartOp::create(
        builder, step.loc,
        plan::CollectiveKindAttr::get(builder.getContext(), kind),
        builder.getI64IntegerAttr(step.id), reduction,
        collective.getCollectiveMesh(), builder.getArrayAttr(axes), root,
        inputs, outputs);
  }

  const SharedLayout &shared;
  int numShared;
  ArrayRef<int64_t> offsets;
  Block &block;
  OpBuilder builder;
  Operation *lastBuffer = nullptr;
  std::map<std::tuple<int64_t, int64_t, const void *>, Value> known;
};

} // namespace

plan::ProgramOp schedule::buildProgram(func::FuncOp function,
                                       const SharedLayout &shared,
                                       MemoryPlanner &planner,
                                       ArrayRef<int64_t> offsets,
                                       int64_t arenaBytes) {
  OpBuilder builder(function);
  int64_t accumulation = 1;
  if (auto attribute =
          function->getAttrOfType<IntegerAttr>(train::kAccumulationStepsAttr))
    accumulation = attribute.getInt();
  int64_t peak = shared.getBytes() + getPeak(planner.getLifetimes()).first;
  auto program = plan::ProgramOp::create(
      builder, function.getLoc(), function.getSymName(), function.getSymName(),
      "all", arenaBytes, accumulation, shared.getPersistentBytes(), peak);
  program.getBody().emplaceBlock();
  // What the function said about itself (the learning rate's schedule).
  for (NamedAttribute attribute : function->getDiscardableAttrs())
    program->setDiscardableAttr(attribute.getName(), attribute.getValue());
  ProgramBuilder steps(shared, planner.getNumShared(), offsets, program);
  steps.declareShared(function.getLoc());
  steps.build(planner.getSteps());
  return program;
}
