#include "compiler/import/aten/Lowering.h"

using namespace mlir;

namespace lockstep::aten {

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

const OperatorTable &OperatorTable::get() {
  static const OperatorTable table = [] {
    OperatorTable t;
    addPointwise(t);
    addActivations(t);
    addComparisons(t);
    addViews(t);
    addShuffles(t);
    addCreation(t);
    addReductions(t);
    addOrdering(t);
    addIndexing(t);
    addScatters(t);
    addLinear(t);
    addGroupedProducts(t);
    addEinsum(t);
    addConvolutions(t);
    addPooling(t);
    addComplexNumbers(t);
    addDiagonals(t);
    addGridSampling(t);
    addMarginLosses(t);
    addSpecialFunctions(t);
    addResampling(t);
    addNormalization(t);
    addAttention(t);
    addLosses(t);
    addRecurrent(t);
    addHigherOrder(t);
    return t;
  }();
  return table;
}

std::vector<std::string> OperatorTable::names() const {
  std::vector<std::string> result;
  for (const auto &entry : operators)
    result.push_back(entry.getKey().str());
  llvm::sort(result);
  return result;
}

ResolvedTarget resolveTarget(std::string_view target) {
  const OperatorTable &table = OperatorTable::get();
  StringRef name(target);
  ResolvedTarget result;
  if (name.contains("functorch")) {
    result.base = name.rsplit('.').second;
    result.op = table.find(("functorch." + result.base).str());
    return result;
  }
  if (name.consume_front("torch.ops.higher_order.")) {
    result.base = name;
    result.op = table.find(("higher_order." + name).str());
    return result;
  }
  if (name.starts_with("torch.ops.") && !name.starts_with("torch.ops.aten.")) {
    // A library's own: "transformers.grouped_mm_fallback".
    std::tie(result.base, result.overload) =
        name.drop_front(strlen("torch.ops.")).rsplit('.');
    result.op = table.find(result.base);
    return result;
  }
  if (!name.consume_front("torch.ops.aten.")) {
    // Arithmetic on sizes: symbolic values carry their expressions, so there is
    // nothing to do.
    if (name.starts_with("_operator.") || name.starts_with("math.") ||
        name.starts_with("torch.sym_"))
      result.op = table.find("symbolic");
    return result;
  }
  std::tie(result.base, result.overload) = name.split('.');
  result.out = result.overload == "out" || result.overload.ends_with("_out") ||
               result.overload.starts_with("out_");
  result.op = table.find(result.base);
  if (result.op)
    return result;
  std::string functional;
  if (result.base.starts_with("__i") && result.base.ends_with("__"))
    functional = "__" + result.base.drop_front(3).str();
  else if (result.base.ends_with("_") && !result.base.starts_with("__"))
    functional = result.base.drop_back().str();
  result.op = functional.empty() ? nullptr : table.find(functional);
  result.inPlace = result.op != nullptr;
  // permute_copy and its like: in graphs without writes, a view will do.
  if (!result.op && result.base.ends_with("_copy"))
    result.op = table.find(result.base.drop_back(5));
  return result;
}

//===----------------------------------------------------------------------===//
// Types and locations
//===----------------------------------------------------------------------===//

std::optional<Type> Lowering::elementType(pt2::ScalarType type) {
  OpBuilder &b = emit.b;
  switch (type) {
  case pt2::ScalarType::U8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case pt2::ScalarType::I8:
    return b.getI8Type();
  case pt2::ScalarType::I16:
    return b.getI16Type();
  case pt2::ScalarType::I32:
    return b.getI32Type();
  case pt2::ScalarType::I64:
    return b.getI64Type();
  case pt2::ScalarType::F16:
    return b.getF16Type();
  case pt2::ScalarType::F32:
    return b.getF32Type();
  case pt2::ScalarType::F64:
    return b.getF64Type();
  case pt2::ScalarType::Bool:
    return b.getI1Type();
  case pt2::ScalarType::BF16:
    return b.getBF16Type();
  case pt2::ScalarType::C64:
    return partsOfComplex ? std::optional<Type>(b.getF32Type()) : std::nullopt;
  case pt2::ScalarType::C128:
    return partsOfComplex ? std::optional<Type>(b.getF64Type()) : std::nullopt;
  default:
    return std::nullopt;
  }
}

std::optional<Shape> Lowering::shapeOf(const pt2::TensorMeta &meta) {
  Shape shape;
  int64_t count = 1;
  for (const pt2::SymInt &size : meta.sizes) {
    StatusOr<int64_t> value = size.evaluate(bindings);
    if (!value.ok() || *value < 0) {
      emit.fail("the size " + pt2::toString(size) + " cannot be evaluated");
      return std::nullopt;
    }
    if (*value > 0 && count > (int64_t(1) << 48) / *value) {
      emit.fail("a tensor of more than 2^48 elements");
      return std::nullopt;
    }
    count *= std::max<int64_t>(*value, 1);
    shape.push_back(*value);
  }
  return shape;
}

static StringRef nodeName(const pt2::Node &node) {
  if (!node.name.empty() || node.outputs.empty())
    return node.name;
  return StringRef(node.outputs.front().tensorName());
}

Location Lowering::location(const pt2::Node &node) {
  MLIRContext *context = emit.b.getContext();
  Location place = UnknownLoc::get(context);
  if (std::optional<pt2::SourceFrame> frame = node.metadata.innermostFrame())
    place = FileLineColLoc::get(context, StringRef(frame->file),
                                static_cast<unsigned>(frame->line), 0);
  StringRef name = nodeName(node);
  Location named = NameLoc::get(
      StringAttr::get(context, name.empty() ? StringRef(node.target) : name),
      place);
  std::vector<pt2::ModuleStackEntry> modules = node.metadata.modules();
  if (modules.empty() || modules.back().path.empty())
    return named;
  return FusedLoc::get(
      context, {named},
      StringAttr::get(context, StringRef(modules.back().path)));
}

Value Lowering::rng() {
  if (!rngArgument) {
    Block *block = emit.b.getInsertionBlock();
    rngArgument = block->addArgument(emit.type({2}, emit.i64()),
                                     UnknownLoc::get(emit.b.getContext()));
  }
  return rngArgument;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static void collectNames(const pt2::Argument &argument, TensorNames &names) {
  if (std::string_view name = argument.tensorName(); !name.empty())
    names.push_back(name);
  if (auto *list = argument.getIf<std::vector<pt2::TensorArgument>>())
    for (const pt2::TensorArgument &tensor : *list)
      names.push_back(tensor.name);
  if (auto *list = argument.getIf<std::vector<pt2::OptionalTensorArgument>>())
    for (const pt2::OptionalTensorArgument &tensor : *list)
      names.push_back(tensor.name);
}

static TensorNames namesOf(ArrayRef<pt2::Argument> arguments) {
  TensorNames names;
  for (const pt2::Argument &argument : arguments)
    collectNames(argument, names);
  return names;
}

TensorNames inputNames(const pt2::Node &node) {
  TensorNames names;
  for (const pt2::NamedArgument &input : node.inputs)
    collectNames(input.value, names);
  return names;
}

TensorNames outputNames(const pt2::Node &node) { return namesOf(node.outputs); }

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

bool Lowering::lowerNode(Scope &scope, const pt2::Node &node) {
  ResolvedTarget target = resolveTarget(node.target);
  if (!target.op)
    return emit.fail("unsupported operator"), false;
  emit.loc = location(node);
  if (hasComplex(scope, node))
    return lowerComplex(scope, node, target);
  OpCall call(*this, scope, node, target.op->form == Form::Pointwise);
  call.base = target.op->name;
  call.overload = target.overload;
  bool isView = target.op->form == Form::View;
  if (!isView)
    call.written = target.out ? "out" : target.inPlace ? "self" : "";
  target.op->lower(call);
  // An in-place view (t_, unsqueeze_) makes its argument the view.
  if (isView && target.inPlace && !emit.failed() && !node.outputs.empty())
    if (auto self = scope.tensors.find(node.inputs.front().value.tensorName());
        self != scope.tensors.end())
      self->second = scope.tensors[node.outputs.front().tensorName()];
  if (!emit.failed())
    if (std::string unread = call.unreadArguments(); !unread.empty())
      emit.fail("unsupported: the argument " + unread);
  return !emit.failed();
}

/// run_decompositions() turns detach() into an alias and puts what was inside
/// no_grad beside the rest. What a node came from stays in its metadata.
static bool lostGradientBoundary(const pt2::Node &node) {
  StringRef origin(node.metadata.torchFn);
  return (origin.contains("wrap_with_set_grad_enabled") &&
          !StringRef(node.target).starts_with("torch.ops.higher_order.")) ||
         (StringRef(node.target).starts_with("torch.ops.aten.alias.") &&
          origin.ends_with(".detach"));
}

void Lowering::stopGradients(Scope &scope, const pt2::Node &node) {
  auto stop = [&](TensorRef &tensor) {
    Value value = tensor.read(emit);
    if (!value || !isFloat(value))
      return;
    TensorRef still = TensorRef::fresh(emit.stopGradient(value));
    still.levels = tensor.levels;
    tensor = std::move(still);
  };
  auto stopNamed = [&](std::string_view name) {
    if (auto found = scope.tensors.find(name); found != scope.tensors.end())
      stop(found->second);
    if (auto found = scope.complexes.find(name); found != scope.complexes.end())
      stop(found->second.first), stop(found->second.second);
  };
  for (std::string_view name : outputNames(node))
    stopNamed(name);
}

std::optional<std::string> Lowering::run(Scope &scope) {
  auto use = [&](const TensorNames &names) {
    scope.used.insert(names.begin(), names.end());
  };
  for (const pt2::Node &node : scope.graph->nodes)
    use(inputNames(node));
  use(namesOf(scope.graph->outputs));
  for (const pt2::Node &node : scope.graph->nodes) {
    if (lowerNode(scope, node)) {
      if (lostGradientBoundary(node))
        stopGradients(scope, node);
      continue;
    }
    std::string message = emit.takeError();
    // A subgraph's error names its own node already.
    if (StringRef(message).starts_with("node '"))
      return message;
    StringRef target(node.target);
    target.consume_front("torch.ops.");
    std::string text = "node '" + nodeName(node).str() + "' (" + target.str() +
                       "): " + message;
    if (std::string place = node.metadata.describe(); !place.empty())
      text += "; at " + place;
    return text;
  }
  return std::nullopt;
}

} // namespace lockstep::aten
