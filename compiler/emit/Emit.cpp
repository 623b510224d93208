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
        writer(LOCKSTEP_VERSION) {}

  LogicalResult run(const std::string &path);
  artifact::PlanT plan;

private:
  LogicalResult addKernels();
  LogicalResult addLibraryKernel(plan::KernelOp kernel, KernelEntry &entry);
  LogicalResult compileGenerated();
  uint32_t addTable(plan::KernelOp kernel,
                    std::unique_ptr<artifact::KernelT> table);

  ModuleOp module;
  const EmitOptions &options;
  const WeightStore &weights;
  SymbolTable symbols;
  runtime::ArtifactWriter writer;
  KernelEntries entries;
  SmallVector<GeneratedKernel> generated;
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
  for (Operation *op : used) {
    auto kernel = cast<plan::KernelOp>(op);
    KernelEntry &entry = entries[kernel.getSymNameAttr()];
    if (isLibraryKind(kernel.getKind())) {
      if (failed(addLibraryKernel(kernel, entry)))
        return failure();
      continue;
    }
    auto table = std::make_unique<artifact::KernelT>();
    table->symbol = kernel.getSymName().str();
    entry.index = addTable(kernel, std::move(table));
    generated.push_back({kernel, kernel.getSymName().str(), {}});
  }
  return compileGenerated();
}

LogicalResult ArtifactEmitter::compileGenerated() {
  if (generated.empty())
    return success();
  std::unique_ptr<Target> target = Target::create(options.target);
  if (!target)
    return module.emitError("unknown target '") << options.target << "'";
  loadEmitDialects(*module.getContext());
  std::string object;
  if (failed(target->compile(module, generated, object)))
    return failure();
  writer.addCode(target->getName().str(), std::move(object));
  for (const GeneratedKernel &kernel : generated) {
    plan::KernelOp op = kernel.kernel;
    KernelEntry &entry = entries[op.getSymNameAttr()];
    entry.workItems = kernel.shape.workItems;
    plan.kernels[entry.index]->grain = kernel.shape.grain;
  }
  return success();
}

LogicalResult ArtifactEmitter::run(const std::string &path) {
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
