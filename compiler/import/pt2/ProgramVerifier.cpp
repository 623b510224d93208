// Checks what the structures of an exported program promise: each name is
// defined once and before its use, has its entry in the table of values, and
// the signature pairs with the graph. Linear in the size of the program.
#include "compiler/import/pt2/GraphReader.h"

#include <unordered_set>

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
class GraphVerifier {
public:
  explicit GraphVerifier(const Graph &graph) : graph(graph) {}
  Status verify();

private:
  /// Calls `body(name, table-membership)` for every value that the argument
  /// names.
  template <typename Body>
  Status forEachName(const Argument &argument, Body &&body) const;
  Status define(const Argument &argument);
  Status use(const Argument &argument) const;

  const Graph &graph;
  std::unordered_set<std::string_view> defined;
};
} // namespace

static std::string quote(const std::string &name) {
  return "'" + name.substr(0, 100) + "'";
}

template <typename Body>
Status GraphVerifier::forEachName(const Argument &argument, Body &&body) const {
  auto tensor = [&](const std::string &name) {
    return body(name, graph.tensorValues.count(name) != 0);
  };
  if (const auto *one = argument.getIf<TensorArgument>())
    return tensor(one->name);
  if (const auto *list = argument.getIf<std::vector<TensorArgument>>()) {
    for (const TensorArgument &element : *list)
      LOCKSTEP_RETURN_IF_ERROR(tensor(element.name));
  } else if (const auto *list =
                 argument.getIf<std::vector<OptionalTensorArgument>>()) {
    for (const OptionalTensorArgument &element : *list)
      if (!element.isNone())
        LOCKSTEP_RETURN_IF_ERROR(tensor(element.name));
  } else if (const auto *lists =
                 argument.getIf<std::vector<std::vector<TensorArgument>>>()) {
    for (const auto &list : *lists)
      for (const TensorArgument &element : list)
        LOCKSTEP_RETURN_IF_ERROR(tensor(element.name));
  } else if (const auto *one = argument.getIf<CustomObjectArgument>()) {
    return body(one->name, graph.customObjects.count(one->name) != 0);
  } else if (const auto *map = argument.getIf<StringToArgument>()) {
    for (const auto &[key, value] : map->entries)
      LOCKSTEP_RETURN_IF_ERROR(forEachName(*value, body));
  }
  // Symbols, single or in lists.
  auto symbols = [&](const auto *one, const auto *list,
                     const auto &table) -> Status {
    if (one && !one->isConstant())
      return body(one->name, table.count(one->name) != 0);
    if (list)
      for (const auto &element : *list)
        if (!element.isConstant())
          LOCKSTEP_RETURN_IF_ERROR(
              body(element.name, table.count(element.name) != 0));
    return Status::success();
  };
  LOCKSTEP_RETURN_IF_ERROR(symbols(
      argument.getIf<SymIntArgument>(),
      argument.getIf<std::vector<SymIntArgument>>(), graph.symIntValues));
  LOCKSTEP_RETURN_IF_ERROR(symbols(
      argument.getIf<SymBoolArgument>(),
      argument.getIf<std::vector<SymBoolArgument>>(), graph.symBoolValues));
  return symbols(argument.getIf<SymFloatArgument>(),
                 argument.getIf<std::vector<SymFloatArgument>>(),
                 graph.symFloatValues);
}

Status GraphVerifier::define(const Argument &argument) {
  return forEachName(
      argument, [&](const std::string &name, bool inTable) -> Status {
        if (!inTable)
          return inputError("value " + quote(name) +
                            " has no entry in the graph's tables");
        if (!defined.insert(name).second)
          return inputError("value " + quote(name) + " is defined twice");
        return Status::success();
      });
}

Status GraphVerifier::use(const Argument &argument) const {
  if (const auto *subgraph = argument.getIf<GraphArgument>())
    return GraphVerifier(*subgraph->graph)
        .verify()
        .at("subgraph " + quote(subgraph->name));
  return forEachName(argument, [&](const std::string &name, bool) -> Status {
    if (!defined.count(name))
      return inputError("value " + quote(name) +
                        " is used but not defined before");
    return Status::success();
  });
}

Status GraphVerifier::verify() {
  defined.reserve(graph.tensorValues.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    LOCKSTEP_RETURN_IF_ERROR(
        define(graph.inputs[i]).at("input " + std::to_string(i)));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    Status status = Status::success();
    for (const NamedArgument &input : node.inputs)
      if (status.ok())
        status = use(input.value);
    for (const Argument &output : node.outputs)
      if (status.ok())
        status = define(output);
    if (!status.ok())
      return std::move(status).at("node " + std::to_string(i) + " (" +
                                  std::string(node.target.substr(0, 100)) +
                                  ")");
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    LOCKSTEP_RETURN_IF_ERROR(
        use(graph.outputs[i]).at("output " + std::to_string(i)));
  return Status::success();
}

/// The graph's argument and the signature's must be the same value.
static bool isPair(const Argument &inGraph, const Argument &inSpec) {
  const auto *tensor = inSpec.getIf<TensorArgument>();
  if (!tensor)
    return inGraph.value.index() == inSpec.value.index();
  if (const auto *object = inGraph.getIf<CustomObjectArgument>())
    return object->name == tensor->name;
  // Tokens have no value in the graph.
  return inGraph.isNone() || inGraph.tensorName() == tensor->name;
}

template <typename Specs>
static Status verifyPairs(const std::vector<Argument> &arguments,
                          const Specs &specs, const std::string &what) {
  if (arguments.size() != specs.size())
    return inputError("expected as many " + what +
                      "s in the signature as in "
                      "the graph, but got " +
                      std::to_string(specs.size()) + " and " +
                      std::to_string(arguments.size()));
  for (size_t i = 0; i < specs.size(); ++i)
    if (!isPair(arguments[i], specs[i].argument))
      return inputError("the signature's " + what + " " + std::to_string(i) +
                        " is not the graph's");
  return Status::success();
}

Status pt2::verifyProgram(const ExportedProgram &program) {
  const Graph &graph = program.graph;
  LOCKSTEP_RETURN_IF_ERROR(GraphVerifier(graph).verify().at("graph"));
  LOCKSTEP_RETURN_IF_ERROR(
      verifyPairs(graph.inputs, program.inputSpecs, "input"));
  LOCKSTEP_RETURN_IF_ERROR(
      verifyPairs(graph.outputs, program.outputSpecs, "output"));
  std::unordered_set<std::string_view> names;
  for (const InputSpec &spec : program.inputSpecs)
    if ((spec.kind == InputSpec::Kind::Parameter ||
         spec.kind == InputSpec::Kind::Buffer ||
         spec.kind == InputSpec::Kind::TensorConstant) &&
        !names.insert(spec.target).second)
      return inputError(std::string(inputKindName(spec.kind)) + " " +
                        quote(spec.target) + " is an input of the graph twice");
  return Status::success();
}
