// Decodes the JSON of an exported graph into the structures of
// ExportedProgram.h. Internal to the reader.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_GRAPHREADER_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_GRAPHREADER_H

#include "compiler/import/pt2/ExportedProgram.h"
#include "compiler/import/pt2/Json.h"

namespace lockstep::pt2 {

class GraphReader {
public:
  /// Strings are interned in `program`, which must outlive the reader.
  explicit GraphReader(ExportedProgram &program) : program(program) {}

  Status readGraph(const JsonPlace &place, Graph &out);
  Status readArgument(const JsonPlace &place, Argument &out);
  Status readTensorMeta(const JsonPlace &place, TensorMeta &out);
  Status readSymInt(const JsonPlace &place, SymInt &out);

  /// The whole document: graph, signature, ranges, versions.
  Status readProgram(const JsonPlace &place);

private:
  Status readNode(const JsonPlace &place, Node &out);
  Status readNodeMetadata(const JsonPlace &place, NodeMetadata &out);
  Status readSymExpr(const JsonPlace &place,
                     std::shared_ptr<const SymInt::Symbolic> &out);
  Status readSymbolTables(const JsonPlace &place, Graph &out);

  Status readSignature(const JsonPlace &place);
  Status readInputSpec(const JsonPlace &place, InputSpec &out);
  Status readOutputSpec(const JsonPlace &place, OutputSpec &out);
  Status readModuleCall(const JsonPlace &place, ModuleCall &out);
  Status readRangeConstraints(const JsonPlace &place);

  ExportedProgram &program;
  /// Expressions already parsed: exports repeat few of them many times.
  std::unordered_map<std::string, std::shared_ptr<const SymInt::Symbolic>>
      expressions;
};

/// Checks names, metadata and pairings of a decoded program; see
/// ExportedProgram.h for the list.
Status verifyProgram(const ExportedProgram &program);

/// Fills InputSpec::target of user inputs from in_spec and forward_arg_names.
Status nameUserInputs(ExportedProgram &program, unsigned maxJsonDepth);

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_GRAPHREADER_H
