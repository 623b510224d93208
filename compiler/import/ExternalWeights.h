// Weights given by --weights: one safetensors file, or a folder as Hugging Face
// lays it out (model.safetensors, or its parts with an index). Names there
// often differ from the model's by a prefix.
#ifndef LOCKSTEP_COMPILER_IMPORT_EXTERNALWEIGHTS_H
#define LOCKSTEP_COMPILER_IMPORT_EXTERNALWEIGHTS_H

#include "compiler/import/WeightStore.h"
#include "runtime/safetensors/safetensors.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class ExternalWeights {
public:
  struct Tensor {
    const SafetensorsTensor *tensor = nullptr;
    std::shared_ptr<const SafetensorsFile> file;
  };

  static StatusOr<ExternalWeights> open(const std::string &path);

  const std::map<std::string, Tensor> &tensors() const { return byName; }
  /// Null when there is no such tensor.
  const Tensor *find(const std::string &name) const;

private:
  Status addFile(const std::string &path);
  Status addIndexed(const std::string &folder, const std::string &indexPath);

  std::map<std::string, Tensor> byName;
};

/// How names of a model map to names of a file: a prefix is taken off the one
/// side, and another put in its place.
struct PrefixRule {
  std::string modelPrefix, filePrefix; ///< with their dots; may be empty
  /// The file's name for a model's name; "" when the prefix does not fit.
  std::string apply(const std::string &modelName) const;
};

/// Finds the rule that matches most names. No change is preferred when it
/// matches as many as any; two different rules that match equally many are an
/// error.
StatusOr<PrefixRule> matchPrefixes(const std::vector<std::string> &modelNames,
                                   const std::vector<std::string> &fileNames);

struct ExternalMatch {
  std::vector<size_t> missing; ///< entries that the files have no value for
  std::vector<std::string> unexpected; ///< names that the store does not have
};

/// Gives the store's entries (tied ones through their owner) the values in the
/// files at `path`. Errors: unreadable files, ambiguous prefixes, shapes or
/// dtypes that differ, tied entries with different values.
StatusOr<ExternalMatch> matchExternal(WeightStore &store,
                                      const std::string &path);

/// "[2, 3]"
std::string shapeText(const std::vector<int64_t> &shape);
/// "a, b, c", or the first `limit` and how many more there are.
std::string listNames(const std::vector<std::string> &names,
                      size_t limit = SIZE_MAX);

} // namespace lockstep

#endif // LOCKSTEP_COMPILER_IMPORT_EXTERNALWEIGHTS_H
