//===- Registration.h - Attaches the cost model -------------------------*- C++
//-*-===//
#ifndef LOCKSTEP_COMPILER_COST_REGISTRATION_H
#define LOCKSTEP_COMPILER_COST_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace lockstep {

/// Implements CostedOpInterface for every `train` operation.
void registerCostedExternalModels(mlir::DialectRegistry &registry);

} // namespace lockstep

#endif
