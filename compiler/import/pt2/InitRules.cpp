// Which parameters start at one, at zero, or random.
#include "compiler/import/pt2/Weights.h"

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
struct Use {
  bool normScale = false, bias = false;
};
} // namespace

/// What each value of the graph is used for, as far as operators tell.
static std::unordered_map<std::string_view, Use> usesOf(const Graph &graph) {
  std::unordered_map<std::string_view, Use> uses;
  for (const Node &node : graph.nodes) {
    bool isNorm = node.target.find("norm") != std::string_view::npos;
    bool isAddmm = node.target.find("addmm") != std::string_view::npos;
    for (const NamedArgument &input : node.inputs) {
      std::string_view name = input.value.tensorName();
      if (name.empty())
        continue;
      if (isNorm && input.name == "weight")
        uses[name].normScale = true;
      else if (input.name == "bias" || (isAddmm && input.name == "self"))
        uses[name].bias = true;
    }
  }
  return uses;
}

static std::string_view lastComponent(std::string_view name) {
  size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

InitRule pt2::initRuleByName(std::string_view qualifiedName, size_t rank,
                             const InitRule &rule) {
  std::string_view name = lastComponent(qualifiedName);
  // A vector is a bias by its name, else a scale.
  bool isVector = rank < 2;
  bool isBias = isVector ? name.find("bias") != std::string_view::npos ||
                               name == "b" || name == "beta"
                         : name == "bias";
  if (isBias)
    return {InitRule::Kind::Zeros, 0, 0};
  return isVector ? InitRule{InitRule::Kind::Ones, 0, 0} : rule;
}

std::vector<InitRule> pt2::initRules(const ExportedProgram &program,
                                     const InitRule &rule) {
  auto uses = usesOf(program.graph);
  std::vector<InitRule> rules(program.inputSpecs.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    const InputSpec &spec = program.inputSpecs[i];
    if (spec.kind != InputSpec::Kind::Parameter)
      continue;
    std::string_view value = spec.argument.tensorName();
    const TensorMeta *meta = program.graph.tensor(value);
    Use use = uses[value];
    if (use.bias)
      rules[i].kind = InitRule::Kind::Zeros;
    else if (use.normScale)
      rules[i].kind = InitRule::Kind::Ones;
    else
      rules[i] =
          initRuleByName(spec.target, meta ? meta->sizes.size() : 0, rule);
  }
  return rules;
}
