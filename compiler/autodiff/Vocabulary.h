//===- Vocabulary.h - Which integers an input may hold ----------*- C++ -*-===//
//
// Token ids and labels are rows of an embedding, classes of a loss, positions
// of a gather. A value outside of these has no meaning, and PyTorch refuses it;
// compiled kernels do not look. So the range is found here, and the runtime
// checks the data against it (kVocabularyAttr, kIgnoredLabelAttr).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_VOCABULARY_H
#define LOCKSTEP_COMPILER_AUTODIFF_VOCABULARY_H

#include "mlir/IR/Value.h"
#include <optional>

namespace lockstep::autodiff {

/// Values lie in [0, size), with `fromEnd` in [-size, size), or are `ignored`.
struct Vocabulary {
  int64_t size;
  std::optional<int64_t> ignored;
  bool fromEnd = false;

  /// What both allow.
  Vocabulary intersect(const Vocabulary &other) const;
};

/// The range that all uses of the integer tensor allow, through operations that
/// move or convert its elements; none where no use limits them.
std::optional<Vocabulary> findVocabulary(mlir::Value integers);

} // namespace lockstep::autodiff

#endif
