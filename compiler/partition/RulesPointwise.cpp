//===- RulesPointwise.cpp - Factor rules of elementwise operations --------===//
#include "compiler/partition/Registration.h"
#include "compiler/partition/RuleBuilder.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::partition;

namespace {

/// One factor per dimension, in every operand and result.
struct PointwiseModel
    : train::PartitionableOpInterface::FallbackModel<PointwiseModel> {
  ShardingRule getShardingRule(Operation *op) const {
    RuleBuilder r(op);
    SmallVector<int> dims = r.factors(r.resultShape(0));
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      r.operand(i, dims);
    return r.result(0, dims).take();
  }
};

} // namespace

/// `rng` and `offsets` are whole; localization gives the offsets.
static ShardingRule dropoutRule(train::DropoutOp op) {
  RuleBuilder r(op);
  SmallVector<int> dims = r.factors(r.resultShape(0));
  return r.operand(0, dims).result(0, dims).take();
}

void partition::attachPointwiseRules(MLIRContext *context) {
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.getDialectNamespace() ==
            train::TrainDialect::getDialectNamespace() &&
        name.hasTrait<train::Pointwise>())
      name.attachInterface<PointwiseModel>();
  attachRule<train::DropoutOp, dropoutRule>(context);
}

void lockstep::registerPartitionableExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, train::TrainDialect *) {
    attachPointwiseRules(context);
    attachDataRules(context);
    attachIndexingRules(context);
    attachContractionRules(context);
    attachModelRules(context);
    attachStepRules(context);
  });
}
