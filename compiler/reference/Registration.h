//===- Registration.h - Attaches the reference evaluation ---------------*- C++
//-*-===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_REGISTRATION_H
#define LOCKSTEP_COMPILER_REFERENCE_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace lockstep {

/// Implements EvaluableOpInterface for all `train` operations but accumulate
/// and yield, which the interpreter runs.
void registerEvaluableExternalModels(mlir::DialectRegistry &registry);

} // namespace lockstep

#endif
