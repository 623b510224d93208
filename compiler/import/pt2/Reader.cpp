// Finds the graph and the weights in the containers of torch 2.6 and later.
#include "compiler/import/pt2/Reader.h"

#include "compiler/import/pt2/Archive.h"
#include "compiler/import/pt2/GraphReader.h"

#include <algorithm>

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
class Pt2Reader {
public:
  Pt2Reader(const Archive &archive, const ReaderLimits &limits)
      : archive(archive), limits(limits) {}

  StatusOr<ExportedProgram> read();

private:
  Status readLegacy();
  Status readArchive();
  Status readModelJson(const Archive::Record &record);
  StatusOr<const Archive::Record *> findModel();
  Status readStoredTensors(const std::string &folder,
                           const std::vector<std::string> &configNames,
                           const std::string &pickleName,
                           std::vector<StoredTensor> &out);
  Status readStoredTensor(const std::string &folder, const JsonPlace &place,
                          StoredTensor &out);
  /// A short text record, without the blanks around it.
  StatusOr<std::string> smallText(const std::string &name);

  const Archive &archive;
  const ReaderLimits &limits;
  ExportedProgram program;
};
} // namespace

constexpr uint64_t maxExpandedBytes = uint64_t(1) << 26;

static bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
static bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

StatusOr<std::string> Pt2Reader::smallText(const std::string &name) {
  const Archive::Record *record = archive.find(name);
  if (!record)
    return inputError("record '" + name + "' is missing")
        .remedy("give a .pt2 file written by torch.export.save");
  LOCKSTEP_ASSIGN_OR_RETURN(std::string text, archive.readText(*record, 4096));
  size_t begin = text.find_first_not_of(" \n\r\t");
  if (begin == std::string::npos)
    return std::string();
  return text.substr(begin, text.find_last_not_of(" \n\r\t") - begin + 1);
}

Status Pt2Reader::readModelJson(const Archive::Record &record) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string text,
                            archive.readText(record, limits.maxJsonBytes));
  StatusOr<JsonDocument> document =
      JsonDocument::parse(text, limits.maxJsonDepth);
  if (!document.ok())
    return std::move(document).status().at(record.name);
  GraphReader reader(program);
  LOCKSTEP_RETURN_IF_ERROR(
      reader.readProgram(JsonPlace(document->root())).at(record.name));
  LOCKSTEP_RETURN_IF_ERROR(verifyProgram(program).at(record.name));
  return nameUserInputs(program, limits.maxJsonDepth).at(record.name);
}

//===-- torch 2.6 and 2.7 -------------------------------------------------===//

static const char *const legacyJson = "serialized_exported_program.json";

Status Pt2Reader::readLegacy() {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string version, smallText("version"));
  if (!startsWith(version, "8."))
    return inputError("archive version '" + version.substr(0, 20) +
                      "' is not supported; expected 8.x")
        .remedy("export the model with torch 2.6 or later");
  program.container = "legacy archive, version " + version.substr(0, 20);
  program.weightsFormat = WeightsFormat::Pickled;
  return readModelJson(*archive.find(legacyJson));
}

//===-- torch 2.8 and later -----------------------------------------------===//

StatusOr<const Archive::Record *> Pt2Reader::findModel() {
  std::string folder = archive.root() + "models/";
  std::vector<const Archive::Record *> models;
  std::string names;
  for (const Archive::Record &record : archive.records()) {
    if (!startsWith(record.name, folder) || !endsWith(record.name, ".json"))
      continue;
    if (record.name == folder + "model.json")
      return &record;
    models.push_back(&record);
    names += (names.empty() ? "" : ", ") + record.name.substr(folder.size());
  }
  if (models.size() == 1)
    return models.front();
  if (models.empty())
    return inputError("no model in the archive: expected '" + folder +
                      "model.json'")
        .remedy("give a .pt2 file written by torch.export.save");
  return inputError("expected one model in the archive, but got " + names)
      .remedy("save each exported program in a file of its own");
}

/// Elements between the first and the last that the view touches, plus one;
/// nothing when the number overflows.
static std::optional<uint64_t> viewExtent(const TensorMeta &meta) {
  uint64_t last = uint64_t(meta.storageOffset.value);
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    uint64_t size = uint64_t(meta.sizes[i].value),
             stride = uint64_t(meta.strides[i].value), step = 0;
    if (size == 0)
      return 0;
    if (__builtin_mul_overflow(size - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  if (last >= uint64_t(INT64_MAX))
    return std::nullopt;
  return last + 1;
}

/// Bytes of a contiguous copy of the view.
static std::optional<uint64_t> viewBytes(const TensorMeta &meta) {
  uint64_t bytes = scalarTypeSize(meta.dtype);
  for (const SymInt &size : meta.sizes)
    if (__builtin_mul_overflow(bytes, uint64_t(size.value), &bytes) ||
        bytes > uint64_t(INT64_MAX))
      return std::nullopt;
  return bytes;
}

Status Pt2Reader::readStoredTensor(const std::string &folder,
                                   const JsonPlace &place, StoredTensor &out) {
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "path_name", out.record));
  LOCKSTEP_RETURN_IF_ERROR(
      readOptionalField(place, "is_param", out.isParameter));
  LOCKSTEP_RETURN_IF_ERROR(
      readOptionalField(place, "use_pickle", out.usesPickle));
  if (!startsWith(out.record, "weight_") && !startsWith(out.record, "tensor_"))
    out.usesPickle = true; // custom and opaque objects
  const Archive::Record *record =
      archive.find(archive.root() + folder + out.record);
  if (!record)
    return place.error("record '" + folder + out.record.substr(0, 100) +
                       "' is missing from the archive");
  out.recordBytes = record->bytes;
  if (out.usesPickle)
    return Status::success();

  GraphReader reader(program);
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "tensor_meta", [&](const JsonPlace &meta) {
        return reader.readTensorMeta(meta, out.meta);
      }));
  bool concrete = out.meta.storageOffset.isConcrete();
  for (size_t i = 0; i < out.meta.sizes.size(); ++i)
    concrete &=
        out.meta.sizes[i].isConcrete() && out.meta.strides[i].isConcrete();
  if (!concrete)
    return place.error("a stored tensor has a symbolic size");
  if (out.meta.layout != Layout::Strided)
    return place.error("a stored tensor is sparse, which is not supported");
  std::optional<uint64_t> extent = viewExtent(out.meta);
  std::optional<uint64_t> bytes = viewBytes(out.meta);
  uint64_t elementBytes = scalarTypeSize(out.meta.dtype);
  if (elementBytes == 0)
    return place.error("a stored tensor has an unknown element type");
  if (!extent || *extent > uint64_t(INT64_MAX) / elementBytes)
    return place.error("the tensor's size overflows 63 bits");
  // An expanded view has more elements than its record; a reader copies them.
  if (!bytes ||
      (!out.isEmpty() && *bytes > maxExpandedBytes && *bytes > out.recordBytes))
    return place.error("the tensor's view is too large");
  if (!out.isEmpty() && *extent * elementBytes > out.recordBytes)
    return place.error("the tensor needs " +
                       std::to_string(*extent * elementBytes) +
                       " bytes, but record '" + out.record + "' has " +
                       std::to_string(out.recordBytes));
  return Status::success();
}

Status Pt2Reader::readStoredTensors(const std::string &folder,
                                    const std::vector<std::string> &configNames,
                                    const std::string &pickleName,
                                    std::vector<StoredTensor> &out) {
  const Archive::Record *config = nullptr;
  for (const std::string &name : configNames)
    if (!config)
      config = archive.find(archive.root() + folder + name);
  if (!config) {
    if (!archive.find(archive.root() + folder + pickleName))
      return inputError("record '" + archive.root() + folder +
                        configNames.front() + "' is missing");
    program.weightsFormat = WeightsFormat::Pickled;
    return Status::success();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::string text,
                            archive.readText(*config, limits.maxJsonBytes));
  StatusOr<JsonDocument> document =
      JsonDocument::parse(text, limits.maxJsonDepth);
  if (!document.ok())
    return std::move(document).status().at(config->name);
  return field(JsonPlace(document->root()), "config",
               [&](const JsonPlace &entries) {
                 return forEachField(entries, [&](const std::string &name,
                                                  const JsonPlace &entry) {
                   StoredTensor tensor;
                   tensor.name = name;
                   LOCKSTEP_RETURN_IF_ERROR(
                       readStoredTensor(folder, entry, tensor));
                   out.push_back(std::move(tensor));
                   return Status::success();
                 });
               })
      .at(config->name);
}

Status Pt2Reader::readArchive() {
  const std::string &root = archive.root();
  LOCKSTEP_ASSIGN_OR_RETURN(std::string format,
                            smallText(root + "archive_format"));
  if (format != "pt2")
    return inputError("archive format '" + format.substr(0, 20) +
                      "' is not supported; expected 'pt2'");
  LOCKSTEP_ASSIGN_OR_RETURN(std::string version,
                            smallText(root + "archive_version"));
  if (version != "0")
    return inputError("archive version '" + version.substr(0, 20) +
                      "' is not supported; expected '0'")
        .remedy("export the model with a torch of 2.8 to 2.15");
  program.container = "pt2 archive, version " + version;
  if (archive.find(root + "byteorder")) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string order, smallText(root + "byteorder"));
    if (order != "little")
      return inputError("byte order '" + order.substr(0, 20) +
                        "' is not supported; expected 'little'");
  }

  LOCKSTEP_ASSIGN_OR_RETURN(const Archive::Record *model, findModel());
  LOCKSTEP_RETURN_IF_ERROR(readModelJson(*model));
  size_t folder = root.size() + std::string("models/").size();
  std::string name = model->name.substr(
      folder, model->name.size() - folder - std::string(".json").size());
  LOCKSTEP_RETURN_IF_ERROR(readStoredTensors(
      "data/weights/",
      {name + "_weights_config.json", name + "_model_param_config.json"},
      name + ".pt", program.weights));
  return readStoredTensors(
      "data/constants/",
      {name + "_constants_config.json", name + "_model_constants_config.json"},
      name + ".pt", program.constants);
}

StatusOr<ExportedProgram> Pt2Reader::read() {
  if (archive.find(legacyJson)) {
    LOCKSTEP_RETURN_IF_ERROR(readLegacy());
  } else if (archive.find(archive.root() + "archive_format")) {
    LOCKSTEP_RETURN_IF_ERROR(readArchive());
  } else {
    bool isPickle = archive.find(archive.root() + "data.pkl");
    return inputError(isPickle ? "a pickle of torch.save, not an exported model"
                               : "not an archive of torch.export")
        .remedy("give a .pt2 file written by torch.export.save");
  }
  return std::move(program);
}

StatusOr<Pt2File> pt2::readPt2(const std::string &path,
                               const ReaderLimits &limits) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const Archive> archive,
                            Archive::open(path, limits.maxArchiveEntries));
  StatusOr<ExportedProgram> program = Pt2Reader(*archive, limits).read();
  if (!program.ok()) {
    Status status = std::move(program).status();
    // The archive's own errors name the file already.
    return startsWith(status.where(), path) ? status
                                            : std::move(status).at(path);
  }
  return Pt2File{std::move(program).value(), std::move(archive)};
}
