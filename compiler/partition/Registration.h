//===- Registration.h - Factor rules of the train operations ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_PARTITION_REGISTRATION_H
#define LOCKSTEP_COMPILER_PARTITION_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace lockstep {

/// Attaches PartitionableOpInterface to every operation of the train dialect
/// (Rules*.cpp).
void registerPartitionableExternalModels(mlir::DialectRegistry &registry);

} // namespace lockstep

#endif
