// What the processor of this machine can run.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_CPU_FEATURES_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_CPU_FEATURES_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/support/status.h"

#include <string>
#include <vector>

namespace lockstep::runtime {

/// Whether this processor has every feature of the x86-64 level ("x86-64-v3").
bool cpuSupports(const std::string &target);

/// The highest level that cpuSupports: "x86-64", "x86-64-v2", ...
std::string cpuLevel();

/// The best code section that this processor runs; null for a plan without
/// code. Error: there is code, but none for this processor.
StatusOr<const CodeSection *> chooseCode(const std::vector<CodeSection> &code);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_CPU_FEATURES_H
