//===- Optimizer.cpp - The update of parameters and state
//------------------===//
#include "compiler/autodiff/Optimizer.h"
#include "dialects/train/DecompositionUtils.h"
#include "dialects/train/StepAttributes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

/// torch.nn.utils.clip_grad_norm_ divides by the norm plus this.
static constexpr double kClipEpsilon = 1e-6;

//===--- Who is decayed ---===//

/// N of "ndim<N".
static std::optional<int64_t> parseRankBound(StringRef exclusion) {
  int64_t bound;
  if (exclusion.consume_front("ndim<") &&
      !exclusion.trim().getAsInteger(10, bound))
    return bound;
  return std::nullopt;
}

static bool matchesName(const ForwardProgram::Slot &parameter,
                        const llvm::GlobPattern &pattern) {
  if (pattern.match(parameter.name))
    return true;
  auto tied = parameter.attributes.getAs<ArrayAttr>(TrainDialect::kTiedAttr);
  return tied &&
         llvm::any_of(tied.getAsRange<StringAttr>(), [&](StringAttr name) {
           return pattern.match(name.getValue());
         });
}

bool autodiff::isDecayed(const ForwardProgram::Slot &parameter,
                         ArrayRef<std::string> exclusions) {
  return llvm::none_of(exclusions, [&](const std::string &exclusion) {
    if (std::optional<int64_t> bound = parseRankBound(exclusion))
      return parameter.getType().getRank() < *bound;
    llvm::Expected<llvm::GlobPattern> pattern =
        llvm::GlobPattern::create(exclusion);
    if (pattern)
      return matchesName(parameter, *pattern);
    llvm::consumeError(pattern.takeError());
    return false;
  });
}

LogicalResult autodiff::checkExclusions(Operation *op,
                                        ArrayRef<std::string> exclusions) {
  for (const std::string &exclusion : exclusions) {
    if (parseRankBound(exclusion))
      continue;
    llvm::Expected<llvm::GlobPattern> pattern =
        llvm::GlobPattern::create(exclusion);
    if (!pattern)
      return op->emitError("expected 'ndim<N' or a name pattern to exclude "
                           "from weight decay, but got '")
             << exclusion << "': " << llvm::toString(pattern.takeError());
  }
  return success();
}

//===--- The update ---===//

namespace {

class UpdateBuilder {
public:
  UpdateBuilder(ProgramBuilder &program, const StepOptions &options)
      : program(program), options(options),
        b(program.getBuilder(), program.getLoc()) {}

  void build(ArrayRef<TrainedParameter> parameters) {
    Value scale = buildGradientScale(parameters);
    for (const TrainedParameter &parameter : parameters) {
      if (options.optimizer == "sgd")
        buildSgd(parameter, scale);
      else
        buildAdam(parameter, scale);
    }
  }

private:
  RankedTensorType scalarType() {
    return RankedTensorType::get({}, b.getBuilder().getF32Type());
  }

  /// A hyperparameter, one argument for all its uses.
  Value hyperparameter(StringRef name, std::optional<double> value) {
    Value &argument = hyperparameters[name];
    if (argument)
      return argument;
    SmallVector<NamedAttribute> attributes;
    if (value)
      attributes.push_back(b.getBuilder().getNamedAttr(
          kDefaultAttr, b.getBuilder().getF64FloatAttr(*value)));
    return argument = program.addArgument(scalarType(), Role::Hyperparameter,
                                          name, attributes);
  }

  Value weightDecay(const TrainedParameter &parameter) {
    if (isDecayed(*parameter.slot, options.weightDecayExclude))
      return hyperparameter("weight_decay", options.weightDecay);
    return b.constant(scalarType(), 0);
  }

  /// The metric grad_norm, and min(1, clip / norm) or 1.
  Value buildGradientScale(ArrayRef<TrainedParameter> parameters) {
    auto gradients = llvm::map_to_vector(
        parameters, [](const TrainedParameter &p) { return p.gradient; });
    Value norm = GlobalNormOp::create(b.getBuilder(), b.getLoc(), scalarType(),
                                      gradients);
    program.addResult(norm, Role::Metric, "grad_norm");
    Value one = b.constant(scalarType(), 1);
    if (options.gradClip == 0)
      return one;
    Value ratio = b.divide(hyperparameter("grad_clip", options.gradClip),
                           b.add(norm, kClipEpsilon));
    return MinimumOp::create(b.getBuilder(), b.getLoc(), ratio.getType(), ratio,
                             one);
  }

  Value state(const TrainedParameter &parameter, StringRef kind) {
    return program.addArgument(parameter.slot->getType(), Role::State,
                               (parameter.slot->name + "." + kind).str());
  }
  void replace(const TrainedParameter &parameter, StringRef kind, Value value) {
    program.addResult(value, Role::State,
                      (parameter.slot->name + "." + kind).str());
  }

  void buildSgd(const TrainedParameter &parameter, Value scale) {
    Value lr = hyperparameter("lr", options.lr), decay = weightDecay(parameter),
          buffer, momentum;
    if (options.momentum != 0) {
      buffer = state(parameter, "momentum_buffer");
      momentum = hyperparameter("momentum", options.momentum);
    }
    Type type = parameter.value.getType();
    auto sgd =
        SgdOp::create(b.getBuilder(), b.getLoc(), type, buffer ? type : Type(),
                      parameter.value, parameter.gradient, buffer, momentum, lr,
                      decay, scale, options.nesterov);
    program.addResult(sgd.getNewParameter(), Role::Parameter,
                      parameter.slot->name);
    if (buffer)
      replace(parameter, "momentum_buffer", sgd.getNewMomentumBuffer());
  }

  void buildAdam(const TrainedParameter &parameter, Value scale) {
    Value lr = hyperparameter("lr", options.lr), decay = weightDecay(parameter);
    Value beta1 = hyperparameter("beta1", options.beta1),
          beta2 = hyperparameter("beta2", options.beta2);
    Value eps = hyperparameter("eps", options.eps);
    Value correction1 = hyperparameter("bias_correction1", std::nullopt);
    Value correction2 = hyperparameter("bias_correction2", std::nullopt);
    Value first = state(parameter, "exp_avg"),
          second = state(parameter, "exp_avg_sq");
    auto adam = AdamOp::create(
        b.getBuilder(), b.getLoc(), parameter.value.getType(), first.getType(),
        second.getType(), parameter.value, parameter.gradient, first, second,
        lr, decay, beta1, beta2, eps, correction1, correction2, scale,
        options.optimizer == "adamw");
    program.addResult(adam.getNewParameter(), Role::Parameter,
                      parameter.slot->name);
    replace(parameter, "exp_avg", adam.getNewFirstMoment());
    replace(parameter, "exp_avg_sq", adam.getNewSecondMoment());
  }

  ProgramBuilder &program;
  const StepOptions &options;
  TensorBuilder b;
  llvm::StringMap<Value> hyperparameters;
};

} // namespace

void autodiff::buildUpdate(ProgramBuilder &program,
                           ArrayRef<TrainedParameter> parameters,
                           const StepOptions &options) {
  UpdateBuilder(program, options).build(parameters);
}
