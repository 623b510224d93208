#include "runtime/artifact/artifact_writer.h"
#include "runtime/artifact/plan_check.h"
#include "runtime/support/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sys/stat.h>

namespace lockstep::runtime {

static uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void ArtifactWriter::addCode(std::string target, std::string object) {
  code.emplace_back(std::move(target), std::move(object));
  std::sort(code.begin(), code.end());
}

std::unique_ptr<artifact::WeightT> ArtifactWriter::addWeight(const void *data,
                                                             uint64_t bytes) {
  uint64_t offset = alignUp(weightsBytes, weightAlignment);
  weights.push_back({data, bytes, offset});
  weightsBytes = offset + bytes;
  auto weight = std::make_unique<artifact::WeightT>();
  weight->offset = static_cast<int64_t>(offset);
  weight->bytes = static_cast<int64_t>(bytes);
  Hash hash = treeHash(data, bytes);
  weight->hash.assign(hash.begin(), hash.end());
  return weight;
}

std::vector<ArtifactWriter::Section>
ArtifactWriter::layOut(const void *plan, uint64_t planBytes) const {
  std::vector<Section> sections;
  sections.push_back({"plan", {{plan, planBytes, 0}}, planBytes});
  for (const auto &[target, object] : code)
    sections.push_back(
        {"code." + target, {{object.data(), object.size(), 0}}, object.size()});
  if (!weights.empty())
    sections.push_back({"weights", weights, weightsBytes});
  return sections;
}

namespace {
/// Where the file goes: an atomic file, or directly into what is not a regular
/// file (/dev/stdout, a pipe).
class Output {
public:
  static StatusOr<Output> open(const std::string &path, uint64_t bytes) {
    Output output;
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      output.stream = fopen(path.c_str(), "wb");
      output.path = path;
      if (!output.stream)
        return output.failure();
      return output;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, bytes));
    output.file = std::move(file);
    return output;
  }
  Status write(const void *data, uint64_t bytes) {
    position += bytes;
    if (file)
      return file->write(data, bytes);
    return fwrite(data, 1, bytes, stream) == bytes ? Status() : failure();
  }
  Status padTo(uint64_t offset) {
    static const char zeros[sectionAlignment] = {};
    while (position < offset)
      LOCKSTEP_RETURN_IF_ERROR(
          write(zeros, std::min<uint64_t>(offset - position, sizeof(zeros))));
    return Status::success();
  }
  Status commit() {
    if (file)
      return file->commit();
    return fclose(stream) == 0 ? Status() : failure();
  }

private:
  Status failure() {
    return inputError(std::string("cannot write the artifact: ") +
                      strerror(errno))
        .at(path)
        .remedy("name another output with -o");
  }
  std::optional<AtomicFile> file;
  FILE *stream = nullptr;
  std::string path;
  uint64_t position = 0;
};
} // namespace

Status ArtifactWriter::write(const artifact::PlanT &plan,
                             const std::string &path) const {
  LOCKSTEP_RETURN_IF_ERROR(checkPlan(plan));
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  artifact::FinishPlanBuffer(builder, artifact::Plan::Pack(builder, &plan));
  std::vector<Section> sections =
      layOut(builder.GetBufferPointer(), builder.GetSize());

  ArtifactHeader header = {};
  std::memcpy(header.magic, artifactMagic, sizeof(header.magic));
  header.version = formatVersion;
  header.sections = static_cast<uint32_t>(sections.size());
  std::strncpy(header.compilerVersion, compilerVersion.c_str(),
               sizeof(header.compilerVersion) - 1);

  std::vector<SectionEntry> table(sections.size());
  uint64_t position =
      sizeof(ArtifactHeader) + table.size() * sizeof(SectionEntry);
  std::string planHashes;
  for (size_t i = 0; i < sections.size(); ++i) {
    SectionEntry &entry = table[i];
    entry = {};
    std::strncpy(entry.name, sections[i].name.c_str(), sizeof(entry.name) - 1);
    entry.offset = alignUp(position, sectionAlignment);
    entry.bytes = sections[i].bytes;
    TreeHasher hasher;
    uint64_t hashed = 0;
    for (const Piece &piece : sections[i].pieces) {
      static const char zeros[weightAlignment] = {};
      hasher.update(zeros, piece.offset - hashed);
      hasher.update(piece.data, piece.bytes);
      hashed = piece.offset + piece.bytes;
    }
    entry.hash = hasher.finish();
    if (sections[i].name != "weights")
      planHashes.append(reinterpret_cast<const char *>(entry.hash.data()),
                        entry.hash.size());
    position = entry.offset + entry.bytes;
  }
  header.fileBytes = position;
  header.planHash = sha256(planHashes.data(), planHashes.size());
  std::string covered(reinterpret_cast<const char *>(&header), sizeof(header));
  covered.append(reinterpret_cast<const char *>(table.data()),
                 table.size() * sizeof(SectionEntry));
  header.root = sha256(covered.data(), covered.size());

  LOCKSTEP_ASSIGN_OR_RETURN(Output output, Output::open(path, position));
  LOCKSTEP_RETURN_IF_ERROR(output.write(&header, sizeof(header)));
  LOCKSTEP_RETURN_IF_ERROR(
      output.write(table.data(), table.size() * sizeof(SectionEntry)));
  for (size_t i = 0; i < sections.size(); ++i)
    for (const Piece &piece : sections[i].pieces) {
      LOCKSTEP_RETURN_IF_ERROR(output.padTo(table[i].offset + piece.offset));
      LOCKSTEP_RETURN_IF_ERROR(output.write(piece.data, piece.bytes));
    }
  return output.commit();
}

} // namespace lockstep::runtime
