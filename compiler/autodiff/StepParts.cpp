//===- StepParts.cpp - Pieces of which @step and @eval are built
//-----------===//
#include "compiler/autodiff/StepParts.h"
#include "compiler/autodiff/ReverseMode.h"
#include "compiler/autodiff/Vocabulary.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

//===--- Arguments ---===//

/// The attributes of an argument of forward that the programs keep, besides
/// role and name.
static SmallVector<NamedAttribute>
furtherAttributes(const ForwardProgram::Slot &slot) {
  return llvm::filter_to_vector(slot.attributes, [](NamedAttribute attribute) {
    return attribute.getName() != TrainDialect::kRoleAttr &&
           attribute.getName() != TrainDialect::kNameAttr;
  });
}

/// The range of an input's or label's values, for the runtime to check.
static void addVocabulary(std::optional<Vocabulary> vocabulary, bool isLabel,
                          Builder &builder,
                          SmallVectorImpl<NamedAttribute> &attributes) {
  if (!vocabulary)
    return;
  attributes.push_back(builder.getNamedAttr(
      kVocabularyAttr, builder.getI64IntegerAttr(vocabulary->size)));
  if (vocabulary->fromEnd)
    attributes.push_back(
        builder.getNamedAttr(kFromEndAttr, builder.getUnitAttr()));
  if (isLabel && vocabulary->ignored)
    attributes.push_back(builder.getNamedAttr(
        kIgnoredLabelAttr, builder.getI64IntegerAttr(*vocabulary->ignored)));
}

/// The range of labels that go into the loss that this stage builds.
static std::optional<Vocabulary>
findLabelVocabulary(const ForwardProgram &forward, const LossPlan &plan,
                    const StepOptions &options) {
  if (plan.kind != LossKind::CrossEntropy)
    return std::nullopt;
  RankedTensorType logits = forward.getOutputs()[plan.output].getType();
  return Vocabulary{logits.getDimSize(plan.classDim), options.ignoreIndex};
}

/// What both ranges allow, where there are both.
static std::optional<Vocabulary> intersect(std::optional<Vocabulary> a,
                                           std::optional<Vocabulary> b) {
  return a && b ? a->intersect(*b) : a ? a : b;
}

ProgramValues autodiff::addArguments(ProgramBuilder &program,
                                     const ForwardProgram &forward,
                                     const LossPlan &plan,
                                     const StepOptions &options, bool withRng) {
  ProgramValues values;
  Builder &builder = program.getBuilder();
  auto addRule = [&](SmallVectorImpl<NamedAttribute> &attributes) {
    if (plan.labelRule)
      attributes.push_back(
          builder.getNamedAttr(kLabelRuleAttr, plan.labelRule));
  };
  std::optional<Vocabulary> ofLabels =
      findLabelVocabulary(forward, plan, options);
  for (const ForwardProgram::Slot &slot : forward.getArguments()) {
    if (slot.role == Role::Rng && !withRng)
      continue;
    SmallVector<NamedAttribute> attributes = furtherAttributes(slot);
    bool isLabel = (slot.role == Role::Input || slot.role == Role::Label) &&
                   slot.name == plan.labelName;
    if (isLabel)
      addRule(attributes);
    if (slot.role == Role::Input || slot.role == Role::Label) {
      std::optional<Vocabulary> vocabulary = findVocabulary(slot.value);
      if (isLabel)
        vocabulary = intersect(vocabulary, ofLabels);
      addVocabulary(vocabulary, isLabel || slot.role == Role::Label, builder,
                    attributes);
    }
    if (slot.role == Role::Parameter && !slot.has(TrainDialect::kFrozenAttr) &&
        isDecayed(slot, options.weightDecayExclude))
      attributes.push_back(
          builder.getNamedAttr(kDecayedAttr, builder.getUnitAttr()));
    Value argument =
        program.addArgument(slot.getType(), isLabel ? Role::Label : slot.role,
                            slot.name, attributes);
    values.mapping.map(slot.value, argument);
    if (isLabel)
      values.labels = argument;
  }
  if (plan.labelType) {
    SmallVector<NamedAttribute> attributes;
    addRule(attributes);
    addVocabulary(ofLabels, /*isLabel=*/true, builder, attributes);
    values.labels = program.addArgument(plan.labelType, Role::Label,
                                        plan.labelName, attributes);
  }
  return values;
}

//===--- Forward and backward ---===//

void autodiff::copyForward(ProgramBuilder &program,
                           const ForwardProgram &forward, IRMapping &mapping,
                           bool localBatchNorm) {
  for (Operation &op :
       forward.getFunction().getBody().front().without_terminator()) {
    Operation *copy = program.getBuilder().clone(op, mapping);
    if (auto norm = dyn_cast<BatchNormOp>(copy))
      norm.setLocalStatistics(localBatchNorm && !norm.getInference());
  }
}

SmallVector<TrainedParameter>
autodiff::findTrainable(const ForwardProgram &forward,
                        const IRMapping &mapping) {
  SmallVector<TrainedParameter> parameters;
  for (const ForwardProgram::Slot &slot : forward.getArguments())
    if (slot.role == Role::Parameter && !slot.has(TrainDialect::kFrozenAttr) &&
        isa<FloatType>(slot.getType().getElementType()))
      parameters.push_back({&slot, mapping.lookup(slot.value), Value()});
  return parameters;
}

LogicalResult
autodiff::buildBackward(OpBuilder &builder, Block &block, Value loss,
                        Value seed,
                        SmallVectorImpl<TrainedParameter> &parameters) {
  SmallVector<Operation *> operations = llvm::map_to_vector(
      block.getOperations(), [](Operation &op) { return &op; });
  SmallVector<Value> wanted = llvm::map_to_vector(
      parameters, [](const TrainedParameter &p) { return p.value; });
  FailureOr<SmallVector<Value>> gradients =
      buildReverseMode(builder, operations, loss, seed, wanted);
  if (failed(gradients))
    return failure();
  for (auto [parameter, gradient] : llvm::zip_equal(parameters, *gradients))
    parameter.gradient = gradient;
  llvm::erase_if(parameters,
                 [](const TrainedParameter &p) { return !p.gradient; });
  if (parameters.empty())
    return emitError(loss.getLoc(),
                     "the loss depends on no trainable parameter");
  return success();
}
