// Elements of data files into the types that a program wants.
#ifndef LOCKSTEP_RUNTIME_DATA_CONVERT_H
#define LOCKSTEP_RUNTIME_DATA_CONVERT_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/support/dtype.h"
#include "runtime/support/status.h"

namespace lockstep::runtime {

/// Whether elements of type `from` can stand for `to`: integers for wider or
/// narrower integers, floats for floats, bytes and booleans for each other.
bool convertible(DType from, DType to);

/// Copies `count` elements from unaligned memory into an input's memory,
/// checking integers against the input's vocabulary and its own type. Error:
/// the first value that does not fit, with its index.
Status convertElements(const std::byte *source, DType from,
                       const artifact::InputT &input, std::byte *target,
                       int64_t count);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DATA_CONVERT_H
