#include "compiler/import/pt2/Summary.h"

#include <algorithm>
#include <cstdio>

using namespace lockstep;
using namespace lockstep::pt2;

std::string pt2::typeText(const TensorMeta &meta) {
  std::string text = std::string(scalarTypeName(meta.dtype)) + "[";
  for (size_t i = 0; i < meta.sizes.size(); ++i)
    text += (i ? ", " : "") + toString(meta.sizes[i]);
  return text + "]";
}

/// "1,234,567"
static std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number), text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0)
      text += ',';
    text += digits[i];
  }
  return text;
}

/// "1.2 GB": powers of 1000.
static std::string bytesText(uint64_t bytes) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit ? "%.1f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

namespace {
/// A line of the parameter or buffer table.
struct TensorLine {
  const InputSpec *spec;
  const TensorMeta *meta;
  const StoredTensor *stored;
  std::string tiedTo; ///< the first name of the same values
  uint64_t elements = 0;
};

class Summary {
public:
  Summary(const ExportedProgram &program, const SummaryOptions &options)
      : program(program), options(options) {}
  std::string run();

private:
  void addVersions();
  void addInputs();
  void addOutputs();
  void addParameters();
  void addBuffers();
  void addOperators();
  std::vector<TensorLine> collect(bool parameters) const;
  void addTensorLines(const std::vector<TensorLine> &lines,
                      const std::vector<std::string> &written);
  void line(const std::string &text) { out += text + "\n"; }

  const ExportedProgram &program;
  const SummaryOptions &options;
  std::string out;
};
} // namespace

/// Pads to a column; longer text keeps two blanks.
static std::string padded(const std::string &text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 2, ' ');
}

void Summary::addVersions() {
  line(program.container + ", schema " + std::to_string(program.schemaMajor) +
       "." + std::to_string(program.schemaMinor) + ", torch " +
       (program.torchVersion.empty() ? "unknown" : program.torchVersion));
  bool training = std::find(program.verifiers.begin(), program.verifiers.end(),
                            "TRAINING") != program.verifiers.end();
  line(training ? "undecomposed graph (training form)"
                : "functional graph of core ATen");
}

/// Symbols of an expression, each once.
static void collectSymbols(const SymExpr &expr,
                           std::map<std::string, std::optional<int64_t>> &out,
                           std::optional<int64_t> hint) {
  if (expr.kind == SymExpr::Kind::Symbol)
    out.emplace(expr.symbol, hint);
  for (const SymExpr &operand : expr.operands)
    collectSymbols(operand, out, std::nullopt);
}

void Summary::addInputs() {
  std::map<std::string, std::optional<int64_t>> symbols;
  line("inputs");
  for (const InputSpec &spec : program.inputSpecs) {
    if (spec.kind == InputSpec::Kind::ConstantInput)
      line("  " + padded(spec.target, 24) + "a constant (" +
           std::string(spec.argument.kindName().substr(3)) + ")");
    if (spec.kind != InputSpec::Kind::UserInput)
      continue;
    const TensorMeta *meta = program.graph.tensor(spec.argument.tensorName());
    line("  " + padded(spec.target, 24) +
         (meta ? typeText(*meta)
               : std::string(spec.argument.kindName().substr(3))));
    if (meta)
      for (const SymInt &size : meta->sizes)
        if (!size.isConcrete())
          collectSymbols(size.symbolic->expr, symbols, size.symbolic->hint);
  }
  for (const auto &[symbol, hint] : symbols) {
    std::string text = "  " + symbol;
    auto it = program.rangeConstraints.find(symbol);
    if (it != program.rangeConstraints.end())
      text += " from " +
              (it->second.min ? std::to_string(*it->second.min) : "-inf") +
              " to " +
              (it->second.max ? std::to_string(*it->second.max) : "inf");
    if (hint)
      text += ", exported with " + std::to_string(*hint);
    line(text);
  }
}

void Summary::addOutputs() {
  line("outputs");
  size_t index = 0;
  for (const OutputSpec &spec : program.outputSpecs) {
    if (spec.kind != OutputSpec::Kind::UserOutput &&
        spec.kind != OutputSpec::Kind::LossOutput)
      continue;
    const TensorMeta *meta = program.graph.tensor(spec.argument.tensorName());
    line("  " + padded("output:" + std::to_string(index++), 24) +
         (meta ? typeText(*meta)
               : std::string(spec.argument.kindName().substr(3))));
  }
}

std::vector<TensorLine> Summary::collect(bool parameters) const {
  std::unordered_map<std::string_view, const StoredTensor *> stored;
  for (const StoredTensor &tensor : program.constants)
    stored[tensor.name] = &tensor;
  for (const StoredTensor &tensor : program.weights)
    stored[tensor.name] = &tensor;
  std::unordered_map<std::string, std::string> ownerOfView;
  std::vector<TensorLine> lines;
  for (const InputSpec &spec : program.inputSpecs) {
    bool isParameter = spec.kind == InputSpec::Kind::Parameter;
    bool isBuffer = spec.kind == InputSpec::Kind::Buffer ||
                    spec.kind == InputSpec::Kind::TensorConstant;
    if (parameters ? !isParameter : !isBuffer)
      continue;
    auto it = stored.find(spec.target);
    TensorLine entry{&spec,
                     program.graph.tensor(spec.argument.tensorName()),
                     it == stored.end() ? nullptr : it->second,
                     {},
                     1};
    if (entry.meta)
      for (const SymInt &size : entry.meta->sizes)
        if (__builtin_mul_overflow(entry.elements, uint64_t(size.value),
                                   &entry.elements))
          entry.elements = UINT64_MAX;
    if (entry.stored && !entry.stored->isEmpty() && entry.meta &&
        !entry.stored->usesPickle) {
      std::string view =
          entry.stored->record + "@" +
          std::to_string(entry.stored->meta.storageOffset.value) + ":" +
          typeText(*entry.meta);
      auto [owner, isFirst] = ownerOfView.emplace(view, spec.target);
      if (!isFirst && isParameter)
        entry.tiedTo = owner->second;
    }
    lines.push_back(std::move(entry));
  }
  return lines;
}

void Summary::addTensorLines(const std::vector<TensorLine> &lines,
                             const std::vector<std::string> &written) {
  if (!options.tensors)
    return;
  size_t width = 0;
  for (const TensorLine &entry : lines)
    width = std::max(width, std::min<size_t>(entry.spec->target.size(), 60));
  for (const TensorLine &entry : lines) {
    std::string text = "  " + padded(entry.spec->target, width + 2) +
                       (entry.meta ? typeText(*entry.meta) : "not a tensor");
    if (!entry.tiedTo.empty())
      text += ", tied to " + entry.tiedTo;
    if (entry.spec->kind == InputSpec::Kind::Parameter && entry.stored &&
        !entry.stored->usesPickle && !entry.stored->meta.requiresGrad)
      text += ", frozen";
    if (entry.spec->kind == InputSpec::Kind::TensorConstant)
      text += ", constant";
    if (!entry.spec->persistent)
      text += ", not in the state_dict";
    if (std::find(written.begin(), written.end(), entry.spec->target) !=
        written.end())
      text += ", written";
    if (entry.stored && entry.stored->usesPickle)
      text += ", pickled";
    else if (entry.stored && entry.stored->isEmpty() && entry.elements > 0)
      text += ", no values";
    line(text);
  }
}

void Summary::addParameters() {
  std::vector<TensorLine> lines = collect(/*parameters=*/true);
  uint64_t elements = 0, bytes = 0;
  size_t tied = 0, empty = 0;
  for (const TensorLine &entry : lines) {
    empty += entry.stored && entry.stored->isEmpty() && entry.elements > 0;
    tied += !entry.tiedTo.empty();
    if (!entry.tiedTo.empty() || !entry.meta)
      continue;
    elements += entry.elements;
    bytes += entry.elements * scalarTypeSize(entry.meta->dtype);
  }
  std::string text = "parameters: " + std::to_string(lines.size()) + ", " +
                     grouped(elements) + " values, " + bytesText(bytes);
  if (tied)
    text += ", " + std::to_string(tied) + " tied";
  line(text);
  if (program.weightsFormat == WeightsFormat::Pickled)
    line("  the values are pickled and not read: compile with --weights "
         "FILE.safetensors or --weights none");
  else if (empty)
    line("  " + std::to_string(empty) +
         " have no values: compile with --weights PATH or --weights none");
  addTensorLines(lines, {});
}

void Summary::addBuffers() {
  std::vector<TensorLine> lines = collect(/*parameters=*/false);
  if (lines.empty())
    return;
  std::vector<std::string> written = mutatedBuffers(program);
  line("buffers and constants: " + std::to_string(lines.size()) + ", " +
       std::to_string(written.size()) + " written by the graph");
  addTensorLines(lines, written);
}

static void countTargets(const Graph &graph,
                         std::map<std::string_view, size_t> &counts) {
  for (const Node &node : graph.nodes) {
    ++counts[node.target];
    for (const NamedArgument &input : node.inputs)
      if (const auto *subgraph = input.value.getIf<GraphArgument>())
        countTargets(*subgraph->graph, counts);
  }
}

void Summary::addOperators() {
  std::map<std::string_view, size_t> counts;
  countTargets(program.graph, counts);
  size_t total = 0;
  for (const auto &[target, count] : counts)
    total += count;
  line("operators: " + std::to_string(total) + " calls of " +
       std::to_string(counts.size()));
  if (!options.operators)
    return;
  std::vector<std::pair<size_t, std::string_view>> sorted;
  for (const auto &[target, count] : counts)
    sorted.push_back({count, target});
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (auto [count, target] : sorted) {
    constexpr std::string_view prefix = "torch.ops.";
    if (target.substr(0, prefix.size()) == prefix)
      target.remove_prefix(prefix.size());
    std::string number = std::to_string(count);
    line("  " + std::string(6 - std::min<size_t>(6, number.size()), ' ') +
         number + "  " + std::string(target));
  }
}

std::string Summary::run() {
  addVersions();
  addInputs();
  addOutputs();
  addParameters();
  addBuffers();
  addOperators();
  return std::move(out);
}

std::string pt2::describeProgram(const ExportedProgram &program,
                                 const SummaryOptions &options) {
  return Summary(program, options).run();
}
