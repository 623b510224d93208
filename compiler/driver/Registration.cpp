//===- Registration.cpp - Dialects, interfaces and passes -----------------===//
#include "compiler/driver/Registration.h"
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Registration.h"
#include "compiler/cost/Registration.h"
#include "compiler/fuse/Passes.h"
#include "compiler/partition/Passes.h"
#include "compiler/partition/Registration.h"
#include "compiler/precision/Passes.h"
#include "compiler/reference/Registration.h"
#include "compiler/schedule/Passes.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "dialects/train/Train.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void lockstep::registerAllDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, train::TrainDialect, dist::DistDialect,
                  plan::PlanDialect>();
  registerEvaluableExternalModels(registry);
  registerDifferentiableExternalModels(registry);
  registerCostedExternalModels(registry);
  registerPartitionableExternalModels(registry);
}

void lockstep::registerAllPasses() {
  mlir::registerTransformsPasses();
  registerPrecisionPasses();
  registerAutodiffPasses();
  registerPartitionPasses();
  fuse::registerFuse();
  schedule::registerSchedule();
}
