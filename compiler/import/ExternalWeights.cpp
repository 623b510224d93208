#include "compiler/import/ExternalWeights.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sys/stat.h>
#include <tuple>
#include <unordered_set>

using namespace lockstep;
using nlohmann::json;

static bool isFolder(const std::string &path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}
static bool exists(const std::string &path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

StatusOr<ExternalWeights> ExternalWeights::open(const std::string &path) {
  ExternalWeights weights;
  if (!isFolder(path)) {
    LOCKSTEP_RETURN_IF_ERROR(weights.addFile(path));
    return weights;
  }
  std::string single = path + "/model.safetensors",
              index = path + "/model.safetensors.index.json";
  if (exists(index)) {
    LOCKSTEP_RETURN_IF_ERROR(weights.addIndexed(path, index).at(index));
  } else if (exists(single)) {
    LOCKSTEP_RETURN_IF_ERROR(weights.addFile(single));
  } else {
    return inputError("the folder has neither model.safetensors nor "
                      "model.safetensors.index.json")
        .at(path)
        .remedy("give a safetensors file, or a folder that holds one of them");
  }
  return weights;
}

Status ExternalWeights::addFile(const std::string &path) {
  StatusOr<std::shared_ptr<const SafetensorsFile>> file =
      SafetensorsFile::open(path);
  if (!file.ok())
    return std::move(file).status().remedy("--weights takes safetensors files");
  for (const SafetensorsTensor &tensor : (*file)->tensors())
    byName.emplace(tensor.name, Tensor{&tensor, *file});
  return Status::success();
}

Status ExternalWeights::addIndexed(const std::string &folder,
                                   const std::string &indexPath) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto mapping, MappedFile::open(indexPath));
  const char *text = reinterpret_cast<const char *>(mapping->data());
  // {"metadata": {..}, "weight_map": {name: file}}
  json index = json::parse(
      text, text + mapping->size(),
      [](int depth, json::parse_event_t, json &) { return depth <= 8; }, false);
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    return inputError("expected an object 'weight_map' in the index");
  std::map<std::string, std::vector<std::string>> namesOfFile;
  for (const auto &[name, file] : map->items()) {
    if (!file.is_string())
      return inputError("expected the name of a file for tensor '" + name +
                        "'");
    const auto &fileName = file.get_ref<const std::string &>();
    if (fileName.empty() || fileName.find('/') != std::string::npos ||
        fileName[0] == '.')
      return inputError("'" + fileName + "' is not a file of the folder");
    namesOfFile[fileName].push_back(name);
  }
  for (const auto &[fileName, names] : namesOfFile) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto file,
                              SafetensorsFile::open(folder + "/" + fileName));
    for (const std::string &name : names) {
      const SafetensorsTensor *tensor = file->find(name);
      if (!tensor)
        return inputError("the index says that '" + fileName +
                          "' has tensor '" + name + "', but it does not");
      byName.emplace(name, Tensor{tensor, file});
    }
  }
  return Status::success();
}

const ExternalWeights::Tensor *
ExternalWeights::find(const std::string &name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &it->second;
}

//===-- Prefixes ----------------------------------------------------------===//

std::string PrefixRule::apply(const std::string &modelName) const {
  if (modelName.compare(0, modelPrefix.size(), modelPrefix) != 0)
    return "";
  return filePrefix + modelName.substr(modelPrefix.size());
}

/// Length of the longest common suffix that begins after a dot or at the start
/// of both names.
static size_t commonSuffix(const std::string &a, const std::string &b) {
  size_t length = 0, whole = 0;
  while (length < a.size() && length < b.size() &&
         a[a.size() - 1 - length] == b[b.size() - 1 - length]) {
    ++length;
    bool startA = length == a.size() || a[a.size() - 1 - length] == '.';
    bool startB = length == b.size() || b[b.size() - 1 - length] == '.';
    if (startA && startB)
      whole = length;
  }
  return whole;
}

/// The rules by which some file name meets the model names most like it.
static std::vector<PrefixRule>
candidateRules(const std::vector<std::string> &modelNames,
               const std::vector<std::string> &fileNames) {
  std::map<std::pair<std::string, std::string>, size_t> votes;
  for (const std::string &fileName : fileNames) {
    size_t longest = 1;
    std::vector<const std::string *> nearest;
    for (const std::string &modelName : modelNames) {
      size_t length = commonSuffix(modelName, fileName);
      if (length < longest)
        continue;
      if (length > longest)
        nearest.clear();
      longest = length;
      nearest.push_back(&modelName);
    }
    // Many equally near names (every layer's "bias") say nothing.
    if (nearest.size() > 8)
      continue;
    for (const std::string *modelName : nearest)
      ++votes[{modelName->substr(0, modelName->size() - longest),
               fileName.substr(0, fileName.size() - longest)}];
  }
  std::vector<std::pair<size_t, PrefixRule>> ranked;
  for (const auto &[prefixes, count] : votes)
    ranked.push_back({count, {prefixes.first, prefixes.second}});
  std::sort(ranked.begin(), ranked.end(), [](const auto &a, const auto &b) {
    return std::tie(b.first, a.second.modelPrefix, a.second.filePrefix) <
           std::tie(a.first, b.second.modelPrefix, b.second.filePrefix);
  });
  std::vector<PrefixRule> rules = {PrefixRule{}};
  for (size_t i = 0; i < ranked.size() && i < 64; ++i)
    rules.push_back(ranked[i].second);
  return rules;
}

StatusOr<PrefixRule>
lockstep::matchPrefixes(const std::vector<std::string> &modelNames,
                        const std::vector<std::string> &fileNames) {
  std::unordered_set<std::string> inFile(fileNames.begin(), fileNames.end());
  PrefixRule best;
  size_t bestScore = 0;
  std::vector<std::string> bestMap;
  bool ambiguous = false;
  PrefixRule rival;
  for (const PrefixRule &rule : candidateRules(modelNames, fileNames)) {
    std::vector<std::string> map;
    for (const std::string &name : modelNames) {
      std::string mapped = rule.apply(name);
      map.push_back(inFile.count(mapped) ? mapped : std::string());
    }
    size_t score =
        size_t(std::count_if(map.begin(), map.end(),
                             [](const auto &name) { return !name.empty(); }));
    if (score > bestScore) {
      best = rule;
      bestScore = score;
      bestMap = std::move(map);
      ambiguous = false;
    } else if (score == bestScore && score > 0 && map != bestMap &&
               !(best.modelPrefix.empty() && best.filePrefix.empty())) {
      ambiguous = true;
      rival = rule;
    }
  }
  auto describe = [](const PrefixRule &rule) {
    return "'" + rule.modelPrefix + "*' as '" + rule.filePrefix + "*'";
  };
  if (ambiguous)
    return inputError("the names match the model's in two ways: " +
                      describe(best) + " or " + describe(rival))
        .remedy("rename the tensors in the file to the model's names");
  return best;
}
