//===- Registration.h - Derivatives of the train operations -----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_AUTODIFF_REGISTRATION_H
#define LOCKSTEP_COMPILER_AUTODIFF_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace lockstep {

/// Attaches DifferentiableOpInterface to every operation of the train dialect
/// (Derivatives*.cpp).
void registerDifferentiableExternalModels(mlir::DialectRegistry &registry);

} // namespace lockstep

#endif
