//===- BuildStep.cpp - @forward becomes @step and @eval
//--------------------===//
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/StepParts.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/StepAttributes.h"

namespace lockstep {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "compiler/autodiff/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

//===--- @step ---===//

/// What the runtime must know of the recipe besides the hyperparameters.
static void setRecipe(func::FuncOp step, const StepOptions &options) {
  Builder builder(step.getContext());
  SmallVector<NamedAttribute> schedule{
      builder.getNamedAttr("kind", builder.getStringAttr(options.lrSchedule)),
      builder.getNamedAttr("warmup",
                           builder.getI64IntegerAttr(options.warmupSteps)),
      builder.getNamedAttr("total",
                           builder.getI64IntegerAttr(options.totalSteps)),
      builder.getNamedAttr("min_lr", builder.getF64FloatAttr(options.minLr))};
  step->setAttr(kLrScheduleAttr, builder.getDictionaryAttr(schedule));
  step->setAttr(kAccumulationStepsAttr,
                builder.getI64IntegerAttr(options.accumulationSteps));
}

/// Forward and backward pass over the whole batch.
static FailureOr<StepResults> buildWholeBatch(ProgramBuilder &program,
                                              const ForwardProgram &forward,
                                              const LossPlan &plan,
                                              ProgramValues &values,
                                              const StepOptions &options) {
  copyForward(program, forward, values.mapping, options.localBatchNorm);
  TensorBuilder b(program.getBuilder(), program.getLoc());
  StepResults step;
  step.loss = buildLoss(b, plan, values.lookup(forward.getOutputs()),
                        values.labels, options)
                  .getLoss(b);
  step.parameters = findTrainable(forward, values.mapping);
  if (failed(buildBackward(program.getBuilder(), program.getBlock(), step.loss,
                           b.constantLike(step.loss, 1), step.parameters)))
    return failure();
  for (const ForwardProgram::Slot &slot : forward.getResults())
    if (slot.role == Role::Buffer)
      step.newBuffers.push_back({slot.name, values.mapping.lookup(slot.value)});
  return step;
}

static LogicalResult buildStep(const ForwardProgram &forward,
                               const LossPlan &plan,
                               const StepOptions &options) {
  ProgramBuilder program(forward.getFunction(), kStepName);
  ProgramValues values =
      addArguments(program, forward, plan, options, /*withRng=*/true);
  FailureOr<StepResults> step =
      options.accumulationSteps > 1
          ? buildAccumulation(program, forward, plan, values, options)
          : buildWholeBatch(program, forward, plan, values, options);
  if (failed(step))
    return failure();
  program.addResult(step->loss, Role::Metric, "loss");
  for (auto [name, value] : step->newBuffers)
    program.addResult(value, Role::Buffer, name);
  buildUpdate(program, step->parameters, options);
  setRecipe(program.finish(), options);
  return success();
}

//===--- @eval ---===//

/// Copies the forward program as a model in evaluation mode computes it.
static LogicalResult copyForEvaluation(ProgramBuilder &program,
                                       const ForwardProgram &forward,
                                       IRMapping &mapping) {
  for (Operation &op :
       forward.getFunction().getBody().front().without_terminator()) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      mapping.map(dropout.getResult(), mapping.lookup(dropout.getOperand()));
      continue;
    }
    Operation *copy = program.getBuilder().clone(op, mapping);
    if (llvm::any_of(copy->getOperands(), [&](Value v) {
          return v.getParentBlock() != &program.getBlock();
        }))
      return op.emitError("'") << op.getName()
                               << "' draws random numbers, which the "
                                  "evaluation program has none of";
    if (auto norm = dyn_cast<BatchNormOp>(copy); norm && norm.getRunningMean())
      norm.setInference(true);
  }
  return success();
}

static LogicalResult buildEval(const ForwardProgram &forward,
                               const LossPlan &plan,
                               const StepOptions &options) {
  ProgramBuilder program(forward.getFunction(), kEvalName);
  ProgramValues values =
      addArguments(program, forward, plan, options, /*withRng=*/false);
  if (failed(copyForEvaluation(program, forward, values.mapping)))
    return failure();
  TensorBuilder b(program.getBuilder(), program.getLoc());
  Value loss = buildLoss(b, plan, values.lookup(forward.getOutputs()),
                         values.labels, options)
                   .getLoss(b);
  program.addResult(loss, Role::Metric, "loss");
  program.finish();
  return success();
}

//===--- The pass ---===//

static LogicalResult checkOptions(ModuleOp module, const StepOptions &options) {
  if (!llvm::is_contained({"sgd", "adam", "adamw"}, options.optimizer))
    return module.emitError("expected optimizer sgd, adam or adamw, but got '")
           << options.optimizer << "'";
  if (!llvm::is_contained({"constant", "linear", "cosine"}, options.lrSchedule))
    return module.emitError("expected learning rate schedule constant, linear "
                            "or cosine, but got '")
           << options.lrSchedule << "'";
  if (options.nesterov && options.momentum == 0)
    return module.emitError("nesterov needs a momentum above 0");
  if (options.gradClip < 0 || options.accumulationSteps < 1)
    return module.emitError("expected a gradient clip of at least 0 and at "
                            "least 1 accumulation step");
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
    if (failed(plan) || failed(buildStep(*forward, *plan, options)) ||
        failed(buildEval(*forward, *plan, options)))
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
