// An artifact in words, for lockstep-inspect and for messages.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_DESCRIBE_H
#define LOCKSTEP_RUNTIME_ARTIFACT_DESCRIBE_H

#include "runtime/artifact/artifact_reader.h"

#include <string>

namespace lockstep::runtime {

struct DescribeOptions {
  bool tensors = true;      ///< parameters, optimizer state, buffers
  bool kernels = true;      ///< with their sources
  bool instructions = true; ///< every launch and collective, in order
  bool arena = true;        ///< what lies where
};

/// Several lines: identity, summary, then the parts asked for.
std::string describeArtifact(const ArtifactReader &artifact,
                             const DescribeOptions &options = {});

/// "4.0 KB", "1.2 GB": powers of 1000.
std::string bytesText(double bytes);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_DESCRIBE_H
