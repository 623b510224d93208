// An exported program in words, for lockstep-inspect.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_SUMMARY_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_SUMMARY_H

#include "compiler/import/pt2/ExportedProgram.h"

#include <string>
#include <vector>

namespace lockstep::pt2 {

struct SummaryOptions {
  bool tensors = true;   ///< a line for each parameter and buffer
  bool operators = true; ///< a line for each operator, with its count
};

/// Several lines: versions, inputs with their symbolic sizes and ranges,
/// outputs, parameters (tied ones counted once), buffers, operators.
std::string describeProgram(const ExportedProgram &program,
                            const SummaryOptions &options = {});

/// Names of the buffers that the graph writes: those that the signature says,
/// and in training graphs, where it says none, those that in-place operators
/// reach, also through views.
std::vector<std::string> mutatedBuffers(const ExportedProgram &program);

/// "float32[8, s0]"
std::string typeText(const TensorMeta &meta);

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_SUMMARY_H
