//===- Diagnostics.h - From MLIR diagnostics to one error line --*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_DRIVER_DIAGNOSTICS_H
#define LOCKSTEP_COMPILER_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/support/status.h"
#include <string>

namespace lockstep {

/// "modeling_gpt2.py:372 (node addmm_3)": the user's source line and the node
/// of the graph, as far as `location` knows them; else "".
std::string describeLocation(mlir::Location location);

/// While it lives, keeps the first error of a context (its notes become the
/// remedy) instead of printing it; warnings are printed as one line.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext &context);

  /// The error collected since the last call, or a fault of ours that names
  /// `stage` when a stage failed without a word.
  Status takeError(const std::string &stage);

private:
  void collect(mlir::Diagnostic &diagnostic);

  std::string what, where, remedy;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace lockstep

#endif
