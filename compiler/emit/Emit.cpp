//===- Emit.cpp - From scheduled programs to an artifact ------------------===//
#include "compiler/emit/Emit.h"
#include "compiler/emit/Target.h"
#include "compiler/emit/artifact/Tables.h"
#include "compiler/emit/library/LibraryKernels.h"
#include "dialects/train/StepAttributes.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace lockstep::emit {
namespace {

/// One artifact in the making.
class ArtifactEmitter {
public:
  ArtifactEmitter(ModuleOp module, const EmitOptions &options,
                  const WeightStore &weights)
      : module(module), options(options), weights(weights), symbols(module),
        writer(LOCKSTEP_VERSION),
        target(Target::create(options.target, {options.deterministic})) {}

  LogicalResult run(const std::string &path);
  artifact::PlanT plan;

private:
  LogicalResult addKernels();
  LogicalResult addLibraryKernel(plan::KernelOp kernel, KernelEntry &entry);
  LogicalResult compileGenerated();
  using Alignments = llvm::DenseMap<Operation *, SmallVector<int64_t>>;
  Alignments findAlignments();
  uint32_t addTable(plan::KernelOp kernel,
                    std::unique_ptr<artifact::KernelT> table);
  void addParts(GeneratedKernel &kernel);

  ModuleOp module;
  const EmitOptions &options;
  const WeightStore &weights;
  SymbolTable symbols;
  runtime::ArtifactWriter writer;
  std::unique_ptr<Target> target;
  KernelEntries entries;
  SmallVector<GeneratedKernel> generated;
  /// Names of kernels whose rounding may change from run to run.
  std::vector<std::string> varying;
};

} // namespace

/// "file.py:12" of every operation in the region, each once, in order.
static void collectSources(Location location,
                           std::vector<std::string> &sources) {
  if (auto position = dyn_cast<FileLineColLoc>(location)) {
    std::string text =
        (position.getFilename().getValue() + ":" + Twine(position.getLine()))
            .str();
    if (!llvm::is_contained(sources, text))
      sources.push_back(std::move(text));
  } else if (auto named = dyn_cast<NameLoc>(location)) {
    collectSources(named.getChildLoc(), sources);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectSources(part, sources);
  }
}

uint32_t ArtifactEmitter::addTable(plan::KernelOp kernel,
                                   std::unique_ptr<artifact::KernelT> table) {
  table->name = kernel.getSymName().str();
  table->flops = kernel.getFlops().convertToDouble();
  table->bytes = kernel.getBytes().convertToDouble();
  collectSources(kernel.getLoc(), table->sources);
  kernel.getBody().walk(
      [&](Operation *op) { collectSources(op->getLoc(), table->sources); });
  constexpr size_t kMostSources = 8;
  if (table->sources.size() > kMostSources)
    table->sources.resize(kMostSources);
  plan.kernels.push_back(std::move(table));
  return plan.kernels.size() - 1;
}

LogicalResult ArtifactEmitter::addLibraryKernel(plan::KernelOp kernel,
                                                KernelEntry &entry) {
  FailureOr<LibraryCall> call = describeLibraryKernel(kernel);
  if (failed(call))
    return failure();
  auto table = std::make_unique<artifact::KernelT>();
  table->library = call->kernel;
  table->attributes = std::move(call->attributes);
  entry.index = addTable(kernel, std::move(table));
  entry.workItems = 1;
  entry.order = call->order;
  entry.byteOffsets = call->byteOffsets;
  return success();
}

LogicalResult ArtifactEmitter::addKernels() {
  // Only kernels that a program launches.
  llvm::SetVector<Operation *> used;
  module.walk([&](plan::LaunchOp launch) {
    used.insert(symbols.lookup(launch.getKernel()));
  });
  Alignments alignments = findAlignments();
  for (Operation *op : used) {
    auto kernel = cast<plan::KernelOp>(op);
    KernelEntry &entry = entries[kernel.getSymNameAttr()];
    if (target->usesLibrary(kernel, alignments[op])) {
      if (failed(addLibraryKernel(kernel, entry)))
        return failure();
      continue;
    }
    auto table = std::make_unique<artifact::KernelT>();
    table->symbol = kernel.getSymName().str();
    entry.index = addTable(kernel, std::move(table));
    generated.push_back(
        {kernel, kernel.getSymName().str(), {}, std::move(alignments[op])});
  }
  return compileGenerated();
}

/// Where the operands of each kernel lie is known from its launches.
ArtifactEmitter::Alignments ArtifactEmitter::findAlignments() {
  // Of the arena itself, on every device.
  constexpr int64_t kArena = 256;
  Alignments alignments;
  auto include = [](int64_t &alignment, Value operand) {
    auto buffer = operand.getDefiningOp<plan::BufferOp>();
    for (int64_t at :
         {int64_t(buffer.getOffset()), int64_t(buffer.getIterationStride())})
      alignment = int64_t(llvm::MinAlign(alignment, at));
  };
  module.walk([&](plan::LaunchOp launch) {
    auto kernel = cast<plan::KernelOp>(symbols.lookup(launch.getKernel()));
    auto [entry, isNew] = alignments.try_emplace(kernel);
    if (isNew)
      entry->second.assign(kernel.getArgumentTypes().size() +
                               kernel.getResultTypes().size(),
                           kArena);
    for (int64_t segment = 0; segment < int64_t(launch.getSegments());
         ++segment) {
      size_t next = 0;
      for (Value input : launch.getSegmentInputs(segment))
        include(entry->second[next++], input);
      for (Value output : launch.getSegmentOutputs(segment))
        include(entry->second[next++], output);
    }
  });
  return alignments;
}

static void setCode(const std::string &symbol, const KernelShape &shape,
                    KernelLaunch launch, artifact::KernelT &table) {
  table.symbol = symbol;
  table.grain = shape.grain;
  table.threads = shape.threads;
  table.shared_bytes = shape.sharedBytes;
  table.items_per_block = shape.itemsPerBlock;
  table.segmented = shape.segmented;
  table.parameters = std::move(launch.parameters);
  table.constants = std::move(launch.constants);
  table.grid = launch.grid;
  table.cluster = launch.cluster;
  table.overlap = launch.overlap;
}

/// The first part takes the kernel's place in the table, the others are added.
void ArtifactEmitter::addParts(GeneratedKernel &kernel) {
  KernelEntry &entry = entries[kernel.kernel.getSymNameAttr()];
  for (auto [i, part] : llvm::enumerate(kernel.parts)) {
    uint32_t index = entry.index;
    if (i > 0) {
      index = addTable(kernel.kernel, std::make_unique<artifact::KernelT>());
      entry.further.push_back(index);
    }
    artifact::KernelT &table = *plan.kernels[index];
    if (kernel.parts.size() > 1)
      table.name += "." + part.label;
    table.flops = part.flops;
    table.bytes = part.bytes;
    setCode(part.symbol, part.shape, std::move(part.launch), table);
  }
}

LogicalResult ArtifactEmitter::compileGenerated() {
  if (generated.empty())
    return success();
  loadEmitDialects(*module.getContext());
  std::vector<std::string> objects;
  if (failed(target->compile(module, generated, objects)))
    return failure();
  for (std::string &object : objects)
    writer.addCode(target->getName().str(), std::move(object));
  for (GeneratedKernel &kernel : generated) {
    plan::KernelOp op = kernel.kernel;
    if (kernel.varies)
      varying.push_back(op.getSymName().str());
    if (!kernel.parts.empty()) {
      addParts(kernel);
      continue;
    }
    KernelEntry &entry = entries[op.getSymNameAttr()];
    entry.workItems = kernel.shape.workItems;
    setCode(kernel.symbol, kernel.shape, std::move(kernel.launch),
            *plan.kernels[entry.index]);
  }
  return success();
}

LogicalResult ArtifactEmitter::run(const std::string &path) {
  if (!target)
    return module.emitError("unknown target '") << options.target << "'";
  plan.ranks = options.ranks;
  module.walk([&](dist::MeshOp mesh) { plan.ranks = mesh.getNumRanks(); });
  if (failed(addKernels()))
    return failure();
  std::vector<WeightBytes> alive;
  if (failed(addTensors(module, weights, writer, plan, alive)))
    return failure();
  ProgramTables tables(plan, entries, symbols);
  for (auto program : module.getOps<plan::ProgramOp>())
    if (failed(tables.add(program)))
      return failure();
  plan.communicators = tables.getCommunicators().take();
  if (failed(addRecipe(module, options, plan)))
    return failure();
  plan.summary->varying_kernels = std::move(varying);
  if (std::string tool = target->getToolVersion(); !tool.empty())
    plan.options.push_back(tool);
  Status written = writer.write(plan, path);
  if (!written.ok())
    return module.emitError(written.toString());
  return success();
}

LogicalResult emitArtifact(ModuleOp module, const EmitOptions &options,
                           const WeightStore &weights, const std::string &path,
                           artifact::PlanT *plan) {
  ArtifactEmitter emitter(module, options, weights);
  if (failed(emitter.run(path)))
    return failure();
  if (plan)
    *plan = std::move(emitter.plan);
  return success();
}

} // namespace lockstep::emit
