// Gives entries of a weight store the values of safetensors files.
#include "compiler/import/ExternalWeights.h"

#include <cstring>
#include <unordered_set>

using namespace lockstep;

std::string lockstep::shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string lockstep::listNames(const std::vector<std::string> &names,
                                size_t limit) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < limit; ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > limit)
    text += " and " + std::to_string(names.size() - limit) + " more";
  return text;
}

/// Reads a safetensors value, converted to the model's dtype.
static StatusOr<WeightBytes> readExternal(const ExternalWeights::Tensor &source,
                                          DType dtype) {
  const SafetensorsTensor &tensor = *source.tensor;
  if (tensor.dtype == dtype)
    return WeightBytes{source.file, tensor.data, tensor.bytes};
  auto converted = convertFloats(
      tensor.data, tensor.bytes / dtypeSize(tensor.dtype), tensor.dtype, dtype);
  if (!converted)
    return internalFault("no conversion of '" + tensor.name + "'");
  auto kept = std::make_shared<std::vector<std::byte>>(std::move(*converted));
  WeightBytes result;
  result.data = kept->data();
  result.bytes = kept->size();
  result.keepAlive = std::move(kept);
  return result;
}

/// Buffers that older Hugging Face models saved and newer ones compute.
static bool isKnownLeftover(const std::string &name) {
  for (std::string_view suffix :
       {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq",
        "position_ids", "token_type_ids"})
    if (name.size() >= suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
      return true;
  return false;
}

namespace {
/// Matching in progress: per entry, its tensor in the files or null.
struct Matching {
  WeightStore &store;
  const std::string &path;
  std::vector<const ExternalWeights::Tensor *> found;
  std::unordered_set<std::string> used;
};
} // namespace

static Status findTensors(Matching &matching, const ExternalWeights &weights,
                          const PrefixRule &rule) {
  std::vector<std::string> wrong;
  for (size_t i = 0; i < matching.found.size(); ++i) {
    const WeightEntry &entry = matching.store.entries()[i];
    std::string name = rule.apply(entry.name);
    const ExternalWeights::Tensor *source = weights.find(name);
    if (!source)
      continue;
    matching.used.insert(name);
    const SafetensorsTensor &tensor = *source->tensor;
    bool convertible = tensor.dtype == entry.dtype ||
                       convertFloats(nullptr, 0, tensor.dtype, entry.dtype);
    if (tensor.shape != entry.shape || !convertible)
      wrong.push_back(
          "'" + entry.name + "' is " + std::string(dtypeName(tensor.dtype)) +
          shapeText(tensor.shape) + " there, but the model has " +
          std::string(dtypeName(entry.dtype)) + shapeText(entry.shape));
    else
      matching.found[i] = source;
  }
  if (!wrong.empty())
    return inputError("tensors differ from the model's: " + listNames(wrong))
        .at(matching.path)
        .remedy("give the weights of this model");
  return Status::success();
}

/// A tied group takes the value of its first member that the files have.
static Status shareTied(Matching &matching) {
  auto &found = matching.found;
  for (size_t i = 0; i < found.size(); ++i) {
    const WeightEntry &entry = matching.store.entries()[i];
    size_t owner = entry.owner;
    if (!found[i] || owner == i)
      continue;
    if (!found[owner]) {
      found[owner] = found[i];
      continue;
    }
    const SafetensorsTensor &a = *found[owner]->tensor, &b = *found[i]->tensor;
    if (a.dtype != b.dtype || std::memcmp(a.data, b.data, a.bytes) != 0)
      return inputError("'" + matching.store.entries()[owner].name + "' and '" +
                        entry.name +
                        "' are tied in the model, but have different values")
          .at(matching.path)
          .remedy("give the weights of this model");
  }
  return Status::success();
}

StatusOr<ExternalMatch> lockstep::matchExternal(WeightStore &store,
                                                const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(ExternalWeights weights,
                            ExternalWeights::open(path));
  std::vector<std::string> modelNames, fileNames;
  for (const WeightEntry &entry : store.entries())
    modelNames.push_back(entry.name);
  for (const auto &[name, tensor] : weights.tensors())
    fileNames.push_back(name);
  StatusOr<PrefixRule> rule = matchPrefixes(modelNames, fileNames);
  if (!rule.ok())
    return std::move(rule).status().at(path);
  if (!rule->modelPrefix.empty() || !rule->filePrefix.empty())
    store.addNote("weights: the model's '" + rule->modelPrefix + "*' are '" +
                  rule->filePrefix + "*' in " + path);

  Matching matching{store, path, {}, {}};
  matching.found.resize(modelNames.size(), nullptr);
  LOCKSTEP_RETURN_IF_ERROR(findTensors(matching, weights, *rule));
  LOCKSTEP_RETURN_IF_ERROR(shareTied(matching));

  ExternalMatch result;
  for (size_t i = 0; i < modelNames.size(); ++i) {
    WeightEntry &entry = store.entry(i);
    if (entry.owner != i)
      continue;
    const ExternalWeights::Tensor *source = matching.found[i];
    if (!source) {
      result.missing.push_back(i);
      continue;
    }
    entry.read = [source = *source, dtype = entry.dtype] {
      return readExternal(source, dtype);
    };
    if (source->tensor->dtype == entry.dtype) {
      entry.externalFile = source->file->path();
      entry.externalName = source->tensor->name;
    }
  }
  std::vector<std::string> ignored;
  for (const std::string &name : fileNames)
    if (!matching.used.count(name))
      (isKnownLeftover(name) ? ignored : result.unexpected).push_back(name);
  if (!ignored.empty())
    store.addNote("weights: not used by the model: " + listNames(ignored, 4));
  return result;
}
