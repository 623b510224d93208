//===- Registration.h - Dialects, interfaces and passes ---------*- C++ -*-===//
//
// The one list of what this compiler consists of. A new dialect, pass pipeline
// or external model is added here and nowhere else.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_DRIVER_REGISTRATION_H
#define LOCKSTEP_COMPILER_DRIVER_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace lockstep {

/// Registers our dialects, the upstream ones that we use, and every interface
/// implementation of the stages.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass and pipeline of the stages, and MLIR's own clean-up
/// passes, with the global pass registry (for tools).
void registerAllPasses();

} // namespace lockstep

#endif
