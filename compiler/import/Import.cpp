#include "compiler/import/Import.h"

#include "compiler/import/aten/Lowering.h"
#include "compiler/import/recognize/ConstantFold.h"
#include "compiler/import/recognize/Recognize.h"
#include "compiler/reference/Registration.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace lockstep {

using aten::Dims;
using aten::Lowering;
using aten::Scope;
using aten::Shape;
using aten::Storage;
using aten::TensorRef;
using train::Role;
using train::TrainDialect;

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

std::vector<std::string> supportedAtenTargets() {
  std::vector<std::string> names = aten::OperatorTable::get().names();
  for (std::string &name : names)
    if (name.find('.') == std::string::npos)
      name = "aten." + name;
  return names;
}

static void
collectUnsupported(const pt2::Graph &graph,
                   llvm::MapVector<StringRef, UnsupportedTarget> &found,
                   int depth) {
  for (const pt2::Node &node : graph.nodes) {
    if (!aten::resolveTarget(node.target).op) {
      UnsupportedTarget &entry = found[node.target];
      if (entry.count++ == 0) {
        entry.target = std::string(node.target);
        entry.place = node.metadata.describe();
      }
    }
    for (const pt2::NamedArgument &input : node.inputs)
      if (auto *subgraph = input.value.getIf<pt2::GraphArgument>();
          subgraph && subgraph->graph && depth < 64)
        collectUnsupported(*subgraph->graph, found, depth + 1);
  }
}

std::vector<UnsupportedTarget>
findUnsupportedTargets(const pt2::ExportedProgram &program) {
  llvm::MapVector<StringRef, UnsupportedTarget> found;
  collectUnsupported(program.graph, found, 0);
  std::vector<UnsupportedTarget> result;
  for (auto &entry : found)
    result.push_back(std::move(entry.second));
  return result;
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

static void collectSymbols(const pt2::SymExpr &expr,
                           std::vector<std::string> &symbols) {
  if (expr.kind == pt2::SymExpr::Kind::Symbol &&
      !llvm::is_contained(symbols, expr.symbol))
    symbols.push_back(expr.symbol);
  for (const pt2::SymExpr &operand : expr.operands)
    collectSymbols(operand, symbols);
}

/// The symbol's value for which the size is `wanted`.
static std::optional<int64_t>
solveFor(const pt2::SymInt &size, const std::string &symbol, int64_t wanted) {
  for (int64_t value = 0; value <= wanted; ++value)
    if (StatusOr<int64_t> result = size.evaluate({{symbol, value}});
        result.ok() && *result == wanted)
      return value;
  return std::nullopt;
}

StatusOr<pt2::SymbolBindings>
bindSymbols(const pt2::ExportedProgram &program,
            std::optional<int64_t> globalBatchSize) {
  pt2::SymbolBindings bindings;
  std::map<std::string, int64_t> hints;
  std::optional<int64_t> fixedBatch;
  bool bound = false;
  for (const pt2::InputSpec &spec : program.inputSpecs) {
    const pt2::TensorMeta *meta =
        spec.kind == pt2::InputSpec::Kind::UserInput
            ? program.graph.tensor(spec.argument.tensorName())
            : nullptr;
    for (size_t dim = 0; meta && dim < meta->sizes.size(); ++dim) {
      const pt2::SymInt &size = meta->sizes[dim];
      if (size.isConcrete()) {
        if (dim == 0 && !fixedBatch)
          fixedBatch = size.value;
        continue;
      }
      std::vector<std::string> symbols;
      collectSymbols(size.symbolic->expr, symbols);
      if (symbols.size() != 1)
        continue;
      if (dim == 0 && globalBatchSize && !bindings.count(symbols[0])) {
        std::optional<int64_t> value =
            solveFor(size, symbols[0], *globalBatchSize);
        if (!value)
          return inputError("a batch of " + std::to_string(*globalBatchSize) +
                            " does not fit the size " + toString(size) +
                            " of input '" + spec.target + "'");
        bindings[symbols[0]] = *value;
        bound = true;
      }
      if (size.symbolic->hint && !hints.count(symbols[0]))
        if (std::optional<int64_t> value =
                solveFor(size, symbols[0], *size.symbolic->hint))
          hints[symbols[0]] = *value;
    }
  }
  bindings.insert(hints.begin(), hints.end());
  if (globalBatchSize && !bound && fixedBatch &&
      *fixedBatch != *globalBatchSize)
    return inputError("the graph has a fixed batch of " +
                      std::to_string(*fixedBatch) +
                      ", but --global-batch-size is " +
                      std::to_string(*globalBatchSize))
        .remedy("export with a dynamic batch: dynamic_shapes={...: {0: "
                "torch.export.Dim('batch')}}");
  for (const auto &[symbol, value] : bindings)
    if (auto range = program.rangeConstraints.find(symbol);
        range != program.rangeConstraints.end())
      if ((range->second.min && value < *range->second.min) ||
          (range->second.max && value > *range->second.max))
        return inputError(
            "the size '" + symbol + "' is bound to " + std::to_string(value) +
            ", outside of the range that the graph was exported for");
  return bindings;
}

//===----------------------------------------------------------------------===//
// Arguments and results of @forward
//===----------------------------------------------------------------------===//

namespace {
class Importer {
public:
  Importer(MLIRContext &context, const pt2::ExportedProgram &program,
           const ImportOptions &options, const WeightStore &weights,
           pt2::SymbolBindings bindings)
      : program(program), options(options), weights(weights),
        bindings(std::move(bindings)), builder(&context),
        lowering(builder, this->bindings) {}

  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  LogicalResult error(const Twine &message) {
    return emitError(UnknownLoc::get(builder.getContext()), message);
  }
  LogicalResult addInputs();
  LogicalResult addInput(const pt2::InputSpec &spec,
                         const pt2::TensorMeta &meta);
  LogicalResult addStored(const pt2::InputSpec &spec,
                          const pt2::TensorMeta &meta);
  Value addArgument(RankedTensorType type, Role role, StringRef name,
                    ArrayRef<NamedAttribute> more = {});
  /// The value of a constant that may be in the IR; null when it may not.
  Value inlineConstant(StringRef name, RankedTensorType type, int64_t maxInts,
                       int64_t maxFloats);
  void inlineUnwrittenBuffers();
  LogicalResult addOutputs();
  void addResult(Value value, Role role, StringRef name);
  LogicalResult checkInputNames();
  NamedAttribute attribute(StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  }

  const pt2::ExportedProgram &program;
  const ImportOptions &options;
  const WeightStore &weights;
  pt2::SymbolBindings bindings;
  OpBuilder builder;
  Lowering lowering;
  Scope scope;
  Block *block = nullptr;
  SmallVector<Attribute> argumentAttrs, resultAttrs;
  SmallVector<Value> results;
  /// By entry of the weight store: tied names share one.
  llvm::DenseMap<size_t, std::shared_ptr<Storage>> storages;
  /// In the graph's order.
  SmallVector<std::pair<std::string, std::shared_ptr<Storage>>> buffers;
};
} // namespace

Value Importer::addArgument(RankedTensorType type, Role role, StringRef name,
                            ArrayRef<NamedAttribute> more) {
  SmallVector<NamedAttribute> attributes(more);
  attributes.push_back(
      attribute(TrainDialect::kRoleAttr,
                train::RoleAttr::get(builder.getContext(), role)));
  attributes.push_back(
      attribute(TrainDialect::kNameAttr, builder.getStringAttr(name)));
  argumentAttrs.push_back(builder.getDictionaryAttr(attributes));
  return block->addArgument(type, NameLoc::get(builder.getStringAttr(name)));
}

static HostTensor readTensor(const WeightStore &weights,
                             const WeightEntry &entry, RankedTensorType type) {
  if (!entry.hasValue() || !entry.read)
    return {};
  StatusOr<WeightBytes> bytes = weights.load(entry);
  if (!bytes.ok() ||
      bytes->bytes != static_cast<uint64_t>(
                          type.getNumElements() *
                          HostTensor::getElementBytes(type.getElementType())))
    return {};
  return HostTensor::copy(
      type,
      ArrayRef(reinterpret_cast<const char *>(bytes->data), bytes->bytes));
}

Value Importer::inlineConstant(StringRef name, RankedTensorType type,
                               int64_t maxInts, int64_t maxFloats) {
  const WeightEntry *entry = weights.find(std::string_view(name));
  bool isFloat = isa<FloatType>(type.getElementType());
  // A large boolean or integer table may still be a mask that a rule can say.
  int64_t limit =
      isFloat ? maxFloats : std::max<int64_t>(maxInts, int64_t(1) << 26);
  if (!entry || type.getNumElements() > limit)
    return {};
  HostTensor value = readTensor(weights, *entry, type);
  if (!value)
    return {};
  lowering.emit.loc = NameLoc::get(builder.getStringAttr(name));
  if (Value rule = recognize::buildBand(lowering.emit, value))
    return rule;
  if (type.getNumElements() > (isFloat ? maxFloats : maxInts))
    return {};
  return train::ConstantOp::create(builder, lowering.emit.loc, value.toAttr())
      .getResult();
}

LogicalResult Importer::addStored(const pt2::InputSpec &spec,
                                  const pt2::TensorMeta &meta) {
  std::optional<Shape> shape = lowering.shapeOf(meta);
  std::optional<Type> element = lowering.elementType(meta.dtype);
  if (!shape || !element)
    return error("'" + spec.target + "' has the element type " +
                 StringRef(pt2::scalarTypeName(meta.dtype)) +
                 ", which is not supported");
  auto type = RankedTensorType::get(*shape, *element);
  const WeightEntry *entry = weights.find(spec.target);
  if (!entry)
    return error("'" + spec.target + "' is not among the model's weights");
  size_t owner = entry->owner;
  std::shared_ptr<Storage> &storage = storages[owner];
  bool isParameter = spec.kind == pt2::InputSpec::Kind::Parameter;
  if (!storage) {
    storage = std::make_shared<Storage>();
    storage->name = weights.entries()[owner].name;
    storage->kind = isParameter ? Storage::Kind::Parameter
                    : spec.kind == pt2::InputSpec::Kind::Buffer
                        ? Storage::Kind::Buffer
                        : Storage::Kind::Constant;
    if (storage->kind == Storage::Kind::Constant)
      storage->value = inlineConstant(spec.target, type, 1 << 16, 64);
    if (!storage->value) {
      SmallVector<NamedAttribute> more;
      if (isParameter && !entry->requiresGrad)
        more.push_back(
            attribute(TrainDialect::kFrozenAttr, builder.getUnitAttr()));
      SmallVector<StringRef> tied;
      std::vector<std::string> tiedNames = weights.tiedNames(owner);
      for (const std::string &name : tiedNames)
        tied.push_back(name);
      if (!tied.empty())
        more.push_back(
            attribute(TrainDialect::kTiedAttr, builder.getStrArrayAttr(tied)));
      storage->value =
          addArgument(type, isParameter ? Role::Parameter : Role::Buffer,
                      storage->name, more);
    }
    if (storage->kind == Storage::Kind::Buffer)
      buffers.push_back({spec.target, storage});
  }
  if (storage->value.getType() != type)
    return error("'" + spec.target + "' and '" + storage->name +
                 "' are tied, but have different types");
  TensorRef ref;
  ref.storage = storage;
  ref.cached = storage->value;
  scope.tensors[spec.argument.tensorName()] = ref;
  return success();
}

LogicalResult Importer::addInput(const pt2::InputSpec &spec,
                                 const pt2::TensorMeta &meta) {
  std::optional<Shape> shape = lowering.shapeOf(meta);
  std::optional<Type> element = lowering.elementType(meta.dtype);
  if (!shape)
    return error("input '" + spec.target + "': " + lowering.emit.takeError());
  if (!element)
    return error("input '" + spec.target + "' has the element type " +
                 StringRef(pt2::scalarTypeName(meta.dtype)) +
                 ", which is not supported");
  SmallVector<NamedAttribute> more;
  if (llvm::is_contained(options.wholeInputs, spec.target))
    more.push_back(attribute(TrainDialect::kWholeAttr, builder.getUnitAttr()));
  Role role = llvm::is_contained(options.labels, spec.target) ? Role::Label
                                                              : Role::Input;
  Value argument = addArgument(RankedTensorType::get(*shape, *element), role,
                               spec.target, more);
  TensorRef ref = TensorRef::fresh(argument);
  ref.storage->kind = Storage::Kind::Input;
  ref.storage->name = spec.target;
  scope.tensors[spec.argument.tensorName()] = ref;
  return success();
}

LogicalResult Importer::addInputs() {
  for (const pt2::InputSpec &spec : program.inputSpecs) {
    std::string_view name = spec.argument.tensorName();
    if (name.empty())
      continue; // None and Python numbers are constants of the graph.
    const pt2::TensorMeta *meta = program.graph.tensor(name);
    if (!meta)
      return error("input '" + spec.target + "' has no type");
    bool stored = spec.kind == pt2::InputSpec::Kind::Parameter ||
                  spec.kind == pt2::InputSpec::Kind::Buffer ||
                  spec.kind == pt2::InputSpec::Kind::TensorConstant;
    if (failed(stored ? addStored(spec, *meta) : addInput(spec, *meta)))
      return failure();
  }
  return success();
}

/// Small tables that nothing writes (position ids, masks) become constants, so
/// that what is computed from them can be folded.
void Importer::inlineUnwrittenBuffers() {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(block);
  // A functional graph lists the buffers that it writes.
  llvm::StringSet<> listed;
  for (const pt2::OutputSpec &spec : program.outputSpecs)
    if (spec.kind == pt2::OutputSpec::Kind::BufferMutation)
      listed.insert(spec.target);
  for (auto &[name, storage] : buffers) {
    if (listed.contains(name))
      continue;
    auto argument = dyn_cast<BlockArgument>(storage->value);
    auto type = cast<RankedTensorType>(storage->value.getType());
    if (!argument || storage->version != 0 ||
        isa<FloatType>(type.getElementType()) || argument.use_empty())
      continue;
    if (Value constant = inlineConstant(name, type, 1 << 16, 0)) {
      argument.replaceAllUsesWith(constant);
      storage->value = argument;
    }
  }
}

void Importer::addResult(Value value, Role role, StringRef name) {
  results.push_back(value);
  resultAttrs.push_back(builder.getDictionaryAttr(
      {attribute(TrainDialect::kRoleAttr,
                 train::RoleAttr::get(builder.getContext(), role)),
       attribute(TrainDialect::kNameAttr, builder.getStringAttr(name))}));
}

LogicalResult Importer::addOutputs() {
  using Kind = pt2::OutputSpec::Kind;
  llvm::StringMap<Value> written;
  int64_t index = 0;
  for (const pt2::OutputSpec &spec : program.outputSpecs) {
    bool isOutput =
        spec.kind == Kind::UserOutput || spec.kind == Kind::LossOutput;
    int64_t position = isOutput ? index++ : 0;
    auto it = scope.tensors.find(spec.argument.tensorName());
    if (it == scope.tensors.end())
      continue; // None, or a number
    if (spec.kind == Kind::ParameterMutation)
      return error(
          "the parameter '" + spec.target +
          "' is written in forward; only the optimizer may write parameters");
    Value value = it->second.read(lowering.emit);
    if (!value)
      return error(lowering.emit.takeError());
    if (isOutput)
      addResult(value, Role::Output, "output:" + std::to_string(position));
    if (spec.kind == Kind::BufferMutation)
      written[spec.target] = value;
  }
  if (results.empty())
    return error("the graph returns no tensor");
  for (auto &[name, storage] : buffers) {
    auto listed = written.find(name);
    Value value = listed != written.end() ? listed->second
                  : storage->version      ? storage->value
                                          : Value();
    if (value)
      addResult(value, Role::Buffer, name);
  }
  return success();
}

LogicalResult Importer::checkInputNames() {
  SmallVector<StringRef> names;
  for (const pt2::InputSpec &spec : program.inputSpecs)
    if (spec.kind == pt2::InputSpec::Kind::UserInput)
      names.push_back(spec.target);
  for (const auto *given : {&options.wholeInputs, &options.labels})
    for (const std::string &name : *given)
      if (!llvm::is_contained(names, name))
        return error("the model has no input '" + name + "'; its inputs are " +
                     llvm::join(names, ", "));
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> Importer::run() {
  if (failed(checkInputNames()))
    return failure();
  Location unknown = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(builder, unknown, "forward",
                                       builder.getFunctionType({}, {}));
  block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  scope.graph = &program.graph;
  if (failed(addInputs()))
    return failure();
  if (std::optional<std::string> message = lowering.run(scope))
    return error(*message);
  if (failed(addOutputs()))
    return failure();
  if (lowering.rngArgument)
    argumentAttrs.push_back(builder.getDictionaryAttr(
        {attribute(TrainDialect::kRoleAttr,
                   train::RoleAttr::get(builder.getContext(), Role::Rng)),
         attribute(TrainDialect::kNameAttr, builder.getStringAttr("rng"))}));
  func::ReturnOp::create(builder, unknown, results);
  function.setFunctionType(builder.getFunctionType(
      block->getArgumentTypes(), ValueRange(results).getTypes()));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
  inlineUnwrittenBuffers();
  if (failed(verify(*module)))
    return failure();
  if (options.recognize)
    recognize::recognizeOperations(function);
  return module;
}

FailureOr<OwningOpRef<ModuleOp>>
importProgram(MLIRContext &context, const pt2::ExportedProgram &program,
              const ImportOptions &options, const WeightStore &weights) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, TrainDialect>();
  registerEvaluableExternalModels(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  std::vector<UnsupportedTarget> unsupported = findUnsupportedTargets(program);
  if (!unsupported.empty()) {
    std::string message = std::to_string(unsupported.size()) + " operator" +
                          (unsupported.size() > 1 ? "s are" : " is") +
                          " not supported:";
    for (const UnsupportedTarget &entry : unsupported)
      message += "\n  " + entry.target + " (" + std::to_string(entry.count) +
                 (entry.count > 1 ? " uses" : " use") + ")" +
                 (entry.place.empty() ? "" : " at " + entry.place);
    emitError(UnknownLoc::get(&context), message);
    return failure();
  }
  StatusOr<pt2::SymbolBindings> bindings =
      bindSymbols(program, options.globalBatchSize);
  if (!bindings.ok()) {
    emitError(UnknownLoc::get(&context), bindings.status().toString());
    return failure();
  }
  return Importer(context, program, options, weights, std::move(*bindings))
      .run();
}

} // namespace lockstep
