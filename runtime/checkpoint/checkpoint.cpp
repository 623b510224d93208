#include "runtime/checkpoint/checkpoint.h"
#include "runtime/artifact/types.h"
#include "runtime/safetensors/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace lockstep::runtime {

namespace fs = std::filesystem;
using nlohmann::json;

static constexpr int manifestFormat = 1;
static const char *const modelFile = "model.safetensors";
static const char *const optimizerFile = "optimizer.safetensors";
static const char *const manifestFile = "manifest.json";

static std::string nameOfStep(int64_t step) {
  char name[32];
  snprintf(name, sizeof(name), "step_%08lld", static_cast<long long>(step));
  return name;
}

/// The step in "step_00000200", or -1.
static int64_t stepOfName(const std::string &name) {
  if (name.rfind("step_", 0) != 0 || name.size() < 6 || name.size() > 20 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos)
    return -1;
  return atoll(name.c_str() + 5);
}

using Tensors = std::vector<const artifact::TensorT *>;

static Tensors tensorsOf(const artifact::PlanT &plan, bool optimizer) {
  Tensors tensors;
  for (const auto &tensor : plan.tensors)
    if ((tensor->role == artifact::TensorRole::OptimizerState) == optimizer)
      tensors.push_back(tensor.get());
  return tensors;
}

/// Writes the tensors of one file; with `tied`, under each of their names.
static Status writeTensors(const Session &session, const Tensors &tensors,
                           const std::string &path, bool tied) {
  std::vector<SafetensorsHeaderEntry> entries;
  auto copies = [&](const artifact::TensorT &tensor) {
    return tied ? tensor.tied_names.size() + 1 : 1;
  };
  for (const artifact::TensorT *tensor : tensors)
    for (size_t i = 0; i < copies(*tensor); ++i)
      entries.push_back({i ? tensor->tied_names[i - 1] : tensor->name,
                         toDType(tensor->dtype), tensor->shape});
  LOCKSTEP_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::create(path, entries, {{"format", "pt"}}));
  std::vector<std::byte> copy;
  for (const artifact::TensorT *tensor : tensors) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::byte *values,
        viewOf(session.deviceOf(), tensor->offset, tensor->bytes, copy));
    for (size_t i = 0; i < copies(*tensor); ++i)
      LOCKSTEP_RETURN_IF_ERROR(writer.append(values, uint64_t(tensor->bytes)));
  }
  return writer.commit();
}

static StatusOr<Hash> hashFile(const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                            MappedFile::open(path));
  return treeHash(file->data(), file->size());
}

/// The hash that the manifest carries of its own other fields.
static std::string hashOfManifest(json manifest) {
  manifest.erase("hash");
  std::string text = manifest.dump();
  return toHex(sha256(text.data(), text.size()));
}

static Status writeFiles(const Session &session, const std::string &folder,
                         const CheckpointState &state) {
  const artifact::PlanT &plan = session.plan();
  json manifest = {{"format", manifestFormat},
                   {"model", plan.model},
                   {"step", state.step},
                   {"seed", state.seed},
                   {"optimizer", plan.optimizer}};
  for (bool optimizer : {false, true}) {
    std::string name = optimizer ? optimizerFile : modelFile;
    std::string path = folder + "/" + name;
    LOCKSTEP_RETURN_IF_ERROR(
        writeTensors(session, tensorsOf(plan, optimizer), path, !optimizer));
    LOCKSTEP_ASSIGN_OR_RETURN(Hash hash, hashFile(path));
    manifest["files"][name] = toHex(hash);
  }
  manifest["hash"] = hashOfManifest(manifest);
  std::string text = manifest.dump(1) + "\n";
  return writeFileAtomically(folder + "/" + manifestFile, text.data(),
                             text.size());
}

static void syncFolder(const std::string &path) {
  int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return;
  fsync(folder);
  close(folder);
}

/// A checkpoint of the same step, from a run that was resumed earlier, is
/// replaced at once, so that one of the two is there at any time.
static Status moveInPlace(const fs::path &temporary, const fs::path &target) {
  std::error_code error;
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(),
                RENAME_EXCHANGE) == 0) {
    fs::remove_all(temporary, error);
    return Status::success();
  }
  // There is none, or the file system cannot exchange.
  fs::remove_all(target, error);
  fs::rename(temporary, target, error);
  return error ? inputError(error.message()).at(target.string())
               : Status::success();
}

Status saveCheckpoint(const Session &session, const std::string &folder,
                      const CheckpointState &state, int64_t keep) {
  std::string name = nameOfStep(state.step);
  fs::path target = fs::path(folder) / name;
  fs::path temporary = fs::path(folder) / (".writing-" + name);
  std::error_code error;
  auto failed = [&](Status status) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    return std::move(status)
        .at("saving the checkpoint (earlier ones are unharmed)")
        .remedy("free space or choose another --checkpoint-dir");
  };
  fs::remove_all(temporary, error);
  if (!fs::create_directories(temporary, error))
    return failed(inputError(error.message()).at(temporary.string()));
  if (Status status = writeFiles(session, temporary.string(), state);
      !status.ok())
    return failed(std::move(status));
  if (Status status = moveInPlace(temporary, target); !status.ok())
    return failed(std::move(status));
  syncFolder(folder);
  std::vector<std::string> all = listCheckpoints(folder);
  for (size_t i = size_t(std::max<int64_t>(keep, 0)); keep && i < all.size();
       ++i)
    fs::remove_all(all[i], error);
  return Status::success();
}

std::vector<std::string> listCheckpoints(const std::string &folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(folder, error)) {
    int64_t step = stepOfName(entry.path().filename().string());
    if (step >= 0 && fs::exists(entry.path() / manifestFile, error))
      found.emplace_back(step, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto &[step, path] : found)
    paths.push_back(std::move(path));
  return paths;
}

static StatusOr<json> readManifest(const std::string &folder) {
  std::string path = folder + "/" + manifestFile;
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                            MappedFile::open(path));
  const auto *text = reinterpret_cast<const char *>(file->data());
  json manifest = json::parse(text, text + file->size(), nullptr, false);
  auto isNumber = [&](const char *key) {
    return manifest.contains(key) && manifest[key].is_number_integer();
  };
  if (!manifest.is_object() || !isNumber("format") || !isNumber("step") ||
      !isNumber("seed") || !manifest.contains("files") ||
      !manifest["files"].is_object() || !manifest.contains("hash") ||
      manifest["hash"] != hashOfManifest(manifest))
    return inputError("the manifest is damaged")
        .at(path)
        .remedy("resume from an earlier checkpoint");
  if (manifest["format"] != manifestFormat)
    return inputError("checkpoint format " + manifest["format"].dump() +
                      ", but this program reads format " +
                      std::to_string(manifestFormat))
        .at(path);
  return manifest;
}

/// Copies the tensors of one file to the device.
static Status readTensors(Session &session, const Tensors &tensors,
                          const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> file,
                            SafetensorsFile::open(path));
  for (const artifact::TensorT *tensor : tensors) {
    const SafetensorsTensor *found = file->find(tensor->name);
    for (const std::string &name : tensor->tied_names)
      found = found ? found : file->find(name);
    if (!found)
      return inputError("tensor '" + tensor->name + "' is missing")
          .at(path)
          .remedy("resume with the artifact of the same model and optimizer");
    if (found->dtype != toDType(tensor->dtype) || found->shape != tensor->shape)
      return inputError("tensor '" + tensor->name + "' is " +
                        std::string(dtypeName(found->dtype)) +
                        shapeText(found->shape) + ", but the artifact has " +
                        nameOf(tensor->dtype) + shapeText(tensor->shape))
          .at(path)
          .remedy("resume with the artifact of the same model and optimizer");
    LOCKSTEP_RETURN_IF_ERROR(session.deviceOf().write(
        tensor->offset, found->data, int64_t(found->bytes)));
  }
  return Status::success();
}

StatusOr<CheckpointState> loadCheckpoint(Session &session,
                                         const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(json manifest, readManifest(path));
  for (const char *name : {modelFile, optimizerFile}) {
    std::string file = path + "/" + name;
    LOCKSTEP_ASSIGN_OR_RETURN(Hash hash, hashFile(file));
    if (manifest["files"].value(name, std::string()) != toHex(hash))
      return inputError("the file does not match its hash: it is damaged")
          .at(file)
          .remedy("resume from an earlier checkpoint");
  }
  const artifact::PlanT &plan = session.plan();
  for (bool optimizer : {false, true})
    LOCKSTEP_RETURN_IF_ERROR(
        readTensors(session, tensorsOf(plan, optimizer),
                    path + "/" + (optimizer ? optimizerFile : modelFile)));
  CheckpointState state;
  state.step = manifest["step"].get<int64_t>();
  state.seed = manifest["seed"].get<uint64_t>();
  return state;
}

Status saveWeights(const Session &session, const std::string &path) {
  Tensors tensors;
  for (const artifact::TensorT *tensor : tensorsOf(session.plan(), false))
    if (!tensor->not_saved)
      tensors.push_back(tensor);
  return writeTensors(session, tensors, path, true);
}

} // namespace lockstep::runtime
