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
static std::vector<std::string> childNames(const Json &spec, size_t count,
                                           unsigned maxDepth) {
  std::vector<std::string> names;
  auto context = spec.find("context");
  if (context != spec.end() && context->is_string()) {
    StatusOr<Json> keys =
        parseJson(context->get_ref<const std::string &>(), maxDepth);
    if (keys.ok() && keys->is_array() && keys->size() == count)
      for (const Json &key : *keys)
        names.push_back(key.is_string() ? key.get<std::string>() : key.dump());
  }
  if (names.empty())
    for (size_t i = 0; i < count; ++i)
      names.push_back(std::to_string(i));
  return names;
}

/// Appends the path of every leaf below `spec`; false for an unknown form.
static bool appendLeaves(const Json &spec, const std::string &prefix,
                         const std::vector<std::string> *firstLevel,
                         unsigned maxDepth, std::vector<std::string> &out) {
  if (!spec.is_object())
    return false;
  auto type = spec.find("type"), children = spec.find("children_spec");
  if (type == spec.end() || children == spec.end() || !children->is_array())
    return false;
  if (type->is_null()) {
    out.push_back(prefix);
    return children->empty();
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
leafNames(const ModuleCall &call, const Json &inSpec, unsigned maxDepth) {
  // [protocol version, tree]
  if (!inSpec.is_array() || inSpec.size() != 2 || inSpec[0] != 1 ||
      !inSpec[1].is_object())
    return std::nullopt;
  auto children = inSpec[1].find("children_spec");
  if (children == inSpec[1].end() || !children->is_array() ||
      children->size() != 2)
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
    StatusOr<Json> tree = parseJson(call.inSpec, maxJsonDepth);
    if (!tree.ok())
      return std::move(tree).status().at(
          "graph_module.module_call_graph: in_spec");
    std::optional<std::vector<std::string>> names =
        leafNames(call, *tree, maxJsonDepth);
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
