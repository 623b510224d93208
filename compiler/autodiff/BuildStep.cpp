//===- BuildStep.cpp - @forward becomes @step and @eval --------------------===//
#include "compiler/autodiff/Loss.h"
#include "compiler/autodiff/Optimizer.h"
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Program.h"
#include "compiler/autodiff/ReverseMode.h"
#include "dialects/train/StepAttributes.h"
#include "mlir/IR/IRMapping.h"

namespace lockstep {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "compiler/autodiff/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

namespace {

/// The copy of forward's values in a program under construction.
struct ProgramValues {
  IRMapping mapping;
  /// Null where the program has none.
  Value labels;

  SmallVector<Value> lookup(ArrayRef<ForwardProgram::Slot> slots) const {
    return llvm::map_to_vector(slots, [&](const ForwardProgram::Slot &slot) { return mapping.lookup(slot.value); });
  }
};

} // namespace

//===--- Arguments ---===//

/// The attributes of an argument of forward that the programs keep, besides role and name.
static SmallVector<NamedAttribute> furtherAttributes(const ForwardProgram::Slot &slot) {
  return llvm::filter_to_vector(slot.attributes, [](NamedAttribute attribute) {
    return attribute.getName() != TrainDialect::kRoleAttr && attribute.getName() != TrainDialect::kNameAttr;
  });
}

/// Adds forward's arguments, and the labels where the graph has no input for them.
static ProgramValues addArguments(ProgramBuilder &program, const ForwardProgram &forward, const LossPlan &plan,
                                  const StepOptions &options, bool withRng) {
  ProgramValues values;
  Builder &builder = program.getBuilder();
  auto addRule = [&](SmallVectorImpl<NamedAttribute> &attributes) {
    if (plan.labelRule)
      attributes.push_back(builder.getNamedAttr(kLabelRuleAttr, plan.labelRule));
  };
  for (const ForwardProgram::Slot &slot : forward.getArguments()) {
    if (slot.role == Role::Rng && !withRng)
      continue;
    SmallVector<NamedAttribute> attributes = furtherAttributes(slot);
    bool isLabel = (slot.role == Role::Input || slot.role == Role::Label) && slot.name == plan.labelName;
    if (isLabel)
      addRule(attributes);
    if (slot.role == Role::Parameter && !slot.has(TrainDialect::kFrozenAttr) && isDecayed(slot, options.weightDecayExclude))
      attributes.push_back(builder.getNamedAttr(kDecayedAttr, builder.getUnitAttr()));
    Value argument = program.addArgument(slot.getType(), isLabel ? Role::Label : slot.role, slot.name, attributes);
    values.mapping.map(slot.value, argument);
    if (isLabel)
      values.labels = argument;
  }
  if (plan.labelType) {
    SmallVector<NamedAttribute> attributes;
    addRule(attributes);
    values.labels = program.addArgument(plan.labelType, Role::Label, plan.labelName, attributes);
  }
  return values;
}

//===--- @step ---===//

static void copyForward(ProgramBuilder &program, const ForwardProgram &forward, IRMapping &mapping, bool localBatchNorm) {
  for (Operation &op : forward.getFunction().getBody().front().without_terminator()) {
    Operation *copy = program.getBuilder().clone(op, mapping);
    if (auto norm = dyn_cast<BatchNormOp>(copy))
      norm.setLocalStatistics(localBatchNorm && !norm.getInference());
  }
}

/// Parameters that may be trained: floating point, and not frozen.
static SmallVector<TrainedParameter> findTrainable(const ForwardProgram &forward, const IRMapping &mapping) {
  SmallVector<TrainedParameter> parameters;
  for (const ForwardProgram::Slot &slot : forward.getArguments())
    if (slot.role == Role::Parameter && !slot.has(TrainDialect::kFrozenAttr) && isa<FloatType>(slot.getType().getElementType()))
      parameters.push_back({&slot, mapping.lookup(slot.value), Value()});
  return parameters;
}

/// Fills in the gradients of `loss` and drops parameters that it does not depend on (PyTorch leaves their grad None).
static LogicalResult buildBackward(ProgramBuilder &program, Value loss, SmallVectorImpl<TrainedParameter> &parameters) {
  SmallVector<Operation *> operations =
      llvm::map_to_vector(program.getBlock().getOperations(), [](Operation &op) { return &op; });
  SmallVector<Value> wanted = llvm::map_to_vector(parameters, [](const TrainedParameter &p) { return p.value; });
  Value one = TensorBuilder(program.getBuilder(), program.getLoc()).constantLike(loss, 1);
  FailureOr<SmallVector<Value>> gradients = buildReverseMode(program.getBuilder(), operations, loss, one, wanted);
  if (failed(gradients))
    return failure();
  for (auto [parameter, gradient] : llvm::zip_equal(parameters, *gradients))
    parameter.gradient = gradient;
  llvm::erase_if(parameters, [](const TrainedParameter &p) { return !p.gradient; });
  if (parameters.empty())
    return program.getFunction().emitError("the loss depends on no trainable parameter");
  return success();
}

/// What the runtime must know of the recipe besides the hyperparameters.
static void setRecipe(func::FuncOp step, const StepOptions &options) {
  Builder builder(step.getContext());
  SmallVector<NamedAttribute> schedule{
      builder.getNamedAttr("kind", builder.getStringAttr(options.lrSchedule)),
      builder.getNamedAttr("warmup", builder.getI64IntegerAttr(options.warmupSteps)),
      builder.getNamedAttr("total", builder.getI64IntegerAttr(options.totalSteps)),
      builder.getNamedAttr("min_lr", builder.getF64FloatAttr(options.minLr))};
  step->setAttr(kLrScheduleAttr, builder.getDictionaryAttr(schedule));
  step->setAttr(kAccumulationStepsAttr, builder.getI64IntegerAttr(options.accumulationSteps));
}

static LogicalResult buildStep(const ForwardProgram &forward, const LossPlan &plan, const StepOptions &options) {
  ProgramBuilder program(forward.getFunction(), kStepName);
  ProgramValues values = addArguments(program, forward, plan, options, /*withRng=*/true);
  copyForward(program, forward, values.mapping, options.localBatchNorm);
  TensorBuilder b(program.getBuilder(), program.getLoc());
  Value loss = buildLoss(b, plan, values.lookup(forward.getOutputs()), values.labels, options).getLoss(b);

  SmallVector<TrainedParameter> parameters = findTrainable(forward, values.mapping);
  if (failed(buildBackward(program, loss, parameters)))
    return failure();
  program.addResult(loss, Role::Metric, "loss");
  for (const ForwardProgram::Slot &slot : forward.getResults())
    if (slot.role == Role::Buffer)
      program.addResult(values.mapping.lookup(slot.value), Role::Buffer, slot.name);
  buildUpdate(program, parameters, options);
  setRecipe(program.finish(), options);
  return success();
}

//===--- @eval ---===//

/// Copies the forward program as a model in evaluation mode computes it.
static LogicalResult copyForEvaluation(ProgramBuilder &program, const ForwardProgram &forward, IRMapping &mapping) {
  for (Operation &op : forward.getFunction().getBody().front().without_terminator()) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      mapping.map(dropout.getResult(), mapping.lookup(dropout.getOperand()));
      continue;
    }
    Operation *copy = program.getBuilder().clone(op, mapping);
    if (llvm::any_of(copy->getOperands(), [&](Value v) { return v.getParentBlock() != &program.getBlock(); }))
      return op.emitError("'") << op.getName() << "' draws random numbers, which the evaluation program has none of";
    if (auto norm = dyn_cast<BatchNormOp>(copy); norm && norm.getRunningMean())
      norm.setInference(true);
  }
  return success();
}

static LogicalResult buildEval(const ForwardProgram &forward, const LossPlan &plan, const StepOptions &options) {
  ProgramBuilder program(forward.getFunction(), kEvalName);
  ProgramValues values = addArguments(program, forward, plan, options, /*withRng=*/false);
  if (failed(copyForEvaluation(program, forward, values.mapping)))
    return failure();
  TensorBuilder b(program.getBuilder(), program.getLoc());
  Value loss = buildLoss(b, plan, values.lookup(forward.getOutputs()), values.labels, options).getLoss(b);
  program.addResult(loss, Role::Metric, "loss");
  program.finish();
  return success();
}

//===--- The pass ---===//

static LogicalResult checkOptions(ModuleOp module, const StepOptions &options) {
  if (!llvm::is_contained({"sgd", "adam", "adamw"}, options.optimizer))
    return module.emitError("expected optimizer sgd, adam or adamw, but got '") << options.optimizer << "'";
  if (!llvm::is_contained({"constant", "linear", "cosine"}, options.lrSchedule))
    return module.emitError("expected learning rate schedule constant, linear or cosine, but got '") << options.lrSchedule << "'";
  if (options.nesterov && options.momentum == 0)
    return module.emitError("nesterov needs a momentum above 0");
  if (options.gradClip < 0 || options.accumulationSteps < 1)
    return module.emitError("expected a gradient clip of at least 0 and at least 1 accumulation step");
  return checkExclusions(module, options.weightDecayExclude);
}

namespace {

struct BuildStepPass : lockstep::impl::BuildStepPassBase<BuildStepPass> {
  using Base::Base;

  void runOnOperation() override {
    StepOptions options = readOptions();
    FailureOr<ForwardProgram> forward = ForwardProgram::read(getOperation());
    if (failed(forward) || failed(checkOptions(getOperation(), options)))
      return signalPassFailure();
    FailureOr<LossPlan> plan = planLoss(*forward, options);
    if (failed(plan) || failed(buildStep(*forward, *plan, options)) || failed(buildEval(*forward, *plan, options)))
      return signalPassFailure();
    forward->getFunction().erase();
  }

private:
  StepOptions readOptions() {
    StepOptions options;
    options.loss = loss;
    options.labels = labels;
    options.classDim = classDim;
    options.labelSmoothing = labelSmoothing;
    options.ignoreIndex = ignoreIndex;
    options.optimizer = optimizer;
    options.lr = lr;
    options.momentum = momentum;
    options.nesterov = nesterov;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.weightDecay = weightDecay;
    llvm::append_range(options.weightDecayExclude, weightDecayExclude);
    options.gradClip = gradClip;
    options.accumulationSteps = accumulationSteps;
    options.localBatchNorm = localBatchNorm;
    options.lrSchedule = lrSchedule;
    options.warmupSteps = warmupSteps;
    options.totalSteps = totalSteps;
    options.minLr = minLr;
    return options;
  }
};

} // namespace
