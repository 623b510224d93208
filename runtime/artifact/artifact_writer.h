// Writes a .lockstep file: the plan as a FlatBuffer, machine code per target,
// weights; hashes over all of it. The same calls give the same bytes. Used by
// compiler/emit and by tests; it throws nothing.
//
//   ArtifactWriter writer("0.1.0");
//   writer.addCode("x86-64-v3", sharedObjectBytes);
//   tensor->weight = writer.addWeight(data, bytes);     // data must live until
//   write() LOCKSTEP_RETURN_IF_ERROR(writer.write(plan, "m.lockstep"));
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_WRITER_H
#define LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_WRITER_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/artifact/format.h"
#include "runtime/support/status.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::runtime {

class ArtifactWriter {
public:
  /// `compilerVersion`: at most 39 characters.
  explicit ArtifactWriter(std::string compilerVersion)
      : compilerVersion(std::move(compilerVersion)) {}

  /// Adds the ELF shared object for a target (x86-64-v3, x86-64-v4). Targets
  /// are written in the order of their names.
  void addCode(std::string target, std::string object);

  /// Adds the values of one tensor to the weights section. The bytes are read
  /// by write() and must live until then. Gives the entry for TensorT::weight,
  /// hash included.
  std::unique_ptr<artifact::WeightT> addWeight(const void *data,
                                               uint64_t bytes);

  /// Checks the plan (checkPlan) and writes the file, first under a temporary
  /// name. An existing file that is not a regular one
  /// (/dev/stdout, a pipe) is written directly. Errors: the output cannot be
  /// written; a plan that is not consistent (internal fault).
  Status write(const artifact::PlanT &plan, const std::string &path) const;

private:
  struct Piece {
    const void *data;
    uint64_t bytes;
    uint64_t offset; ///< within the section
  };
  struct Section {
    std::string name;
    std::vector<Piece> pieces;
    uint64_t bytes;
  };
  std::vector<Section> layOut(const void *plan, uint64_t planBytes) const;

  std::string compilerVersion;
  std::vector<std::pair<std::string, std::string>> code;
  std::vector<Piece> weights;
  uint64_t weightsBytes = 0;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_ARTIFACT_WRITER_H
