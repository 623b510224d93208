#include "runtime/artifact/describe.h"
#include "runtime/artifact/types.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

namespace lockstep::runtime {

using namespace artifact;

__attribute__((format(printf, 1, 2))) static std::string
format(const char *pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char *text = nullptr;
  int size = vasprintf(&text, pattern, arguments);
  va_end(arguments);
  std::string result = size < 0 ? "" : text;
  free(text);
  return result;
}

static long long number(int64_t value) { return value; }

std::string bytesText(double bytes) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit)
    bytes /= 1000;
  return format(unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

namespace {

/// Pads a table's columns to the widest cell.
class Table {
public:
  void row(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  std::string text() const {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], row[i].size());
    }
    std::string result;
    for (const auto &row : rows) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i)
        line +=
            " " + row[i] +
            std::string(i + 1 < row.size() ? widths[i] - row[i].size() + 1 : 0,
                        ' ');
      result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return result;
  }

private:
  std::vector<std::vector<std::string>> rows;
};

class Describer {
public:
  Describer(const ArtifactReader &artifact, const DescribeOptions &options)
      : artifact(artifact), plan(artifact.plan()), options(options) {}
  std::string text();

private:
  void identity();
  void recipe();
  void summary();
  void tensors();
  void inputs(const ProgramT &program);
  void kernels();
  void programs();
  void instructions(const std::vector<std::unique_ptr<InstructionT>> &body,
                    const std::string &indent);
  std::string launch(const LaunchT &launch) const;
  std::string start(const CollectiveStartT &start) const;
  void arena(const ProgramT &program);
  void collectRanges(
      const std::vector<std::unique_ptr<InstructionT>> &body,
      int64_t iterations,
      std::map<std::pair<int64_t, int64_t>, std::string> &ranges) const;

  const ArtifactReader &artifact;
  const PlanT &plan;
  const DescribeOptions &options;
  std::string out;
};

std::string initText(const TensorT &tensor) {
  if (tensor.weight)
    return tensor.weight->file.empty() ? "stored"
                                       : "from " + tensor.weight->file;
  if (!tensor.init)
    return tensor.role == TensorRole::Parameter ? "no value" : "zeros";
  const InitRuleT &rule = *tensor.init;
  switch (rule.kind) {
  case InitKind::Ones:
    return "ones";
  case InitKind::Constant:
    return format("%g", rule.a);
  case InitKind::Normal:
    return format("normal(%g, %g)", rule.a, rule.b);
  case InitKind::Uniform:
    return format("uniform[%g, %g)", rule.a, rule.b);
  default:
    return "zeros";
  }
}

void Describer::identity() {
  out += "artifact  " + artifact.path() + "\n";
  out += format("format    %u, compiler %s, %s\n", formatVersion,
                artifact.compilerVersion().c_str(),
                bytesText(double(artifact.fileBytes())).c_str());
  out += "hash      " + toHex(artifact.rootHash()) + "\n";
  out += "plan      " + toHex(artifact.planHash()) + "\n";
  for (const SectionEntry &section : artifact.sections())
    out += format("section   %-16s %s\n", section.name,
                  bytesText(double(section.bytes)).c_str());
}

void Describer::recipe() {
  out += format("model     %s: %u %s, global batch %lld, seed %llu\n",
                plan.model.c_str(), plan.ranks,
                plan.ranks == 1 ? "rank" : "ranks", number(plan.global_batch),
                static_cast<unsigned long long>(plan.seed));
  out += "loss      " + plan.loss;
  switch (plan.labels_rule) {
  case LabelsRule::Data:
    out += ", labels '" + plan.labels + "' from the data";
    break;
  case LabelsRule::NextToken:
    out += ", labels '" + plan.labels + "' are the next tokens of '" +
           plan.labels_of + "'";
    break;
  case LabelsRule::SameTokens:
    out += ", labels '" + plan.labels + "' are the tokens of '" +
           plan.labels_of + "'";
    break;
  case LabelsRule::NoLabels:
    break;
  }
  out += "\noptimizer " + plan.optimizer;
  for (const auto &entry : plan.hyperparameters)
    out += format(", %s %g", entry->name.c_str(), entry->value);
  if (plan.schedule)
    out += format("\nschedule  %s, %lld warm-up steps of %lld, least rate %g",
                  EnumNameScheduleKind(plan.schedule->kind),
                  number(plan.schedule->warmup_steps),
                  number(plan.schedule->total_steps), plan.schedule->min_lr);
  out += "\n";
  for (const std::string &option : plan.options)
    out += "option    " + option + "\n";
  for (const auto &communicator : plan.communicators)
    out += format("ranks     communicator '%s': %zu group(s) of %zu\n",
                  communicator->name.c_str(), communicator->groups.size(),
                  communicator->groups.empty()
                      ? size_t(0)
                      : communicator->groups[0]->ranks.size());
}

void Describer::summary() {
  if (!plan.summary)
    return;
  const SummaryT &s = *plan.summary;
  out += format("\nparameters %lld (tied once), decayed %lld, not decayed "
                "%lld\n",
                number(s.parameters), number(s.parameters_decayed),
                number(s.parameters - s.parameters_decayed));
  out += format("per step   batch per rank %lld, ", number(s.batch_per_rank));
  out += s.tokens_per_step
             ? format("%lld tokens\n", number(s.tokens_per_step))
             : format("%lld samples\n", number(s.samples_per_step));
  out +=
      format("kernels    %lld, collectives %lld, %.3g GFLOP per rank\n",
             number(s.kernels), number(s.collectives), s.flops_per_step * 1e-9);
  out += format("peak       %lld bytes (%s) of arena per rank\n",
                number(s.peak_bytes), bytesText(double(s.peak_bytes)).c_str());
}

void Describer::tensors() {
  Table table;
  table.row({"name", "role", "type", "shape", "offset", "bytes", "first value",
             "notes"});
  for (const auto &tensor : plan.tensors) {
    std::string notes;
    if (tensor->role == TensorRole::Parameter)
      notes = tensor->decayed ? "decayed" : "not decayed";
    if (tensor->frozen)
      notes += ", frozen";
    for (const std::string &name : tensor->tied_names)
      notes += ", tied with " + name;
    table.row({tensor->name, EnumNameTensorRole(tensor->role),
               nameOf(tensor->dtype), shapeText(tensor->shape),
               std::to_string(tensor->offset), std::to_string(tensor->bytes),
               initText(*tensor), notes});
  }
  out += "\ntensors\n" + table.text();
}

void Describer::inputs(const ProgramT &program) {
  Table table;
  table.row({"input", "type", "global", "per rank", "offset", "notes"});
  for (const auto &input : program.inputs) {
    std::string notes = input->is_labels ? "labels" : "";
    auto note = [&](const std::string &text) {
      notes += (notes.empty() ? "" : ", ") + text;
    };
    if (input->whole)
      note("whole on every rank");
    if (input->vocabulary)
      note(std::to_string(input->least) + " to " +
           std::to_string(input->vocabulary - 1) +
           (input->is_labels && input->ignore_index < 0
                ? " or " + std::to_string(input->ignore_index)
                : ""));
    table.row({input->name, nameOf(input->dtype),
               shapeText(input->global_shape), shapeText(input->local_shape),
               std::to_string(input->offset), notes});
  }
  for (const auto &scalar : program.scalars)
    table.row({scalar->name, nameOf(scalar->dtype), "",
               "[" + std::to_string(scalar->count) + "]",
               std::to_string(scalar->offset),
               EnumNameScalarKind(scalar->kind)});
  out += table.text();
}

/// "generated", "Gemm", "generated, 8 items by 256 threads".
std::string kindText(const KernelT &kernel) {
  if (kernel.library != LibraryKernel::None)
    return EnumNameLibraryKernel(kernel.library);
  if (!kernel.threads)
    return "generated";
  std::string text =
      kernel.grid ? format("generated, %u blocks of %u threads", kernel.grid,
                           kernel.threads)
                  : format("generated, %lld items by %u threads",
                           number(kernel.items_per_block), kernel.threads);
  if (kernel.shared_bytes)
    text += format(" with %u shared bytes", kernel.shared_bytes);
  if (kernel.cluster)
    text += format(", clusters of %u", kernel.cluster);
  if (kernel.overlap)
    text += ", overlapping";
  return text + (kernel.segmented ? ", segmented" : "");
}

void Describer::kernels() {
  Table table;
  table.row({"#", "name", "kind", "MFLOP", "bytes", "source"});
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelT &kernel = *plan.kernels[i];
    std::string sources;
    for (const std::string &source : kernel.sources)
      sources += (sources.empty() ? "" : ", ") + source;
    table.row({std::to_string(i), kernel.name, kindText(kernel),
               format("%.3f", kernel.flops * 1e-6), bytesText(kernel.bytes),
               sources});
  }
  out += "\nkernels\n" + table.text();
}

std::string Describer::launch(const LaunchT &launch) const {
  int64_t items = 0;
  for (const auto &segment : launch.segments)
    items += segment->work_items;
  const KernelT &kernel = *plan.kernels[launch.kernel];
  std::string text = "launch  " + kernel.name;
  if (kernel.library == LibraryKernel::None)
    text += format("  %lld items", number(items));
  if (launch.segments.size() > 1)
    text += format(" in %zu segments", launch.segments.size());
  return text;
}

std::string Describer::start(const CollectiveStartT &start) const {
  int64_t bytes = 0;
  for (const Operand &operand : start.inputs)
    bytes += operand.bytes();
  std::string text =
      format("start   #%u %s", start.id, EnumNameCollectiveKind(start.kind));
  if (start.kind == CollectiveKind::AllReduce ||
      start.kind == CollectiveKind::ReduceScatter)
    text += std::string(" ") + EnumNameReduction(start.reduction);
  return text + " " + nameOf(start.dtype) + " " + bytesText(double(bytes)) +
         " on '" + plan.communicators[start.communicator]->name + "' (" +
         start.name + ")";
}

void Describer::instructions(
    const std::vector<std::unique_ptr<InstructionT>> &body,
    const std::string &indent) {
  for (const auto &instruction : body) {
    const OperationUnion &operation = instruction->operation;
    if (const LaunchT *launch = operation.AsLaunch())
      out += indent + this->launch(*launch) + "\n";
    else if (const CollectiveStartT *start = operation.AsCollectiveStart())
      out += indent + this->start(*start) + "\n";
    else if (const CollectiveWaitT *wait = operation.AsCollectiveWait())
      out += indent + format("wait    #%u\n", wait->id);
    else if (const LoopT *loop = operation.AsLoop()) {
      out += indent + format("loop    %lld times\n", number(loop->count));
      instructions(loop->body, indent + "  ");
    }
  }
}

void Describer::collectRanges(
    const std::vector<std::unique_ptr<InstructionT>> &body, int64_t iterations,
    std::map<std::pair<int64_t, int64_t>, std::string> &ranges) const {
  auto add = [&](const Operand &operand, const std::string &user) {
    int64_t bytes =
        operand.bytes() + operand.iteration_stride() * (iterations - 1);
    ranges.emplace(std::make_pair(operand.offset(), bytes),
                   "temporary, first used by " + user);
  };
  for (const auto &instruction : body) {
    const OperationUnion &operation = instruction->operation;
    if (const LaunchT *launch = operation.AsLaunch()) {
      for (const auto &segment : launch->segments)
        for (const Operand &operand : segment->arguments)
          add(operand, plan.kernels[launch->kernel]->name);
    } else if (const CollectiveStartT *start = operation.AsCollectiveStart()) {
      for (const auto *operands : {&start->inputs, &start->outputs})
        for (const Operand &operand : *operands)
          add(operand, start->name);
    } else if (const LoopT *loop = operation.AsLoop()) {
      collectRanges(loop->body, loop->count, ranges);
    }
  }
}

/// Everything that has a place, by offset; temporaries share places.
void Describer::arena(const ProgramT &program) {
  std::map<std::pair<int64_t, int64_t>, std::string> ranges;
  for (const auto &tensor : plan.tensors)
    ranges[{tensor->offset, tensor->bytes}] =
        std::string(EnumNameTensorRole(tensor->role)) + " " + tensor->name;
  for (const auto &input : program.inputs)
    ranges[{input->offset, input->bytes}] = "Input " + input->name;
  for (const auto &scalar : program.scalars)
    ranges[{scalar->offset, scalar->count * sizeOf(scalar->dtype)}] =
        "Scalar " + scalar->name;
  collectRanges(program.instructions, 1, ranges);
  Table table;
  table.row({"offset", "end", "bytes", "holds"});
  for (const auto &[range, text] : ranges)
    table.row({std::to_string(range.first),
               std::to_string(range.first + range.second),
               std::to_string(range.second), text});
  out += "arena of program '" + program.name + "'\n" + table.text();
}

void Describer::programs() {
  for (const auto &program : plan.programs) {
    out += format("\nprogram '%s': arena of %lld bytes (%s)",
                  program->name.c_str(), number(program->arena_bytes),
                  bytesText(double(program->arena_bytes)).c_str());
    if (program->accumulation_steps > 1)
      out += format(", %lld accumulation steps",
                    number(program->accumulation_steps));
    out += "\n";
    inputs(*program);
    if (options.instructions) {
      out += "instructions\n";
      instructions(program->instructions, "  ");
    }
    if (options.arena)
      arena(*program);
  }
}

std::string Describer::text() {
  identity();
  recipe();
  summary();
  if (options.tensors)
    tensors();
  if (options.kernels)
    kernels();
  programs();
  return std::move(out);
}

} // namespace

std::string describeArtifact(const ArtifactReader &artifact,
                             const DescribeOptions &options) {
  return Describer(artifact, options).text();
}

} // namespace lockstep::runtime
