// The first values of tensors that have a rule instead of weights.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_DRAW_H
#define LOCKSTEP_RUNTIME_EXECUTOR_DRAW_H

#include "runtime/artifact/artifact_generated.h"

#include <cstddef>
#include <cstdint>

namespace lockstep::runtime {

/// memory[index] = value, converted to the type.
void storeElement(std::byte *memory, artifact::DType dtype, int64_t index,
                  double value);

/// Writes elements [begin, end) of the tensor to `target`, on all threads.
/// Element i depends on rule, seed, the tensor's name and i alone: it is the
/// same in any layout, on any number of threads and on any processor.
void drawElements(const artifact::TensorT &tensor,
                  const artifact::InitRuleT &rule, uint64_t seed, int64_t begin,
                  int64_t end, std::byte *target);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_DRAW_H
