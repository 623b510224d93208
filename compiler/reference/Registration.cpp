//===- Registration.cpp - Attaches the reference evaluation
//----------------------===//
#include "compiler/reference/Registration.h"
#include "compiler/reference/EvaluateSupport.h"

using namespace mlir;

void lockstep::registerEvaluableExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, train::TrainDialect *) {
    attachPointwiseEvaluations(context);
    attachDataEvaluations(context);
    attachContractionEvaluations(context);
    attachWindowEvaluations(context);
    attachModelEvaluations(context);
    attachAttentionEvaluations(context);
    attachStepEvaluations(context);
  });
}
