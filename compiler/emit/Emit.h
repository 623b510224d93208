//===- Emit.h - From scheduled programs to an artifact ----------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_EMIT_H
#define LOCKSTEP_COMPILER_EMIT_EMIT_H

#include "compiler/import/WeightStore.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/artifact/artifact_generated.h"
#include <string>
#include <vector>

namespace lockstep::emit {

struct EmitOptions {
  /// Instruction set of generated kernels (Target.h).
  std::string target = "x86-64-v3";
  /// Name of the model, for people.
  std::string model;
  /// What the step was built from, for people and for the runtime's messages.
  std::string loss = "cross_entropy", optimizer = "sgd";
  uint64_t seed = 0;
  int64_t ranks = 1;
  /// Only kernels that give the same bits in every run.
  bool deterministic = false;
  /// Flags that shaped the plan, for the header of the log.
  std::vector<std::string> flags;
};

/// Compiles the kernels of a module after schedule and writes the artifact.
/// `weights` has the values and rules of the persistent tensors. `plan`, where
/// given, receives what was written. Errors are
/// emitted at the operation, or at the module.
mlir::LogicalResult emitArtifact(mlir::ModuleOp module,
                                 const EmitOptions &options,
                                 const WeightStore &weights,
                                 const std::string &path,
                                 artifact::PlanT *plan = nullptr);

} // namespace lockstep::emit

#endif
