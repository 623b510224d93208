//===- Compile.h - From a model to an artifact ------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_DRIVER_COMPILE_H
#define LOCKSTEP_COMPILER_DRIVER_COMPILE_H

#include "compiler/driver/CompileOptions.h"
#include "runtime/support/status.h"

namespace lockstep {

/// Runs the phases options.from to options.to and writes what the last one made
/// to options.output. Prints a summary unless `quiet`.
Status compile(const CompileOptions &options);

} // namespace lockstep

#endif
