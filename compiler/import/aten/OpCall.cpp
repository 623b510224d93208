#include "compiler/import/aten/OpCall.h"

#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;

namespace lockstep::aten {

/// Arguments that say where and how a tensor lies, not what it holds.
static constexpr std::string_view placement[] = {
    "device",       "layout",        "pin_memory",    "memory_format",
    "non_blocking", "copy",          "cudnn_enable",  "cudnn_enabled",
    "generator",    "cudnn_enabled", "requires_grad", "out",
    "sparse",       "implicit",      "benchmark",     "deterministic",
    "allow_tf32",   "stable",        "sorted",        "is_coalesced",
    "unsafe",       "enable"};

OpCall::OpCall(Lowering &lowering, Scope &scope, const pt2::Node &node,
               bool alignsLevels)
    : lowering(lowering), scope(scope), node(node), t(lowering.emit),
      seen(node.inputs.size(), false), alignsLevels(alignsLevels) {
  for (const pt2::Argument &output : node.outputs) {
    if (auto *list = output.getIf<std::vector<pt2::TensorArgument>>()) {
      for (const pt2::TensorArgument &tensor : *list)
        names.push_back(tensor.name);
    } else if (auto *optionals =
                   output.getIf<std::vector<pt2::OptionalTensorArgument>>()) {
      for (const pt2::OptionalTensorArgument &tensor : *optionals)
        names.push_back(tensor.name);
    } else {
      names.push_back(output.tensorName());
    }
  }
  if (!alignsLevels)
    return;
  // The union of the operands' levels, and their largest logical rank.
  for (const pt2::NamedArgument &input : node.inputs)
    if (std::string_view name = input.value.tensorName(); !name.empty())
      if (TensorRef *operand = refByName(name); operand && operand->cached) {
        for (int64_t level : operand->levels)
          if (!llvm::is_contained(levels, level))
            levels.push_back(level);
        logicalRank = std::max<size_t>(logicalRank, rankOf(operand->cached) -
                                                        operand->levels.size());
      }
  llvm::sort(levels);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const pt2::Argument *OpCall::argument(StringRef name) {
  for (auto [i, input] : llvm::enumerate(node.inputs))
    if (name == input.name) {
      seen[i] = true;
      return &input.value;
    }
  return nullptr;
}

bool OpCall::has(StringRef name) {
  const pt2::Argument *value = argument(name);
  return value && !value->isNone();
}

bool OpCall::isTensor(StringRef name) {
  const pt2::Argument *value = argument(name);
  return value && !value->tensorName().empty();
}

void OpCall::ignore(std::initializer_list<StringRef> names) {
  for (StringRef name : names)
    argument(name);
}

TensorRef *OpCall::refByName(std::string_view name) {
  auto it = scope.tensors.find(name);
  return it == scope.tensors.end() ? nullptr : &it->second;
}

TensorRef *OpCall::ref(StringRef name) {
  const pt2::Argument *value = argument(name);
  if (!value || value->tensorName().empty()) {
    t.fail("expected a tensor as argument '" + name + "'");
    return nullptr;
  }
  TensorRef *result = refByName(value->tensorName());
  if (!result)
    t.fail("argument '" + name + "' has no value");
  return result;
}

/// Gives the tensor a dimension for each level of the call (size 1 where it
/// lacks the level) before its logical dimensions.
Value OpCall::lift(TensorRef &ref, size_t rank) {
  Value value = ref.read(t);
  if (!value || levels.empty())
    return value;
  Shape shape;
  size_t next = 0, own = ref.levels.size();
  for (int64_t level : levels)
    shape.push_back(
        next < own && ref.levels[next] == level ? shapeOf(value)[next++] : 1);
  size_t logical = rankOf(value) - own;
  shape.append(rank - logical, 1);
  llvm::append_range(shape, shapeOf(value).drop_front(own));
  return t.reshape(value, shape);
}

Value OpCall::readTensor(std::string_view name) {
  TensorRef *operand = refByName(name);
  if (!operand)
    return t.fail("operand '" + Twine(StringRef(name)) + "' has no value");
  if (alignsLevels)
    return lift(*operand, logicalRank);
  if (!operand->levels.empty())
    return t.fail("unsupported: this operator inside torch.vmap");
  return operand->read(t);
}

Value OpCall::tensor(StringRef name) {
  const pt2::Argument *value = argument(name);
  if (!value || value->tensorName().empty())
    return t.fail("expected a tensor as argument '" + name + "'");
  return readTensor(value->tensorName());
}

Value OpCall::optionalTensor(StringRef name) {
  return has(name) ? tensor(name) : Value();
}

SmallVector<Value> OpCall::tensors(StringRef name) {
  SmallVector<Value> values;
  const pt2::Argument *value = argument(name);
  if (value)
    if (auto *list = value->getIf<std::vector<pt2::TensorArgument>>()) {
      for (const pt2::TensorArgument &element : *list)
        values.push_back(readTensor(element.name));
      return values;
    }
  if (value)
    if (auto *list = value->getIf<std::vector<pt2::OptionalTensorArgument>>()) {
      for (const pt2::OptionalTensorArgument &element : *list)
        values.push_back(element.isNone() ? Value() : readTensor(element.name));
      return values;
    }
  t.fail("expected a list of tensors as argument '" + name + "'");
  return values;
}

Shape OpCall::shape(StringRef name) {
  TensorRef *operand = ref(name);
  return operand && operand->cached
             ? Shape(
                   shapeOf(operand->cached).drop_front(operand->levels.size()))
             : Shape();
}

Type OpCall::element(StringRef name) {
  TensorRef *operand = ref(name);
  return operand && operand->cached ? elementOf(operand->cached) : t.f32();
}

std::optional<int64_t> OpCall::toInteger(const pt2::Argument &argument) {
  if (auto *value = argument.getIf<int64_t>())
    return *value;
  if (auto *value = argument.getIf<bool>())
    return *value;
  if (auto *value = argument.getIf<double>();
      value && std::floor(*value) == *value && std::abs(*value) < 9e18)
    return static_cast<int64_t>(*value);
  auto *symbol = argument.getIf<pt2::SymIntArgument>();
  if (!symbol)
    return std::nullopt;
  if (symbol->isConstant())
    return symbol->value;
  auto it = scope.graph->symIntValues.find(symbol->name);
  if (it == scope.graph->symIntValues.end())
    return std::nullopt;
  StatusOr<int64_t> value = it->second.evaluate(lowering.bindings);
  if (value.ok())
    return *value;
  t.fail("the size '" + symbol->name +
         "' cannot be evaluated: " + value.status().what());
  return std::nullopt;
}

std::optional<double> OpCall::toReal(const pt2::Argument &argument) {
  if (auto *value = argument.getIf<double>())
    return *value;
  // PyTorch writes infinities as strings.
  if (auto *text = argument.getIf<std::string>())
    return *text == "Infinity"    ? std::optional(INFINITY)
           : *text == "-Infinity" ? std::optional(-INFINITY)
                                  : std::nullopt;
  if (auto *symbol = argument.getIf<pt2::SymFloatArgument>()) {
    if (symbol->isConstant())
      return symbol->value;
    auto it = scope.graph->symFloatValues.find(symbol->name);
    if (it == scope.graph->symFloatValues.end())
      return std::nullopt;
    if (it->second.isConcrete())
      return it->second.value;
    StatusOr<double> value =
        pt2::evaluateReal(*it->second.expr, lowering.bindings);
    return value.ok() ? std::optional<double>(*value) : std::nullopt;
  }
  std::optional<int64_t> integer = toInteger(argument);
  return integer ? std::optional<double>(static_cast<double>(*integer))
                 : std::nullopt;
}

std::optional<int64_t> OpCall::optionalInteger(StringRef name) {
  if (!has(name))
    return std::nullopt;
  std::optional<int64_t> value = toInteger(*argument(name));
  if (!value)
    t.fail("expected an integer as argument '" + name + "'");
  return value;
}

int64_t OpCall::integer(StringRef name, std::optional<int64_t> fallback) {
  std::optional<int64_t> value = optionalInteger(name);
  if (!value && !fallback)
    t.fail("expected an integer as argument '" + name + "'");
  return value ? *value : fallback.value_or(0);
}

Shape OpCall::integers(StringRef name, std::optional<Shape> fallback) {
  const pt2::Argument *value = argument(name);
  if (!value || value->isNone()) {
    if (!fallback)
      t.fail("expected integers as argument '" + name + "'");
    return fallback.value_or(Shape());
  }
  if (auto *list = value->getIf<std::vector<int64_t>>())
    return Shape(list->begin(), list->end());
  if (auto *list = value->getIf<std::vector<pt2::SymIntArgument>>()) {
    Shape result;
    for (const pt2::SymIntArgument &symbol : *list)
      result.push_back(toInteger(pt2::Argument{symbol}).value_or(0));
    return result;
  }
  // An empty list has no element type.
  if (auto *list = value->getIf<std::vector<pt2::TensorArgument>>();
      list && list->empty())
    return {};
  if (std::optional<int64_t> single = toInteger(*value))
    return {*single};
  t.fail("expected integers as argument '" + name + "'");
  return {};
}

std::optional<double> OpCall::optionalReal(StringRef name) {
  if (!has(name))
    return std::nullopt;
  std::optional<double> value = toReal(*argument(name));
  if (!value)
    t.fail("expected a number as argument '" + name + "'");
  return value;
}

double OpCall::real(StringRef name, std::optional<double> fallback) {
  std::optional<double> value = optionalReal(name);
  if (!value && !fallback)
    t.fail("expected a number as argument '" + name + "'");
  return value ? *value : fallback.value_or(0);
}

bool OpCall::flag(StringRef name, bool fallback) {
  const pt2::Argument *value = argument(name);
  if (!value || value->isNone())
    return fallback;
  if (auto *boolean = value->getIf<bool>())
    return *boolean;
  return toInteger(*value).value_or(fallback) != 0;
}

std::string OpCall::string(StringRef name, StringRef fallback) {
  const pt2::Argument *value = argument(name);
  if (value)
    if (auto *text = value->getIf<std::string>())
      return *text;
  return fallback.str();
}

std::optional<Type> OpCall::dtype(StringRef name) {
  const pt2::Argument *value = argument(name);
  if (!value || !value->is<pt2::ScalarType>())
    return std::nullopt;
  std::optional<Type> type =
      lowering.elementType(*value->getIf<pt2::ScalarType>());
  if (!type)
    t.fail("unsupported: the element type " +
           Twine(StringRef(
               pt2::scalarTypeName(*value->getIf<pt2::ScalarType>()))));
  return type;
}

Scalar OpCall::number(StringRef name) {
  const pt2::Argument *value = argument(name);
  if (value && (value->is<bool>() || value->is<pt2::SymBoolArgument>())) {
    bool boolean = toInteger(*value).value_or(0) != 0;
    return {static_cast<double>(boolean), boolean, Scalar::Kind::Bool};
  }
  bool isInteger =
      value && (value->is<int64_t>() || value->is<pt2::SymIntArgument>());
  if (isInteger) {
    int64_t integer = toInteger(*value).value_or(0);
    return {static_cast<double>(integer), integer, Scalar::Kind::Int};
  }
  std::optional<double> real = value ? toReal(*value) : std::nullopt;
  if (!real)
    t.fail("expected a number as argument '" + name + "'");
  return {real.value_or(0), 0, Scalar::Kind::Float};
}

int64_t OpCall::dim(StringRef name, int64_t rank,
                    std::optional<int64_t> fallback) {
  int64_t value = integer(name, fallback), size = std::max<int64_t>(rank, 1);
  if (value < -size || value >= size) {
    t.fail("dimension " + Twine(value) + " of a tensor of rank " + Twine(rank));
    return 0;
  }
  return value < 0 ? value + size : value;
}

Shape OpCall::dims(StringRef name, int64_t rank) {
  Shape given = integers(name, Shape());
  if (given.empty() || rank == 0)
    return range(rank);
  for (int64_t &dim : given) {
    if (dim < -rank || dim >= rank) {
      t.fail("dimension " + Twine(dim) + " of a tensor of rank " + Twine(rank));
      return {};
    }
    dim = dim < 0 ? dim + rank : dim;
  }
  llvm::sort(given);
  if (std::adjacent_find(given.begin(), given.end()) != given.end())
    t.fail("a dimension is named twice");
  return given;
}

//===----------------------------------------------------------------------===//
// Promotion
//===----------------------------------------------------------------------===//

static int categoryOf(Type type) {
  return !type ? -1 : type.isInteger(1) ? 0 : isa<IntegerType>(type) ? 1 : 2;
}

/// torch.promote_types.
static Type promoteTypes(Type a, Type b) {
  if (!a || !b || a == b)
    return a ? a : b;
  if (categoryOf(a) != categoryOf(b))
    return categoryOf(a) > categoryOf(b) ? a : b;
  unsigned widthA = a.getIntOrFloatBitWidth(),
           widthB = b.getIntOrFloatBitWidth();
  if (widthA != widthB)
    return widthA > widthB ? a : b;
  // f16 with bf16, u8 with i8.
  return isa<FloatType>(a) ? Type(Float32Type::get(a.getContext()))
                           : Type(IntegerType::get(a.getContext(), 16));
}

static Type combineCategories(Type higher, Type lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  return categoryOf(lower) > categoryOf(higher) ? lower : higher;
}

Type OpCall::promote(ArrayRef<StringRef> names) {
  Type dimensioned, rankZero, wrapped;
  for (StringRef name : names) {
    if (isTensor(name)) {
      TensorRef *operand = ref(name);
      if (!operand || !operand->cached)
        return t.f32();
      Type type = elementOf(operand->cached);
      bool isZero = rankOf(operand->cached) ==
                    static_cast<int64_t>(operand->levels.size());
      Type &slot = isZero ? rankZero : dimensioned;
      slot = promoteTypes(slot, type);
    } else if (has(name)) {
      Scalar::Kind kind = number(name).kind;
      wrapped = promoteTypes(wrapped, kind == Scalar::Kind::Bool  ? t.i1()
                                      : kind == Scalar::Kind::Int ? t.i64()
                                                                  : t.f32());
    }
  }
  Type result =
      combineCategories(dimensioned, combineCategories(rankZero, wrapped));
  return result ? result : t.f32();
}

Value OpCall::operand(StringRef name, Type element) {
  if (isTensor(name))
    return t.convert(tensor(name), element);
  Scalar scalar = number(name);
  if (scalar.kind == Scalar::Kind::Float)
    return t.constant({}, element, scalar.real);
  return t.constantInt({}, element, scalar.integer);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static std::string shapeText(Dims shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

bool OpCall::isResultUsed(size_t i) const {
  return i < names.size() && scope.used.count(names[i]);
}

Shape OpCall::resultShape(size_t i) {
  const pt2::TensorMeta *meta =
      i < names.size() ? scope.graph->tensor(names[i]) : nullptr;
  std::optional<Shape> shape = meta ? lowering.shapeOf(*meta) : std::nullopt;
  if (!shape)
    t.fail("the file does not give the shape of result " + Twine(i));
  return shape.value_or(Shape());
}

Type OpCall::resultElement(size_t i) {
  const pt2::TensorMeta *meta =
      i < names.size() ? scope.graph->tensor(names[i]) : nullptr;
  std::optional<Type> type =
      meta ? lowering.elementType(meta->dtype) : std::nullopt;
  if (!type)
    t.fail(
        "unsupported: a tensor of element type " +
        Twine(meta ? StringRef(pt2::scalarTypeName(meta->dtype)) : "unknown"));
  return type.value_or(t.f32());
}

void OpCall::result(size_t i, Value value) {
  if (!value) {
    t.fail("the operator gave no value");
    return;
  }
  if (i == 0 && !written.empty()) {
    write(written, value);
    alias(0, written);
    return;
  }
  if (i >= names.size() || names[i].empty())
    return;
  if (const pt2::TensorMeta *meta = scope.graph->tensor(names[i]);
      meta && shapeOf(value).size() == meta->sizes.size() && levels.empty())
    for (auto [size, known] : llvm::zip_equal(meta->sizes, shapeOf(value)))
      if (!size.isConcrete() &&
          size.symbolic->expr.kind == pt2::SymExpr::Kind::Symbol)
        lowering.bindings.try_emplace(size.symbolic->expr.symbol, known);
  Shape expected;
  for (auto [k, level] : llvm::enumerate(levels))
    expected.push_back(shapeOf(value).size() > k ? shapeOf(value)[k] : 1);
  llvm::append_range(expected, resultShape(i));
  Type element = resultElement(i);
  if (bad())
    return;
  if (shapeOf(value) != Dims(expected)) {
    t.fail("the file says that the result has shape " + shapeText(expected) +
           ", but the operator gives " + shapeText(shapeOf(value)));
    return;
  }
  TensorRef ref = TensorRef::fresh(t.convert(value, element));
  ref.levels = levels;
  scope.tensors[names[i]] = std::move(ref);
}

void OpCall::results(ArrayRef<Value> values) {
  if (values.size() != names.size() && !bad())
    t.fail("the file lists " + Twine(names.size()) +
           " results, but the operator gives " + Twine(values.size()));
  for (size_t i = 0; i < values.size() && !bad(); ++i)
    result(i, values[i]);
}

void OpCall::alias(size_t i, StringRef name, ArrayRef<ViewStep> steps) {
  TensorRef *self = ref(name);
  if (!self || bad() || i >= names.size() || names[i].empty())
    return;
  TensorRef view = self->view(t, steps);
  if (!view.cached)
    return;
  Shape expected(shapeOf(view.cached).take_front(view.levels.size()));
  llvm::append_range(expected, resultShape(i));
  if (!bad() && shapeOf(view.cached) != Dims(expected))
    t.fail("the file says that the view has shape " + shapeText(expected) +
           ", but the operator gives " + shapeText(shapeOf(view.cached)));
  scope.tensors[names[i]] = std::move(view);
}

void OpCall::write(StringRef name, Value value) {
  TensorRef *self = ref(name);
  if (!self || !value || bad())
    return;
  Value old = self->read(t);
  if (!old)
    return;
  if (static_cast<size_t>(rankOf(value)) > shapeOf(old).size() &&
      self->levels.empty() && !levels.empty()) {
    t.fail(
        "unsupported: a tensor from outside torch.vmap is written inside it");
    return;
  }
  value = t.broadcastTo(t.convert(value, elementOf(old)), shapeOf(old));
  if (lowering.noGradDepth && value)
    value = t.stopGradient(value);
  self->write(t, value);
}

std::string OpCall::unreadArguments() const {
  std::string text;
  for (auto [i, input] : llvm::enumerate(node.inputs))
    if (!seen[i] && !input.value.isNone() &&
        !llvm::is_contained(placement, input.name))
      text += (text.empty() ? "'" : ", '") + input.name + "'";
  return text;
}

} // namespace lockstep::aten
