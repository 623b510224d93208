// From an exported program to the `train` dialect: one function @forward over
// global shapes, whose arguments are the model's parameters, buffers and
// inputs, with spelled-out operations recognised (compiler/import/recognize).
//
//   func.func @forward(%0: tensor<512x64xf32> {train.name = "wte.weight",
//   train.role = #train.role<parameter>, train.tied = ["lm_head.weight"]},
//                      %1: tensor<8x64xi64> {train.name = "input_ids",
//                      train.role = #train.role<input>}, ...)
//     -> (tensor<8x64x512xf32> {train.name = "output:0", train.role =
//     #train.role<output>}, ...)
//
// Arguments come in the graph's order: parameters (frozen ones with
// `train.frozen`), buffers, constants that are too large to be in the IR (as
// buffers), inputs (with `train.whole` where asked; role `label` for the inputs
// named as labels), then, where the graph has dropout, "rng". Tied weights are
// one argument. Results: the graph's tensors in their order, "output:I", then
// the new value of every buffer that the graph writes, under the buffer's name.
// A loss inside the graph that is a mean of cross entropy is
// divide(cross_entropy's loss_sum, label_count). Every operation's location has
// the node's name, its Python source line and, as a fused location's metadata,
// the module's path.
#ifndef LOCKSTEP_COMPILER_IMPORT_IMPORT_H
#define LOCKSTEP_COMPILER_IMPORT_IMPORT_H

#include "compiler/import/WeightStore.h"
#include "compiler/import/pt2/ExportedProgram.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace lockstep {

struct ImportOptions {
  /// Binds the symbol that is dimension 0 of the inputs; its example value
  /// where not given.
  std::optional<int64_t> globalBatchSize;
  /// Inputs that are whole on every rank.
  std::vector<std::string> wholeInputs;
  /// Inputs that are labels.
  std::vector<std::string> labels;
  /// Off: the operators as the graph spells them out (for tests of the
  /// lowering).
  bool recognize = true;
};

/// Emits errors as diagnostics of the context: unsupported operators (all of
/// them in one), sizes that do not fit, ...
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importProgram(mlir::MLIRContext &context, const pt2::ExportedProgram &program,
              const ImportOptions &options, const WeightStore &weights);

/// A value for every symbol in the program's sizes.
StatusOr<pt2::SymbolBindings>
bindSymbols(const pt2::ExportedProgram &program,
            std::optional<int64_t> globalBatchSize);

struct UnsupportedTarget {
  std::string target;
  int64_t count = 0;
  /// The first use: "file.py:12 in forward: x = self.fc(y)".
  std::string place;
};
/// Every operator of the program, subgraphs included, that import does not
/// know, in the order of first use.
std::vector<UnsupportedTarget>
findUnsupportedTargets(const pt2::ExportedProgram &program);
/// Base names of the operators that import knows ("aten.add", for all
/// overloads), sorted.
std::vector<std::string> supportedAtenTargets();

} // namespace lockstep

#endif // LOCKSTEP_COMPILER_IMPORT_IMPORT_H
