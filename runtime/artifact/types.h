// Small facts about the schema's types: sizes, names, element counts.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_TYPES_H
#define LOCKSTEP_RUNTIME_ARTIFACT_TYPES_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/support/dtype.h"

#include <string>
#include <vector>

namespace lockstep::runtime {

static_assert(int(DType::F32) == int(artifact::DType::F32) &&
                  int(DType::C64) == int(artifact::DType::MAX),
              "the schema's element types are those of support/dtype.h");

inline DType toDType(artifact::DType dtype) { return DType(dtype); }

/// Bytes per element; 0 for a value outside the enum.
inline int64_t sizeOf(artifact::DType dtype) {
  bool known = dtype >= artifact::DType::MIN && dtype <= artifact::DType::MAX;
  return known ? int64_t(dtypeSize(toDType(dtype))) : 0;
}

/// Safetensors' name of the type: "F32", "BOOL".
inline std::string nameOf(artifact::DType dtype) {
  return sizeOf(dtype) ? std::string(dtypeName(toDType(dtype))) : "?";
}

inline int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

/// "[8, 64]".
inline std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_TYPES_H
