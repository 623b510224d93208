// Opens a .lockstep file: maps it, checks version and hashes, verifies the
// FlatBuffer and the plan's consistency, and hands out the plan, the machine
// code and the weights. Any changed byte is found and the part it lies in is
// named.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_READER_H
#define LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_READER_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/artifact/format.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/status.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

/// One machine-code section: `target` is its name (x86-64-v3), `object` the ELF
/// shared object inside the mapped file.
struct CodeSection {
  std::string target;
  std::string_view object;
};

class ArtifactReader {
public:
  /// Opens and checks everything but the weights, which verifyWeights() reads.
  /// Errors (all InputError): not an artifact, another format version,
  /// truncated, changed, or a plan that is not consistent.
  static StatusOr<std::unique_ptr<ArtifactReader>>
  open(const std::string &path);
  ArtifactReader(const ArtifactReader &) = delete;
  ArtifactReader &operator=(const ArtifactReader &) = delete;

  const artifact::PlanT &plan() const { return planTable; }
  const std::string &path() const { return file->path(); }
  const Hash &planHash() const { return header().planHash; }
  const Hash &rootHash() const { return header().root; }
  std::string compilerVersion() const { return header().compilerVersion; }
  uint64_t fileBytes() const { return file->size(); }
  const std::vector<CodeSection> &code() const { return codeSections; }
  const std::vector<SectionEntry> &sections() const { return table; }

  /// Compares the weights section with its hash; names the tensor that changed.
  Status verifyWeights() const;

  /// The bytes of an embedded weight (Weight::file empty). Empty for an
  /// external one.
  std::string_view weightBytes(const artifact::WeightT &weight) const;

private:
  ArtifactReader() = default;
  const ArtifactHeader &header() const {
    return *reinterpret_cast<const ArtifactHeader *>(file->data());
  }
  std::string_view bytesOf(const SectionEntry &entry) const;
  Status check();
  Status checkHeader();
  Status checkSections();
  Status readPlan(const SectionEntry &entry);

  std::shared_ptr<const MappedFile> file;
  std::vector<SectionEntry> table;
  std::vector<CodeSection> codeSections;
  const SectionEntry *weights = nullptr;
  artifact::PlanT planTable;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_READER_H
