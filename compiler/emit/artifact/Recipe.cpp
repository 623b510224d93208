//===- Recipe.cpp - Hyperparameters, labels, batch, summary ---------------===//
#include "compiler/emit/artifact/Tables.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;

namespace lockstep::emit {

static void addHyperparameters(plan::ProgramOp step, artifact::PlanT &plan) {
  step.walk([&](plan::BufferOp buffer) {
    auto value = buffer->getAttrOfType<FloatAttr>(train::kDefaultAttr);
    if (!value || llvm::any_of(plan.hyperparameters, [&](const auto &h) {
          return h->name == buffer.getName()->str();
        }))
      return;
    auto hyperparameter = std::make_unique<artifact::HyperparameterT>();
    hyperparameter->name = buffer.getName()->str();
    hyperparameter->value = value.getValueAsDouble();
    plan.hyperparameters.push_back(std::move(hyperparameter));
  });
}

static std::unique_ptr<artifact::ScheduleT> makeSchedule(plan::ProgramOp step) {
  auto schedule = std::make_unique<artifact::ScheduleT>();
  auto given = step->getAttrOfType<DictionaryAttr>(train::kLrScheduleAttr);
  if (!given)
    return schedule;
  StringRef kind = given.getAs<StringAttr>("kind").getValue();
  schedule->kind = kind == "cosine"   ? artifact::ScheduleKind::Cosine
                   : kind == "linear" ? artifact::ScheduleKind::Linear
                                      : artifact::ScheduleKind::Constant;
  schedule->warmup_steps = given.getAs<IntegerAttr>("warmup").getInt();
  schedule->total_steps = given.getAs<IntegerAttr>("total").getInt();
  schedule->min_lr = given.getAs<FloatAttr>("min_lr").getValueAsDouble();
  return schedule;
}

/// Labels, and the token input that they follow: the first integer input that
/// is none.
static void addLabels(plan::ProgramOp step, artifact::PlanT &plan) {
  step.walk([&](plan::BufferOp buffer) {
    if (buffer.getKind() != plan::BufferKind::Input || !plan.labels.empty() ||
        buffer.getRole() != train::Role::Label)
      return;
    plan.labels = buffer.getName()->str();
    auto rule = buffer->getAttrOfType<StringAttr>(train::kLabelRuleAttr);
    plan.labels_rule = !rule ? artifact::LabelsRule::Data
                       : rule.getValue() == train::kLabelRuleNextToken
                           ? artifact::LabelsRule::NextToken
                           : artifact::LabelsRule::SameTokens;
  });
  if (plan.labels_rule != artifact::LabelsRule::NextToken &&
      plan.labels_rule != artifact::LabelsRule::SameTokens)
    return;
  step.walk([&](plan::BufferOp buffer) {
    if (buffer.getKind() == plan::BufferKind::Input && plan.labels_of.empty() &&
        buffer.getRole() == train::Role::Input &&
        buffer.getType().getTensor().getElementType().isInteger())
      plan.labels_of = buffer.getName()->str();
  });
}

/// Global samples and tokens of a step: of the first input that is divided, and
/// of the first integer one with a sequence.
static void countBatch(const artifact::ProgramT &step, artifact::PlanT &plan) {
  for (const auto &input : step.inputs) {
    if (input->whole || input->global_shape.empty())
      continue;
    if (plan.global_batch == 0)
      plan.global_batch = input->global_shape[0];
    if (plan.summary->tokens_per_step == 0 &&
        input->dtype == artifact::DType::I64 &&
        input->global_shape.size() == 2 && !input->is_labels &&
        input->vocabulary > 0)
      plan.summary->tokens_per_step =
          input->global_shape[0] * input->global_shape[1];
  }
  plan.summary->samples_per_step = plan.global_batch;
  plan.summary->batch_per_rank =
      plan.global_batch / std::max<int64_t>(plan.ranks, 1);
}

static void countTensors(artifact::PlanT &plan) {
  for (const auto &tensor : plan.tensors) {
    if (tensor->role != artifact::TensorRole::Parameter)
      continue;
    int64_t elements = 1;
    for (int64_t size : tensor->shape)
      elements *= size;
    plan.summary->parameters += elements;
    plan.summary->parameters_decayed += tensor->decayed ? elements : 0;
  }
}

LogicalResult addRecipe(ModuleOp module, const EmitOptions &options,
                        artifact::PlanT &plan) {
  plan::ProgramOp step;
  module.walk([&](plan::ProgramOp program) {
    if (program.getEntry() == train::kStepName)
      step = program;
  });
  if (!step)
    return module.emitError("expected a scheduled program '")
           << train::kStepName << "'";
  plan.model = options.model;
  plan.seed = options.seed;
  plan.options = options.flags;
  plan.loss = options.loss;
  plan.optimizer = options.optimizer;
  if (auto loss = step->getAttrOfType<StringAttr>(train::kLossAttr))
    plan.loss = loss.str();
  if (auto optimizer = step->getAttrOfType<StringAttr>(train::kOptimizerAttr))
    plan.optimizer = optimizer.str();
  addHyperparameters(step, plan);
  plan.schedule = makeSchedule(step);
  addLabels(step, plan);
  plan.summary = std::make_unique<artifact::SummaryT>();
  plan.summary->kernels = plan.kernels.size();
  for (const auto &program : plan.programs) {
    if (program->name == train::kStepName)
      countBatch(*program, plan);
    plan.summary->peak_bytes =
        std::max(plan.summary->peak_bytes, program->arena_bytes);
  }
  step.walk([&](plan::CollectiveStartOp) { ++plan.summary->collectives; });
  SymbolTable symbols(module);
  step.walk([&](plan::LaunchOp launch) {
    auto kernel =
        symbols.lookup<plan::KernelOp>(launch.getKernelAttr().getAttr());
    int64_t repeats = 1;
    if (auto loop = launch->getParentOfType<plan::LoopOp>())
      repeats = loop.getSteps();
    plan.summary->flops_per_step +=
        kernel.getFlops().convertToDouble() * launch.getSegments() * repeats;
  });
  countTensors(plan);
  return success();
}

} // namespace lockstep::emit
