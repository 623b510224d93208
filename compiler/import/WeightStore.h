// The values of a model's parameters, buffers and constants, which are never in
// the IR: names with shapes, and where to get the bytes. A value comes from the
// exported file, from safetensors files, or, for training from scratch, from a
// rule that the runtime draws by at start. Bytes are read when load() asks for
// them, so compiling a model of any size needs little memory.
#ifndef LOCKSTEP_COMPILER_IMPORT_WEIGHTSTORE_H
#define LOCKSTEP_COMPILER_IMPORT_WEIGHTSTORE_H

#include "runtime/support/dtype.h"
#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

/// How the runtime draws a tensor's first value.
struct InitRule {
  enum class Kind : uint8_t {
    None,    ///< it has a value
    Zeros,   //
    Ones,    //
    Normal,  ///< mean `a`, standard deviation `b`
    Uniform, ///< from `a` to `b`
  };
  Kind kind = Kind::None;
  double a = 0, b = 0;
};

/// Bytes of a tensor, contiguous, row-major, not aligned in general.
struct WeightBytes {
  std::shared_ptr<const void> keepAlive;
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
};

struct WeightEntry {
  enum class Role : uint8_t { Parameter, Buffer, Constant };

  std::string name; ///< qualified name in the model
  Role role = Role::Parameter;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  /// False for a parameter or buffer of the model that the exported graph does
  /// not take: the other name of a tied one, or one without a use. It is saved
  /// with the rest.
  bool inGraph = true;
  /// False: frozen; no gradient, no decay, no optimizer state.
  bool requiresGrad = true;
  /// False for buffers that are not in the state_dict.
  bool persistent = true;
  /// None when the entry has a value.
  InitRule init;
  /// Index of the entry whose storage this one uses; its own when not tied. The
  /// owner comes first and has the same dtype and shape.
  size_t owner = 0;

  /// Where the value lies as it is, if it does so in a safetensors file: such
  /// values may stay outside of the artifact.
  std::string externalFile, externalName;
  /// Reads the value; null when `init` gives it.
  std::function<StatusOr<WeightBytes>()> read;

  bool hasValue() const { return init.kind == InitRule::Kind::None; }
  uint64_t elements() const;
  uint64_t bytes() const { return elements() * dtypeSize(dtype); }
};

class WeightStore {
public:
  /// In the order of the graph's inputs, then those that are not in the graph.
  const std::vector<WeightEntry> &entries() const { return list; }
  /// Null when there is no such entry.
  const WeightEntry *find(std::string_view name) const;
  bool isTied(size_t index) const { return list[index].owner != index; }
  /// Names of the entries that use this one's storage, itself left out.
  std::vector<std::string> tiedNames(size_t index) const;

  /// The value of an entry. Precondition: hasValue().
  StatusOr<WeightBytes> load(const WeightEntry &entry) const;

  /// What a user should know of how names and values were matched.
  const std::vector<std::string> &notes() const { return remarks; }

  // Building.
  /// Names must be distinct; entry.owner is set to the entry itself.
  Status add(WeightEntry entry);
  /// Makes `name` use the storage of `owner`. Errors: unknown names, different
  /// shapes or dtypes.
  Status tie(const std::string &owner, const std::string &name);
  WeightEntry &entry(size_t index) { return list[index]; }
  void addNote(std::string note) { remarks.push_back(std::move(note)); }

private:
  std::vector<WeightEntry> list;
  std::unordered_map<std::string, size_t> byName;
  std::vector<std::string> remarks;
};

/// Flags that decide where values come from.
struct WeightOptions {
  /// "": the exported file; "none": all parameters by `init`; else a
  /// safetensors file or a folder with one or with
  /// model.safetensors.index.json.
  std::string weights;
  std::string init = "normal:0.02"; ///< normal:STD or uniform:BOUND
  std::vector<std::string> ties;    ///< "A=B": B uses A's storage
};

/// Parses --init.
StatusOr<InitRule> parseInitRule(const std::string &text);

/// Converts between floating-point types; nothing for other pairs of types.
std::optional<std::vector<std::byte>>
convertFloats(const std::byte *data, uint64_t elements, DType from, DType to);

} // namespace lockstep

#endif // LOCKSTEP_COMPILER_IMPORT_WEIGHTSTORE_H
