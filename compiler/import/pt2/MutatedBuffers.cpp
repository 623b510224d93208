// Which buffers a graph writes. Training graphs have in-place operators and do
// not list what they write, so views are followed back to their buffers.
#include "compiler/import/pt2/Summary.h"

#include <algorithm>

using namespace lockstep;
using namespace lockstep::pt2;

/// "torch.ops.aten.add_.Tensor" → "add_".
static std::string_view baseName(std::string_view target) {
  constexpr std::string_view prefix = "torch.ops.aten.";
  if (target.substr(0, prefix.size()) != prefix)
    return {};
  target.remove_prefix(prefix.size());
  return target.substr(0, target.find('.'));
}

/// Results of these share memory with the argument "self".
static bool isView(std::string_view base) {
  static const std::string_view views[] = {
      "alias",     "as_strided", "chunk",   "detach",    "diagonal",
      "expand",    "flatten",    "movedim", "narrow",    "permute",
      "reshape",   "select",     "slice",   "split",     "split_with_sizes",
      "squeeze",   "swapaxes",   "t",       "transpose", "unbind",
      "unflatten", "unsqueeze",  "unfold",  "view",      "view_as",
  };
  return std::find(std::begin(views), std::end(views), base) != std::end(views);
}

namespace {
class WriteFinder {
public:
  explicit WriteFinder(const ExportedProgram &program) {
    for (const InputSpec &spec : program.inputSpecs)
      if (spec.kind == InputSpec::Kind::Buffer)
        bufferOf[spec.argument.tensorName()] = spec.target;
    for (const OutputSpec &spec : program.outputSpecs)
      if (spec.kind == OutputSpec::Kind::BufferMutation)
        written.insert(spec.target);
    for (const Node &node : program.graph.nodes)
      visit(node);
  }
  std::unordered_set<std::string> written;

private:
  void visit(const Node &node);
  void write(const Argument *argument) {
    if (!argument)
      return;
    auto it = bufferOf.find(argument->tensorName());
    if (it != bufferOf.end())
      written.insert(it->second);
  }
  /// A buffer's placeholder, or a view of it → the buffer's name.
  std::unordered_map<std::string_view, std::string> bufferOf;
};
} // namespace

void WriteFinder::visit(const Node &node) {
  std::string_view base = baseName(node.target);
  if (base.empty())
    return;
  const Argument *self = node.input("self");
  bool inPlace = base.size() > 1 && base.back() == '_' && base[0] != '_';
  if (inPlace)
    write(self);
  write(node.input("out"));
  if (base == "batch_norm") {
    const Argument *training = node.input("training");
    const bool *flag = training ? training->getIf<bool>() : nullptr;
    if (flag && *flag) {
      write(node.input("running_mean"));
      write(node.input("running_var"));
    }
  }
  if (!self || (!inPlace && !isView(base)))
    return;
  auto it = bufferOf.find(self->tensorName());
  if (it == bufferOf.end())
    return;
  std::string buffer = it->second;
  for (const Argument &output : node.outputs) {
    if (!output.tensorName().empty())
      bufferOf[output.tensorName()] = buffer;
    if (const auto *list = output.getIf<std::vector<TensorArgument>>())
      for (const TensorArgument &tensor : *list)
        bufferOf[tensor.name] = buffer;
  }
}

std::vector<std::string> pt2::mutatedBuffers(const ExportedProgram &program) {
  WriteFinder finder(program);
  std::vector<std::string> names;
  for (const InputSpec &spec : program.inputSpecs)
    if (spec.kind == InputSpec::Kind::Buffer &&
        finder.written.count(spec.target))
      names.push_back(spec.target);
  return names;
}
