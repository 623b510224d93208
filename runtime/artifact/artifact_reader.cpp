#include "runtime/artifact/artifact_reader.h"
#include "runtime/artifact/plan_check.h"

#include <algorithm>
#include <cstring>

namespace lockstep::runtime {

static Status damaged(const std::string &what) {
  return inputError(what + ": the file is damaged")
      .remedy("copy it again from where it was made, or compile again");
}

StatusOr<std::unique_ptr<ArtifactReader>>
ArtifactReader::open(const std::string &path) {
  std::unique_ptr<ArtifactReader> reader(new ArtifactReader);
  LOCKSTEP_ASSIGN_OR_RETURN(reader->file, MappedFile::open(path));
  if (Status status = reader->check(); !status.ok())
    return std::move(status).at(path);
  return reader;
}

std::string_view ArtifactReader::bytesOf(const SectionEntry &entry) const {
  return {reinterpret_cast<const char *>(file->data()) + entry.offset,
          entry.bytes};
}

Status ArtifactReader::check() {
  LOCKSTEP_RETURN_IF_ERROR(checkHeader());
  LOCKSTEP_RETURN_IF_ERROR(checkSections());
  for (const SectionEntry &entry : table) {
    std::string name = entry.name;
    if (name == "plan") {
      LOCKSTEP_RETURN_IF_ERROR(readPlan(entry));
    } else if (name.rfind("code.", 0) == 0) {
      codeSections.push_back({name.substr(5), bytesOf(entry)});
    } else if (name == "weights") {
      weights = &entry;
    } else {
      return damaged("unknown section '" + name + "'");
    }
  }
  uint64_t weightsBytes = weights ? weights->bytes : 0;
  for (const auto &tensor : planTable.tensors)
    if (tensor->weight && tensor->weight->file.empty() &&
        (tensor->weight->offset < 0 || tensor->weight->bytes < 0 ||
         uint64_t(tensor->weight->offset) > weightsBytes ||
         uint64_t(tensor->weight->bytes) >
             weightsBytes - uint64_t(tensor->weight->offset)))
      return damaged("the value of '" + tensor->name +
                     "' lies outside the weights section");
  return Status::success();
}

Status ArtifactReader::checkHeader() {
  if (file->size() < sizeof(ArtifactHeader) ||
      std::memcmp(file->data(), artifactMagic, 8) != 0)
    return inputError("not a lockstep artifact")
        .remedy("give a .lockstep file made by lockstep-compile");
  const ArtifactHeader &head = header();
  if (head.version != formatVersion)
    return inputError("artifact format version " +
                      std::to_string(head.version) +
                      ", but this program reads version " +
                      std::to_string(formatVersion))
        .remedy(
            "compile the model again with this version of lockstep-compile");
  uint64_t tableBytes = uint64_t(head.sections) * sizeof(SectionEntry);
  if (tableBytes > file->size() - sizeof(ArtifactHeader))
    return damaged("the file is too short for its section table");
  ArtifactHeader zeroed = head;
  zeroed.root = {};
  std::string covered(reinterpret_cast<const char *>(&zeroed), sizeof(zeroed));
  covered.append(reinterpret_cast<const char *>(file->data()) +
                     sizeof(ArtifactHeader),
                 tableBytes);
  if (sha256(covered.data(), covered.size()) != head.root)
    return damaged("the header does not match its hash");
  if (head.fileBytes != file->size())
    return damaged("expected " + std::to_string(head.fileBytes) +
                   " bytes, but the file has " + std::to_string(file->size()));
  table.resize(head.sections);
  std::memcpy(table.data(), file->data() + sizeof(ArtifactHeader), tableBytes);
  return Status::success();
}

Status ArtifactReader::checkSections() {
  uint64_t position =
      sizeof(ArtifactHeader) + table.size() * sizeof(SectionEntry);
  bool sawPlan = false;
  for (SectionEntry &entry : table) {
    entry.name[sizeof(entry.name) - 1] = 0;
    std::string name = entry.name;
    if (entry.offset < position || entry.offset % sectionAlignment ||
        entry.offset > file->size() ||
        entry.bytes > file->size() - entry.offset)
      return damaged("section '" + name + "' lies outside the file");
    for (; position < entry.offset; ++position)
      if (file->data()[position] != std::byte{0})
        return damaged("the gap before section '" + name + "' is not zero");
    if (name != "weights" &&
        treeHash(file->data() + entry.offset, entry.bytes) != entry.hash)
      return damaged("section '" + name + "' does not match its hash");
    sawPlan |= name == "plan";
    position = entry.offset + entry.bytes;
  }
  if (!sawPlan || position != file->size())
    return damaged("the section table is not complete");
  return Status::success();
}

Status ArtifactReader::readPlan(const SectionEntry &entry) {
  std::string_view bytes = bytesOf(entry);
  flatbuffers::Verifier verifier(
      reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(),
      /*max_depth=*/64,
      /*max_tables=*/1u << 30);
  if (!artifact::VerifyPlanBuffer(verifier))
    return damaged("section 'plan' is not a valid plan");
  artifact::GetPlan(bytes.data())->UnPackTo(&planTable);
  if (Status status = checkPlan(planTable); !status.ok())
    return inputError("inconsistent plan: " + status.what());
  return Status::success();
}

Status ArtifactReader::verifyWeights() const {
  if (!weights ||
      treeHash(file->data() + weights->offset, weights->bytes) == weights->hash)
    return Status::success();
  std::string tensorName;
  for (const auto &tensor : planTable.tensors) {
    if (!tensor->weight || !tensor->weight->file.empty() ||
        tensor->weight->hash.size() != sizeof(Hash))
      continue;
    std::string_view bytes = weightBytes(*tensor->weight);
    Hash hash = treeHash(bytes.data(), bytes.size());
    if (!std::equal(hash.begin(), hash.end(), tensor->weight->hash.begin())) {
      tensorName = " (tensor '" + tensor->name + "')";
      break;
    }
  }
  return damaged("section 'weights'" + tensorName + " does not match its hash")
      .at(path());
}

std::string_view
ArtifactReader::weightBytes(const artifact::WeightT &weight) const {
  if (!weight.file.empty() || !weights)
    return {};
  return bytesOf(*weights).substr(weight.offset, weight.bytes);
}

} // namespace lockstep::runtime
