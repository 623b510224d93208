// Gives user inputs the names that the user knows: the parameter of forward()
// and the path inside a nested argument, from the pytree specification of the
// root module's call. Placeholder names serve where the tree is in a form of
// another version.
#include "compiler/import/pt2/GraphReader.h"

using namespace lockstep;
using namespace lockstep::pt2;

static std::string joined(const std::string &prefix, const std::string &part) {
  return prefix.empty() ? part : prefix + "." + part;
}

/// The keys of a dictionary-like node: its context is a JSON list as text. A
/// named tuple's context holds no names, so its children are numbered.
static std::vector<std::string> childNames(const JsonValue &spec, size_t count,
                                           unsigned maxDepth) {
  std::vector<std::string> names;
  const JsonValue *context = spec.find("context");
  if (context && context->isString()) {
    StatusOr<JsonDocument> keys =
        JsonDocument::parse(context->getText(), maxDepth);
    if (keys.ok() && keys->root().isArray() && keys->root().size() == count)
      for (const JsonValue &key : keys->root())
        names.push_back(key.isString() ? std::string(key.getText())
                                       : key.toText());
  }
  if (names.empty())
    for (size_t i = 0; i < count; ++i)
      names.push_back(std::to_string(i));
  return names;
}

/// Appends the path of every leaf below `spec`; false for an unknown form.
static bool appendLeaves(const JsonValue &spec, const std::string &prefix,
                         const std::vector<std::string> *firstLevel,
                         unsigned maxDepth, std::vector<std::string> &out) {
  if (!spec.isObject())
    return false;
  const JsonValue *type = spec.find("type"),
                  *children = spec.find("children_spec");
  if (!type || !children || !children->isArray())
    return false;
  if (type->isNull()) {
    out.push_back(prefix);
    return children->size() == 0;
  }
  std::vector<std::string> names =
      firstLevel && firstLevel->size() >= children->size()
          ? *firstLevel
          : childNames(spec, children->size(), maxDepth);
  for (size_t i = 0; i < children->size(); ++i)
    if (!appendLeaves((*children)[i], joined(prefix, names[i]), nullptr,
                      maxDepth, out))
      return false;
  return true;
}

/// The leaves of ((positional arguments), {keyword arguments}).
static std::optional<std::vector<std::string>>
leafNames(const ModuleCall &call, const JsonValue &inSpec, unsigned maxDepth) {
  // [protocol version, tree]
  int64_t version = 0;
  if (!inSpec.isArray() || inSpec.size() != 2 || !inSpec[0].isInteger() ||
      !inSpec[0].getInteger(version) || version != 1 || !inSpec[1].isObject())
    return std::nullopt;
  const JsonValue *children = inSpec[1].find("children_spec");
  if (!children || !children->isArray() || children->size() != 2)
    return std::nullopt;
  std::vector<std::string> names;
  const std::vector<std::string> *arguments = &call.forwardArgNames;
  if (!appendLeaves((*children)[0], "", arguments, maxDepth, names) ||
      !appendLeaves((*children)[1], "", nullptr, maxDepth, names))
    return std::nullopt;
  return names;
}

Status pt2::nameUserInputs(ExportedProgram &program, unsigned maxJsonDepth) {
  std::vector<InputSpec *> inputs;
  for (InputSpec &spec : program.inputSpecs)
    if (spec.kind == InputSpec::Kind::UserInput ||
        spec.kind == InputSpec::Kind::ConstantInput)
      inputs.push_back(&spec);
  // Placeholders first: their names stay when the tree does not help.
  for (InputSpec *spec : inputs)
    if (spec->target.empty())
      spec->target = std::string(spec->argument.tensorName());
  for (const ModuleCall &call : program.moduleCalls) {
    if (!call.fqn.empty() || !call.hasSignature || call.inSpec.empty())
      continue;
    StatusOr<JsonDocument> tree =
        JsonDocument::parse(call.inSpec, maxJsonDepth);
    if (!tree.ok())
      return std::move(tree).status().at(
          "graph_module.module_call_graph: in_spec");
    std::optional<std::vector<std::string>> names =
        leafNames(call, tree->root(), maxJsonDepth);
    // Without names of forward()'s parameters a number says less than the
    // placeholder.
    if (!names || names->size() != inputs.size() ||
        call.forwardArgNames.empty())
      return Status::success();
    for (size_t i = 0; i < inputs.size(); ++i)
      inputs[i]->target = (*names)[i];
    return Status::success();
  }
  return Status::success();
}
