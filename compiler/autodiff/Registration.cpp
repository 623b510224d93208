//===- Registration.cpp - Derivatives of the train operations
//--------------===//
#include "compiler/autodiff/Registration.h"
#include "compiler/autodiff/DerivativeRules.h"

using namespace mlir;
using namespace lockstep;

void lockstep::registerDifferentiableExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, train::TrainDialect *) {
    autodiff::attachPointwiseRules(context);
    autodiff::attachDataRules(context);
    autodiff::attachIndexingRules(context);
    autodiff::attachContractionRules(context);
    autodiff::attachModelRules(context);
  });
}
