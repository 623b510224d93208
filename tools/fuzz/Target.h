// What the fuzzer runs on each file.
#ifndef LOCKSTEP_TOOLS_FUZZ_TARGET_H
#define LOCKSTEP_TOOLS_FUZZ_TARGET_H

#include "runtime/support/status.h"

#include <string>

namespace lockstep::fuzz {

/// Reads a .pt2 file with all that it holds, as the compiler and
/// lockstep-inspect do. An error is a proper answer.
Status readWholly(const std::string &path);

} // namespace lockstep::fuzz

#endif // LOCKSTEP_TOOLS_FUZZ_TARGET_H
