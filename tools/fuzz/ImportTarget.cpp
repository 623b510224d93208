// The importer as part of the fuzzer's target.
#include "tools/fuzz/ImportTarget.h"

#include "compiler/import/Import.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

using namespace lockstep;

Status fuzz::importWholly(const pt2::ExportedProgram &program,
                          const WeightStore &weights) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (message.empty())
                                            message = diagnostic.str();
                                          return mlir::success();
                                        });
  if (mlir::failed(importProgram(context, program, {}, weights)))
    return message.empty() ? internalFault("import failed without a message")
                           : inputError(std::move(message));
  return Status::success();
}
