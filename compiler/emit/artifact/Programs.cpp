//===- Programs.cpp - Instructions, inputs and scalars --------------------===//
#include "compiler/emit/artifact/Tables.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;

namespace lockstep::emit {

FailureOr<artifact::DType> toDType(Type element, Location loc) {
  if (element.isF32())
    return artifact::DType::F32;
  if (element.isF64())
    return artifact::DType::F64;
  if (element.isF16())
    return artifact::DType::F16;
  if (element.isBF16())
    return artifact::DType::BF16;
  if (element.isInteger(1))
    return artifact::DType::Bool;
  if (element.isUnsignedInteger(8))
    return artifact::DType::U8;
  if (element.isInteger(8))
    return artifact::DType::I8;
  if (element.isInteger(16))
    return artifact::DType::I16;
  if (element.isInteger(32))
    return artifact::DType::I32;
  if (element.isInteger(64))
    return artifact::DType::I64;
  return emitError(loc) << "the artifact has no element type for " << element;
}

uint32_t Communicators::get(dist::MeshOp mesh, ArrayAttr axes) {
  auto [it, isNew] = known.try_emplace({mesh, axes}, table.size());
  if (!isNew)
    return it->second;
  auto communicator = std::make_unique<artifact::CommunicatorT>();
  SmallVector<StringRef> names;
  for (auto axis : axes.getAsRange<StringAttr>()) {
    names.push_back(axis.getValue());
    communicator->name += (communicator->name.empty() ? "" : ".") + axis.str();
  }
  for (const SmallVector<int64_t> &group :
       mesh.getGroups(dist::AxesAttr::get(mesh.getContext(), names))) {
    communicator->groups.push_back(std::make_unique<artifact::RankGroupT>());
    communicator->groups.back()->ranks.assign(group.begin(), group.end());
  }
  table.push_back(std::move(communicator));
  return it->second;
}

/// The range of the arena that a buffer names.
static artifact::Operand toOperand(Value value) {
  auto buffer = value.getDefiningOp<plan::BufferOp>();
  return artifact::Operand(buffer.getOffset(), buffer.getBytes(),
                           buffer.getIterationStride());
}

static RankedTensorType tensorOf(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor();
}

template <typename Table>
static std::unique_ptr<artifact::InstructionT> makeInstruction(Table table) {
  auto instruction = std::make_unique<artifact::InstructionT>();
  instruction->operation.Set(std::move(table));
  return instruction;
}

//===----------------------------------------------------------------------===//
// Inputs and scalars
//===----------------------------------------------------------------------===//

static artifact::ScalarKind scalarKind(plan::BufferOp buffer) {
  switch (*buffer.getRole()) {
  case train::Role::Rng:
    return artifact::ScalarKind::Rng;
  case train::Role::Metric:
  case train::Role::Output:
    return artifact::ScalarKind::Metric;
  default:
    return buffer->hasAttr(train::kDefaultAttr)
               ? artifact::ScalarKind::Hyperparameter
               : artifact::ScalarKind::StepDerived;
  }
}

LogicalResult ProgramTables::addBuffer(plan::BufferOp buffer,
                                       artifact::ProgramT &program) {
  if (buffer.getKind() != plan::BufferKind::Input &&
      buffer.getKind() != plan::BufferKind::Scalar)
    return success();
  std::string name = buffer.getName()->str();
  RankedTensorType type = buffer.getType().getTensor();
  FailureOr<artifact::DType> dtype =
      toDType(type.getElementType(), buffer.getLoc());
  if (failed(dtype))
    return failure();
  int64_t offset = buffer.getOffset();
  if (buffer.getKind() == plan::BufferKind::Scalar) {
    if (llvm::any_of(program.scalars,
                     [&](const auto &scalar) { return scalar->name == name; }))
      return success();
    auto scalar = std::make_unique<artifact::ScalarT>();
    scalar->name = name;
    scalar->dtype = *dtype;
    scalar->offset = offset;
    scalar->count = type.getNumElements();
    if (auto mesh = buffer->getAttrOfType<FlatSymbolRefAttr>("dist.mesh")) {
      SmallVector<Attribute> axes;
      for (dist::AxisAttr axis :
           buffer->getAttrOfType<dist::AxesAttr>("dist.axes"))
        axes.push_back(StringAttr::get(buffer.getContext(), axis.getName()));
      scalar->kind = artifact::ScalarKind::Coordinate;
      scalar->communicator =
          communicators.get(symbols.lookup<dist::MeshOp>(mesh.getValue()),
                            ArrayAttr::get(buffer.getContext(), axes));
    } else {
      scalar->kind = scalarKind(buffer);
    }
    program.scalars.push_back(std::move(scalar));
    return success();
  }
  if (llvm::any_of(program.inputs,
                   [&](const auto &input) { return input->name == name; }))
    return success();
  auto input = std::make_unique<artifact::InputT>();
  input->name = name;
  input->dtype = *dtype;
  input->local_shape.assign(type.getShape().begin(), type.getShape().end());
  input->global_shape = input->local_shape;
  input->whole = buffer->hasAttr(train::TrainDialect::kWholeAttr);
  if (!input->whole && !input->global_shape.empty())
    input->global_shape[0] *= plan.ranks;
  input->offset = offset;
  input->bytes = buffer.getBytes();
  input->is_labels = buffer.getRole() == train::Role::Label;
  if (auto vocabulary =
          buffer->getAttrOfType<IntegerAttr>(train::kVocabularyAttr))
    input->vocabulary = vocabulary.getInt();
  if (buffer->hasAttr(train::kFromEndAttr))
    input->least = -input->vocabulary;
  if (auto ignored =
          buffer->getAttrOfType<IntegerAttr>(train::kIgnoredLabelAttr))
    input->ignore_index = ignored.getInt();
  program.inputs.push_back(std::move(input));
  return success();
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

LogicalResult ProgramTables::addLaunch(plan::LaunchOp launch,
                                       Instructions &instructions) {
  const KernelEntry &kernel =
      kernels.find(launch.getKernelAttr().getAttr())->second;
  artifact::LaunchT table;
  table.kernel = kernel.index;
  for (int64_t segment = 0;
       segment < static_cast<int64_t>(launch.getSegments()); ++segment) {
    SmallVector<Value> operands =
        llvm::to_vector(launch.getSegmentInputs(segment));
    llvm::append_range(operands, launch.getSegmentOutputs(segment));
    auto row = std::make_unique<artifact::SegmentT>();
    row->work_items = kernel.workItems > 0
                          ? kernel.workItems
                          : tensorOf(launch.getSegmentOutputs(segment).front())
                                .getNumElements();
    if (kernel.order.empty())
      for (Value operand : operands)
        row->arguments.push_back(toOperand(operand));
    for (auto [position, skipped] :
         llvm::zip_equal(kernel.order, kernel.byteOffsets)) {
      artifact::Operand whole = toOperand(operands[position]);
      row->arguments.emplace_back(whole.offset() + skipped,
                                  whole.bytes() - skipped,
                                  whole.iteration_stride());
    }
    table.segments.push_back(std::move(row));
  }
  for (uint32_t index : kernel.further) {
    artifact::LaunchT before(table);
    table.kernel = index;
    instructions.push_back(makeInstruction(std::move(before)));
  }
  instructions.push_back(makeInstruction(std::move(table)));
  return success();
}

LogicalResult ProgramTables::addCollective(plan::CollectiveStartOp start,
                                           Instructions &instructions) {
  static constexpr artifact::CollectiveKind kinds[] = {
      artifact::CollectiveKind::AllReduce, artifact::CollectiveKind::AllGather,
      artifact::CollectiveKind::ReduceScatter,
      artifact::CollectiveKind::Broadcast, artifact::CollectiveKind::Barrier};
  artifact::CollectiveStartT table;
  table.id = start.getId();
  table.kind = kinds[static_cast<int>(start.getKind())];
  table.communicator = communicators.get(
      symbols.lookup<dist::MeshOp>(start.getMesh()), start.getAxes());
  if (std::optional<train::ReduceKind> reduction = start.getReduction())
    table.reduction =
        *reduction == train::ReduceKind::Sum   ? artifact::Reduction::Sum
        : *reduction == train::ReduceKind::Max ? artifact::Reduction::Max
                                               : artifact::Reduction::Min;
  table.root = start.getRoot().value_or(0);
  if (!start.getInputs().empty()) {
    FailureOr<artifact::DType> dtype = toDType(
        tensorOf(start.getInputs().front()).getElementType(), start.getLoc());
    if (failed(dtype))
      return failure();
    table.dtype = *dtype;
  }
  for (Value input : start.getInputs())
    table.inputs.push_back(toOperand(input));
  for (Value output : start.getOutputs())
    table.outputs.push_back(toOperand(output));
  table.name = (plan::stringifyCollectiveKind(start.getKind()) + "." +
                Twine(start.getId()))
                   .str();
  instructions.push_back(makeInstruction(std::move(table)));
  return success();
}

/// Copies and fills are library kernels, one per size.
void ProgramTables::addLibraryCall(artifact::LibraryKernel library,
                                   StringRef name, int64_t bytes,
                                   ArrayRef<Value> operands,
                                   Instructions &instructions) {
  auto [it, isNew] = libraryCalls.try_emplace(
      {static_cast<int>(library), bytes}, plan.kernels.size());
  if (isNew) {
    auto kernel = std::make_unique<artifact::KernelT>();
    kernel->name = (name + "_" + Twine(bytes)).str();
    kernel->library = library;
    kernel->attributes.push_back(std::make_unique<artifact::AttributeT>());
    kernel->attributes.back()->name = "bytes";
    kernel->attributes.back()->ints = {bytes};
    kernel->bytes = static_cast<double>(bytes) * operands.size();
    plan.kernels.push_back(std::move(kernel));
  }
  artifact::LaunchT table;
  table.kernel = it->second;
  table.segments.push_back(std::make_unique<artifact::SegmentT>());
  for (Value operand : operands)
    table.segments.back()->arguments.push_back(toOperand(operand));
  instructions.push_back(makeInstruction(std::move(table)));
}

LogicalResult ProgramTables::addBlock(Block &block,
                                      Instructions &instructions) {
  for (Operation &op : block) {
    if (isa<plan::BufferOp>(op))
      continue;
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      if (failed(addLaunch(launch, instructions)))
        return failure();
    } else if (auto start = dyn_cast<plan::CollectiveStartOp>(op)) {
      if (failed(addCollective(start, instructions)))
        return failure();
    } else if (auto wait = dyn_cast<plan::CollectiveWaitOp>(op)) {
      artifact::CollectiveWaitT table;
      table.id = wait.getId();
      instructions.push_back(makeInstruction(std::move(table)));
    } else if (auto copy = dyn_cast<plan::CopyOp>(op)) {
      addLibraryCall(
          artifact::LibraryKernel::Copy, "copy",
          copy.getSource().getDefiningOp<plan::BufferOp>().getBytes(),
          {copy.getSource(), copy.getDestination()}, instructions);
    } else if (auto fill = dyn_cast<plan::FillOp>(op)) {
      addLibraryCall(
          artifact::LibraryKernel::Fill, "fill",
          fill.getDestination().getDefiningOp<plan::BufferOp>().getBytes(),
          {fill.getDestination()}, instructions);
    } else if (auto loop = dyn_cast<plan::LoopOp>(op)) {
      artifact::LoopT table;
      table.count = loop.getSteps();
      if (failed(addBlock(loop.getBody().front(), table.body)))
        return failure();
      instructions.push_back(makeInstruction(std::move(table)));
    } else {
      return op.emitError(
                 "expected an operation of a scheduled program, but got ")
             << op.getName();
    }
  }
  return success();
}

LogicalResult ProgramTables::add(plan::ProgramOp source) {
  auto program = std::make_unique<artifact::ProgramT>();
  program->name = source.getEntry().str();
  program->arena_bytes = source.getArenaBytes();
  program->accumulation_steps = source.getAccumulationSteps();
  // Inputs inside of a loop repeat one outside under a stride, or stand for it:
  // the outermost is the whole.
  WalkResult walked =
      source.walk<WalkOrder::PreOrder>([&](plan::BufferOp buffer) {
        return isa<plan::LoopOp>(buffer->getParentOp())
                   ? WalkResult::advance()
                   : WalkResult(addBuffer(buffer, *program));
      });
  if (walked.wasInterrupted() ||
      failed(addBlock(source.getBody().front(), program->instructions)))
    return failure();
  plan.programs.push_back(std::move(program));
  return success();
}

} // namespace lockstep::emit
