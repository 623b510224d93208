// What torch.export wrote, as plain C++ values: the structures mirror PyTorch's
// schema.py (major version 8), with symbolic sizes parsed and strings interned.
// Nothing here is interpreted: ATen's meaning is given in compiler/import/aten.
//
// Reader.h makes an ExportedProgram from a file and has validated, by then:
// every node input and graph output names a value that an earlier node or the
// graph's inputs define, each such value has its entry in tensorValues (or the
// sym tables), specs pair with arguments, dtypes and enums are known, sizes are
// not negative, and each stored tensor's view lies inside its record.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_EXPORTEDPROGRAM_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_EXPORTEDPROGRAM_H

#include "compiler/import/pt2/SymbolicSize.h"
#include "runtime/support/dtype.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace lockstep::pt2 {

/// Element types, numbered as in schema.py (which is not c10's numbering).
enum class ScalarType : uint8_t {
  Unknown = 0,
  U8 = 1,
  I8 = 2,
  I16 = 3,
  I32 = 4,
  I64 = 5,
  F16 = 6,
  F32 = 7,
  F64 = 8,
  C32 = 9,
  C64 = 10,
  C128 = 11,
  Bool = 12,
  BF16 = 13,
  U16 = 28,
  F8E4M3FN = 29,
  F8E5M2 = 30,
  F8E4M3FNUZ = 31,
  F8E5M2FNUZ = 32,
  F8E8M0FNU = 33,
  U32 = 34,
  U64 = 35,
};
/// "float32", "bfloat16", ...: torch's names.
std::string_view scalarTypeName(ScalarType type);
/// Bytes of one element; 0 for Unknown.
unsigned scalarTypeSize(ScalarType type);
/// The storage type; nothing for those that Lockstep has none for.
std::optional<DType> toDType(ScalarType type);

enum class MemoryFormat : uint8_t {
  Unknown = 0,
  ContiguousFormat = 1,
  ChannelsLast = 2,
  ChannelsLast3d = 3,
  PreserveFormat = 4,
};
enum class Layout : uint8_t {
  Unknown = 0,
  SparseCoo = 1,
  SparseCsr = 2,
  SparseCsc = 3,
  SparseBsr = 4,
  SparseBsc = 5,
  Mkldnn = 6,
  Strided = 7,
};
struct Device {
  std::string type; ///< "cpu", "cuda", "meta"
  std::optional<int64_t> index;
};

struct TensorMeta {
  ScalarType dtype = ScalarType::Unknown;
  std::vector<SymInt> sizes;
  std::vector<SymInt> strides; ///< in elements
  SymInt storageOffset;        ///< in elements
  bool requiresGrad = false;
  Layout layout = Layout::Strided;
  Device device;
};

//===-- Arguments ---------------------------------------------------------===//

struct None {};
/// Refers to a value by name.
struct TensorArgument {
  std::string name;
};
/// An element of as_optional_tensors; an empty name is None.
struct OptionalTensorArgument {
  std::string name;
  bool isNone() const { return name.empty(); }
};
/// A named symbolic value, or a constant when the name is empty.
struct SymIntArgument {
  std::string name;
  int64_t value = 0;
  bool isConstant() const { return name.empty(); }
};
struct SymBoolArgument {
  std::string name;
  bool value = false;
  bool isConstant() const { return name.empty(); }
};
struct SymFloatArgument {
  std::string name;
  double value = 0;
  bool isConstant() const { return name.empty(); }
};
struct CustomObjectArgument {
  std::string name, classFqn;
};
struct OperatorArgument {
  std::string target;
};
struct ComplexValue {
  double real = 0, imag = 0;
};
struct Graph;
/// A subgraph of a higher-order operator.
struct GraphArgument {
  std::string name;
  std::shared_ptr<const Graph> graph;
};
struct Argument;
/// as_string_to_argument, in the file's order.
struct StringToArgument {
  std::vector<std::pair<std::string, std::shared_ptr<const Argument>>> entries;
};

/// The union "Argument". as_optional_tensor is given as TensorArgument or None.
struct Argument {
  using Value = std::variant<
      None, TensorArgument, std::vector<TensorArgument>, int64_t,
      std::vector<int64_t>, double, std::vector<double>, std::string,
      std::vector<std::string>, SymIntArgument, std::vector<SymIntArgument>,
      ScalarType, MemoryFormat, Layout, Device, bool, std::vector<bool>,
      SymBoolArgument, std::vector<SymBoolArgument>, GraphArgument,
      std::vector<OptionalTensorArgument>, CustomObjectArgument,
      OperatorArgument, SymFloatArgument, std::vector<SymFloatArgument>,
      ComplexValue, std::vector<std::vector<TensorArgument>>,
      std::vector<std::vector<int64_t>>, StringToArgument,
      std::vector<std::vector<double>>>;
  Value value;

  template <typename T> bool is() const {
    return std::holds_alternative<T>(value);
  }
  /// Null when the argument is of another kind.
  template <typename T> const T *getIf() const {
    return std::get_if<T>(&value);
  }
  bool isNone() const { return is<None>(); }
  /// The name of the tensor, or empty when this is not one tensor.
  std::string_view tensorName() const {
    const TensorArgument *tensor = getIf<TensorArgument>();
    return tensor ? std::string_view(tensor->name) : std::string_view();
  }
  /// The schema's name of the kind: "as_tensor", "as_ints", ...
  std::string_view kindName() const;
};

struct NamedArgument {
  std::string name; ///< the parameter's name in the operator's schema
  Argument value;
  enum class Kind : uint8_t { Unknown = 0, Positional = 1, Keyword = 2 };
  Kind kind = Kind::Unknown;
};

//===-- Graph -------------------------------------------------------------===//

/// One frame of a Python stack trace.
struct SourceFrame {
  std::string_view file;
  int64_t line = 0;
  std::string_view function;
  std::string_view code; ///< the source line, stripped; may be empty
};
/// One level of nn_module_stack, outermost first.
struct ModuleStackEntry {
  std::string_view key, path, type;
};

/// Views into the program's string pool.
struct NodeMetadata {
  std::string_view stackTrace, moduleStack, sourceFnStack, torchFn;

  /// All frames, outermost first.
  std::vector<SourceFrame> frames() const;
  /// The innermost frame; nothing when there is no trace.
  std::optional<SourceFrame> innermostFrame() const;
  std::vector<ModuleStackEntry> modules() const;
  /// "file.py:12 in forward: x = self.fc(y)", or the module path, or "".
  std::string describe() const;
};

struct Node {
  std::string_view target; ///< "torch.ops.aten.linear.default", pooled
  std::string name;        ///< empty in older files
  std::vector<NamedArgument> inputs;
  /// One per result of the operator, tensors or symbols; a list of tensors
  /// (chunk, split) is one as_tensors argument.
  std::vector<Argument> outputs;
  NodeMetadata metadata;

  /// The argument with this parameter name, or null when it was left out and
  /// so has the schema's default.
  const Argument *input(std::string_view name) const;
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  std::unordered_map<std::string, TensorMeta> tensorValues;
  std::unordered_map<std::string, SymInt> symIntValues;
  std::unordered_map<std::string, SymBool> symBoolValues;
  std::unordered_map<std::string, SymFloat> symFloatValues;
  std::unordered_map<std::string, std::string> customObjects; ///< name → class
  bool isSingleTensorReturn = false;

  /// Null when there is no such tensor.
  const TensorMeta *tensor(std::string_view name) const;
};

//===-- Signature ---------------------------------------------------------===//

/// Pairs with Graph::inputs of the same index.
struct InputSpec {
  enum class Kind : uint8_t {
    UserInput,
    Parameter,
    Buffer,
    TensorConstant,
    CustomObject,
    Token,
    ConstantInput,
  };
  Kind kind = Kind::UserInput;
  /// The placeholder (mangled; use it only to find values in the graph).
  Argument argument;
  /// Parameter, buffer, constant or custom object: its qualified name in the
  /// model. User and constant inputs: the name that the user knows it by, from
  /// the model's forward() and the input tree ("input_ids", "batch.mask",
  /// "images.0").
  std::string target;
  bool persistent = true; ///< buffers: in the state_dict
};
std::string_view inputKindName(InputSpec::Kind kind);

/// Pairs with Graph::outputs of the same index.
struct OutputSpec {
  enum class Kind : uint8_t {
    UserOutput,
    LossOutput,
    BufferMutation,
    ParameterMutation,
    GradientToParameter,
    GradientToUserInput,
    UserInputMutation,
    Token,
  };
  Kind kind = Kind::UserOutput;
  Argument argument;
  /// Mutations and gradients: the buffer's, parameter's or user input's name.
  std::string target;
};

struct RangeConstraint {
  std::optional<int64_t> min, max; ///< none: unbounded
};

/// One entry of module_call_graph.
struct ModuleCall {
  std::string fqn;
  bool hasSignature = false;
  std::string inSpec, outSpec; ///< pytree specs, JSON text
  std::vector<std::string> forwardArgNames;
};

//===-- Stored tensors ----------------------------------------------------===//

/// An entry of the weights or constants config: a strided view of a record.
struct StoredTensor {
  std::string name;   ///< qualified name in the model
  std::string record; ///< path_name: equal records mean shared storage
  bool isParameter = false;
  bool usesPickle = false; ///< tensor subclass or custom object: unreadable
  TensorMeta meta;         ///< all concrete
  uint64_t recordBytes = 0;
  /// The record holds no values: exported from the meta device. Sharing an
  /// empty record does not mean that weights are tied.
  bool isEmpty() const { return recordBytes == 0; }
};

enum class WeightsFormat : uint8_t {
  Raw,     ///< torch 2.9 and later: read from the archive
  Pickled, ///< torch 2.6 to 2.8: never read, values must come from elsewhere
};

//===-- Program -----------------------------------------------------------===//

class ExportedProgram {
public:
  ExportedProgram() = default;
  ExportedProgram(ExportedProgram &&) = default;
  ExportedProgram &operator=(ExportedProgram &&) = default;

  Graph graph;
  std::vector<InputSpec> inputSpecs;
  std::vector<OutputSpec> outputSpecs;
  std::map<std::string, RangeConstraint> rangeConstraints;
  std::vector<ModuleCall> moduleCalls;
  std::map<std::string, int64_t> opsetVersion;
  std::vector<std::string> verifiers; ///< "TRAINING": may contain in-place ops
  int64_t schemaMajor = 0, schemaMinor = 0;
  std::string torchVersion; ///< "" when the file does not say

  /// "pt2 archive, version 0" or "legacy archive, version 8.2".
  std::string container;
  WeightsFormat weightsFormat = WeightsFormat::Raw;
  std::vector<StoredTensor> weights, constants; ///< sorted by name

  /// The text once, for the program's lifetime.
  std::string_view intern(std::string_view text) {
    return *pool->insert(std::string(text)).first;
  }

private:
  std::unique_ptr<std::unordered_set<std::string>> pool =
      std::make_unique<std::unordered_set<std::string>>();
};

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_EXPORTEDPROGRAM_H
