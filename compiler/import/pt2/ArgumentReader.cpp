// Decodes the union "Argument", tensor metadata and symbolic values.
#include "compiler/import/pt2/GraphReader.h"

using namespace lockstep;
using namespace lockstep::pt2;

//===-- Small structures
//---------------------------------------------------===//

static Status readTensorArgument(const JsonPlace &place, TensorArgument &out) {
  return readField(place, "name", out.name);
}

static Status readScalarType(const JsonPlace &place, ScalarType &out) {
  int64_t number = 0;
  LOCKSTEP_RETURN_IF_ERROR(read(place, number));
  if (number < 0 || number > 255 ||
      scalarTypeName(static_cast<ScalarType>(number)).empty())
    return place.error("unknown element type " + std::to_string(number));
  out = static_cast<ScalarType>(number);
  return Status::success();
}

template <typename Enum>
static Status readEnum(const JsonPlace &place, Enum last, const char *what,
                       Enum &out) {
  int64_t number = 0;
  LOCKSTEP_RETURN_IF_ERROR(read(place, number));
  if (number < 0 || number > static_cast<int64_t>(last))
    return place.error("unknown " + std::string(what) + " " +
                       std::to_string(number));
  out = static_cast<Enum>(number);
  return Status::success();
}
static Status readLayout(const JsonPlace &place, Layout &out) {
  return readEnum(place, Layout::Strided, "layout", out);
}
static Status readMemoryFormat(const JsonPlace &place, MemoryFormat &out) {
  return readEnum(place, MemoryFormat::PreserveFormat, "memory format", out);
}

static Status readDevice(const JsonPlace &place, Device &out) {
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "type", out.type));
  return optionalField(place, "index", [&](const JsonPlace &index) {
    return read(index, out.index.emplace());
  });
}

static Status unknownKind(const JsonPlace &place, const std::string &kind,
                          const char *what) {
  return place.error("unknown kind '" + kind.substr(0, 80) + "' of " + what);
}

/// {as_name} or the constant {as_int}, {as_bool}, {as_float}.
template <typename SymArgument>
static Status readSymArgument(const JsonPlace &place, const char *constantKind,
                              SymArgument &out) {
  return readUnion(
      place, [&](const std::string &kind, const JsonPlace &value) -> Status {
        if (kind == constantKind)
          return read(value, out.value);
        if (kind != "as_name")
          return unknownKind(place, kind, "a symbolic argument");
        LOCKSTEP_RETURN_IF_ERROR(read(value, out.name));
        if (out.name.empty())
          return value.error("expected a name");
        return Status::success();
      });
}
static Status readSymArgument(const JsonPlace &place, SymIntArgument &out) {
  return readSymArgument(place, "as_int", out);
}
static Status readSymArgument(const JsonPlace &place, SymBoolArgument &out) {
  return readSymArgument(place, "as_bool", out);
}
static Status readSymArgument(const JsonPlace &place, SymFloatArgument &out) {
  return readSymArgument(place, "as_float", out);
}

static Status readOptionalTensor(const JsonPlace &place,
                                 OptionalTensorArgument &out) {
  return readUnion(
      place, [&](const std::string &kind, const JsonPlace &value) -> Status {
        if (kind == "as_none")
          return Status::success();
        if (kind != "as_tensor")
          return unknownKind(place, kind, "an optional tensor");
        LOCKSTEP_RETURN_IF_ERROR(readField(value, "name", out.name));
        if (out.name.empty())
          return value.error("expected a name");
        return Status::success();
      });
}

//===-- Argument
//-----------------------------------------------------------===//

namespace {
using KindReader = Status (*)(GraphReader &, const JsonPlace &, Argument &);
struct KindEntry {
  std::string_view kind;
  KindReader read;
};

/// Reads a value of type T with an overload of read().
template <typename T>
Status plain(GraphReader &, const JsonPlace &place, Argument &out) {
  return read(place, out.value.emplace<T>());
}
template <typename T>
Status plainArray(GraphReader &, const JsonPlace &place, Argument &out) {
  return readArray(place, out.value.emplace<std::vector<T>>());
}
template <typename T, Status (*readOne)(const JsonPlace &, T &)>
Status one(GraphReader &, const JsonPlace &place, Argument &out) {
  return readOne(place, out.value.emplace<T>());
}
template <typename T, Status (*readOne)(const JsonPlace &, T &)>
Status array(GraphReader &, const JsonPlace &place, Argument &out) {
  return readArray(place, out.value.emplace<std::vector<T>>(), readOne);
}
/// as_int_lists, as_float_lists.
template <typename T>
Status nestedArray(GraphReader &, const JsonPlace &place, Argument &out) {
  return readArray(place, out.value.emplace<std::vector<std::vector<T>>>(),
                   [](const JsonPlace &inner, std::vector<T> &list) {
                     return readArray(inner, list);
                   });
}
} // namespace

static Status readNone(GraphReader &, const JsonPlace &, Argument &out) {
  out.value = None{};
  return Status::success();
}

static Status readNestedTensors(GraphReader &, const JsonPlace &place,
                                Argument &out) {
  return readArray(
      place, out.value.emplace<std::vector<std::vector<TensorArgument>>>(),
      [](const JsonPlace &inner, std::vector<TensorArgument> &list) {
        return readArray(inner, list, readTensorArgument);
      });
}

static Status readOptionalTensorArgument(GraphReader &, const JsonPlace &place,
                                         Argument &out) {
  OptionalTensorArgument tensor;
  LOCKSTEP_RETURN_IF_ERROR(readOptionalTensor(place, tensor));
  if (tensor.isNone())
    out.value = None{};
  else
    out.value = TensorArgument{std::move(tensor.name)};
  return Status::success();
}

static Status readGraphArgument(GraphReader &reader, const JsonPlace &place,
                                Argument &out) {
  GraphArgument &argument = out.value.emplace<GraphArgument>();
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "name", argument.name));
  auto graph = std::make_shared<Graph>();
  LOCKSTEP_RETURN_IF_ERROR(field(place, "graph", [&](const JsonPlace &inner) {
    return reader.readGraph(inner, *graph);
  }));
  argument.graph = std::move(graph);
  return Status::success();
}

static Status readCustomObject(GraphReader &, const JsonPlace &place,
                               Argument &out) {
  auto &object = out.value.emplace<CustomObjectArgument>();
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "name", object.name));
  return readField(place, "class_fqn", object.classFqn);
}

static Status readOperator(GraphReader &, const JsonPlace &place,
                           Argument &out) {
  return read(place, out.value.emplace<OperatorArgument>().target);
}

static Status readComplex(GraphReader &, const JsonPlace &place,
                          Argument &out) {
  auto &number = out.value.emplace<ComplexValue>();
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "real", number.real));
  return readField(place, "imag", number.imag);
}

static Status readStringToArgument(GraphReader &reader, const JsonPlace &place,
                                   Argument &out) {
  auto &map = out.value.emplace<StringToArgument>();
  return forEachField(
      place, [&](const std::string &key, const JsonPlace &inner) {
        auto value = std::make_shared<Argument>();
        LOCKSTEP_RETURN_IF_ERROR(reader.readArgument(inner, *value));
        map.entries.emplace_back(key, std::move(value));
        return Status::success();
      });
}

/// The frequent kinds come first. Argument::kindName() has the reverse.
static const KindEntry argumentKinds[] = {
    {"as_tensor", one<TensorArgument, readTensorArgument>},
    {"as_int", plain<int64_t>},
    {"as_ints", plainArray<int64_t>},
    {"as_float", plain<double>},
    {"as_scalar_type", one<ScalarType, readScalarType>},
    {"as_bool", plain<bool>},
    {"as_device", one<Device, readDevice>},
    {"as_layout", one<Layout, readLayout>},
    {"as_tensors", array<TensorArgument, readTensorArgument>},
    {"as_none", readNone},
    {"as_memory_format", one<MemoryFormat, readMemoryFormat>},
    {"as_sym_int", one<SymIntArgument, readSymArgument>},
    {"as_sym_ints", array<SymIntArgument, readSymArgument>},
    {"as_string", plain<std::string>},
    {"as_strings", plainArray<std::string>},
    {"as_floats", plainArray<double>},
    {"as_bools", plainArray<bool>},
    {"as_sym_bool", one<SymBoolArgument, readSymArgument>},
    {"as_sym_bools", array<SymBoolArgument, readSymArgument>},
    {"as_sym_float", one<SymFloatArgument, readSymArgument>},
    {"as_sym_floats", array<SymFloatArgument, readSymArgument>},
    {"as_optional_tensor", readOptionalTensorArgument},
    {"as_optional_tensors", array<OptionalTensorArgument, readOptionalTensor>},
    {"as_nested_tensors", readNestedTensors},
    {"as_graph", readGraphArgument},
    {"as_custom_obj", readCustomObject},
    {"as_operator", readOperator},
    {"as_complex", readComplex},
    {"as_int_lists", nestedArray<int64_t>},
    {"as_float_lists", nestedArray<double>},
    {"as_string_to_argument", readStringToArgument},
};

Status GraphReader::readArgument(const JsonPlace &place, Argument &out) {
  return readUnion(
      place, [&](const std::string &kind, const JsonPlace &value) -> Status {
        for (const KindEntry &entry : argumentKinds)
          if (entry.kind == kind)
            return entry.read(*this, value, out);
        return unknownKind(place, kind, "an argument");
      });
}

//===-- Symbolic values and tensors
//----------------------------------------===//

Status GraphReader::readSymExpr(const JsonPlace &place,
                                std::shared_ptr<const SymInt::Symbolic> &out) {
  std::string text;
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "expr_str", text));
  std::optional<int64_t> hint;
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "hint", [&](const JsonPlace &union_) {
        // Hints of booleans and floats are of no use here.
        return optionalField(union_, "as_int", [&](const JsonPlace &value) {
          return read(value, hint.emplace());
        });
      }));
  std::string key = text + (hint ? "#" + std::to_string(*hint) : "");
  auto [it, isNew] = expressions.try_emplace(std::move(key));
  if (isNew) {
    StatusOr<SymExpr> expr = parseSrepr(text);
    if (!expr.ok())
      return std::move(expr).status().at(place.path());
    it->second = std::make_shared<SymInt::Symbolic>(
        SymInt::Symbolic{std::move(expr).value(), hint});
  }
  out = it->second;
  return Status::success();
}

Status GraphReader::readSymInt(const JsonPlace &place, SymInt &out) {
  return readUnion(
      place, [&](const std::string &kind, const JsonPlace &value) -> Status {
        if (kind == "as_int")
          return read(value, out.value);
        if (kind == "as_expr")
          return readSymExpr(value, out.symbolic);
        return unknownKind(place, kind, "a symbolic size");
      });
}

/// Sizes, strides and offsets.
static Status requireNatural(const JsonPlace &place, const SymInt &value) {
  if (value.isConcrete() && value.value < 0)
    return place.error("expected a number that is not negative, but got " +
                       std::to_string(value.value));
  return Status::success();
}

Status GraphReader::readTensorMeta(const JsonPlace &place, TensorMeta &out) {
  auto natural = [&](const JsonPlace &inner, SymInt &value) {
    LOCKSTEP_RETURN_IF_ERROR(readSymInt(inner, value));
    return requireNatural(inner, value);
  };
  auto naturals = [&](std::vector<SymInt> &values) {
    return [&](const JsonPlace &inner) {
      return readArray(inner, values, natural);
    };
  };
  LOCKSTEP_RETURN_IF_ERROR(field(place, "dtype", [&](const JsonPlace &inner) {
    return readScalarType(inner, out.dtype);
  }));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "sizes", naturals(out.sizes)));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "strides", naturals(out.strides)));
  if (out.sizes.size() != out.strides.size())
    return place.error("expected as many strides as sizes, but got " +
                       std::to_string(out.strides.size()) + " and " +
                       std::to_string(out.sizes.size()));
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "storage_offset", [&](const JsonPlace &inner) {
        return natural(inner, out.storageOffset);
      }));
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "requires_grad", out.requiresGrad));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "layout", [&](const JsonPlace &inner) {
    return readLayout(inner, out.layout);
  }));
  return field(place, "device", [&](const JsonPlace &inner) {
    return readDevice(inner, out.device);
  });
}
