//===- Registration.cpp - Dialects, interfaces and passes -----------------===//
#include "compiler/driver/Registration.h"
#include "dialects/train/Train.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void lockstep::registerAllDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, train::TrainDialect>();
}

void lockstep::registerAllPasses() {
  mlir::registerTransformsPasses();
}
