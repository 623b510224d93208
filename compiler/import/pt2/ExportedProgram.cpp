// Names of types and argument kinds, and the texts in a node's metadata.
#include "compiler/import/pt2/ExportedProgram.h"

#include <charconv>
#include <tuple>

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
struct ScalarTypeInfo {
  ScalarType type;
  std::string_view name;
  unsigned bytes;
  std::optional<DType> dtype;
};
const ScalarTypeInfo scalarTypes[] = {
    {ScalarType::F32, "float32", 4, DType::F32},
    {ScalarType::I64, "int64", 8, DType::I64},
    {ScalarType::Bool, "bool", 1, DType::Bool},
    {ScalarType::BF16, "bfloat16", 2, DType::BF16},
    {ScalarType::F16, "float16", 2, DType::F16},
    {ScalarType::F64, "float64", 8, DType::F64},
    {ScalarType::I32, "int32", 4, DType::I32},
    {ScalarType::I16, "int16", 2, DType::I16},
    {ScalarType::I8, "int8", 1, DType::I8},
    {ScalarType::U8, "uint8", 1, DType::U8},
    {ScalarType::U16, "uint16", 2, DType::U16},
    {ScalarType::U32, "uint32", 4, DType::U32},
    {ScalarType::U64, "uint64", 8, DType::U64},
    {ScalarType::C32, "complex32", 4, std::nullopt},
    {ScalarType::C64, "complex64", 8, DType::C64},
    {ScalarType::C128, "complex128", 16, std::nullopt},
    {ScalarType::F8E4M3FN, "float8_e4m3fn", 1, DType::F8E4M3},
    {ScalarType::F8E5M2, "float8_e5m2", 1, DType::F8E5M2},
    {ScalarType::F8E4M3FNUZ, "float8_e4m3fnuz", 1, std::nullopt},
    {ScalarType::F8E5M2FNUZ, "float8_e5m2fnuz", 1, std::nullopt},
    {ScalarType::F8E8M0FNU, "float8_e8m0fnu", 1, DType::F8E8M0},
    {ScalarType::Unknown, "unknown", 0, std::nullopt},
};
} // namespace

static const ScalarTypeInfo *infoOf(ScalarType type) {
  for (const ScalarTypeInfo &info : scalarTypes)
    if (info.type == type)
      return &info;
  return nullptr;
}

std::string_view pt2::scalarTypeName(ScalarType type) {
  const ScalarTypeInfo *info = infoOf(type);
  return info ? info->name : std::string_view();
}

unsigned pt2::scalarTypeSize(ScalarType type) {
  const ScalarTypeInfo *info = infoOf(type);
  return info ? info->bytes : 0;
}

std::optional<DType> pt2::toDType(ScalarType type) {
  const ScalarTypeInfo *info = infoOf(type);
  return info ? info->dtype : std::nullopt;
}

std::string_view Argument::kindName() const {
  // In the order of Argument::Value.
  static constexpr std::string_view names[] = {
      "as_none",
      "as_tensor",
      "as_tensors",
      "as_int",
      "as_ints",
      "as_float",
      "as_floats",
      "as_string",
      "as_strings",
      "as_sym_int",
      "as_sym_ints",
      "as_scalar_type",
      "as_memory_format",
      "as_layout",
      "as_device",
      "as_bool",
      "as_bools",
      "as_sym_bool",
      "as_sym_bools",
      "as_graph",
      "as_optional_tensors",
      "as_custom_obj",
      "as_operator",
      "as_sym_float",
      "as_sym_floats",
      "as_complex",
      "as_nested_tensors",
      "as_int_lists",
      "as_string_to_argument",
      "as_float_lists",
  };
  static_assert(std::size(names) == std::variant_size_v<Value>);
  return names[value.index()];
}

const Argument *Node::input(std::string_view name) const {
  for (const NamedArgument &argument : inputs)
    if (argument.name == name)
      return &argument.value;
  return nullptr;
}

const TensorMeta *Graph::tensor(std::string_view name) const {
  auto it = tensorValues.find(std::string(name));
  return it == tensorValues.end() ? nullptr : &it->second;
}

//===-- Metadata ----------------------------------------------------------===//

static std::string_view strip(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Cuts the text up to the separator off `rest`.
static std::string_view next(std::string_view &rest, char separator) {
  size_t end = rest.find(separator);
  std::string_view part = rest.substr(0, end);
  rest =
      end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

/// Parses `File "a.py", line 3, in f`.
static std::optional<SourceFrame> parseFrame(std::string_view line) {
  constexpr std::string_view filePrefix = "File \"", linePrefix = "\", line ";
  if (line.substr(0, filePrefix.size()) != filePrefix)
    return std::nullopt;
  size_t fileEnd = line.rfind(linePrefix);
  if (fileEnd == std::string_view::npos || fileEnd < filePrefix.size())
    return std::nullopt;
  SourceFrame frame;
  frame.file = line.substr(filePrefix.size(), fileEnd - filePrefix.size());
  std::string_view rest = line.substr(fileEnd + linePrefix.size());
  std::string_view number = next(rest, ',');
  std::from_chars(number.data(), number.data() + number.size(), frame.line);
  rest = strip(rest);
  if (rest.substr(0, 3) == "in ")
    frame.function = rest.substr(3);
  return frame;
}

std::vector<SourceFrame> NodeMetadata::frames() const {
  std::vector<SourceFrame> result;
  std::string_view rest = stackTrace;
  while (!rest.empty()) {
    std::string_view line = strip(next(rest, '\n'));
    if (std::optional<SourceFrame> frame = parseFrame(line))
      result.push_back(*frame);
    else if (!result.empty() && result.back().code.empty())
      result.back().code = line;
  }
  return result;
}

std::optional<SourceFrame> NodeMetadata::innermostFrame() const {
  std::vector<SourceFrame> all = frames();
  if (all.empty())
    return std::nullopt;
  return all.back();
}

std::vector<ModuleStackEntry> NodeMetadata::modules() const {
  // "key,path,type;key,path,type": keys and types may hold commas, paths none.
  std::vector<ModuleStackEntry> result;
  std::string_view rest = moduleStack;
  while (!rest.empty()) {
    std::string_view entry = next(rest, ';');
    ModuleStackEntry parsed;
    parsed.key = next(entry, ',');
    parsed.path = next(entry, ',');
    parsed.type = entry;
    result.push_back(parsed);
  }
  return result;
}

/// Frames of PyTorch itself say less than the model's line that called them.
static bool isInsideTorch(std::string_view file) {
  return file.substr(0, 6) == "torch/" ||
         file.find("/torch/") != std::string_view::npos;
}

std::string NodeMetadata::describe() const {
  std::vector<SourceFrame> all = frames();
  if (!all.empty()) {
    const SourceFrame *chosen = &all.back();
    for (const SourceFrame &frame : all)
      if (!isInsideTorch(frame.file))
        chosen = &frame;
    if (isInsideTorch(chosen->file))
      chosen = &all.back();
    std::string text = std::string(chosen->file) + ":" +
                       std::to_string(chosen->line) + " in " +
                       std::string(chosen->function);
    if (!chosen->code.empty())
      text += ": " + std::string(chosen->code);
    return text;
  }
  std::vector<ModuleStackEntry> stack = modules();
  return stack.empty() ? "" : std::string(stack.back().path);
}
