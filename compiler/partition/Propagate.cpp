//===- Propagate.cpp - How every operation is divided ---------------------===//
#include "compiler/partition/Passes.h"
#include "compiler/sharding/Localization.h"
#include "compiler/sharding/Propagation.h"

namespace lockstep::partition {
#define GEN_PASS_DEF_PROPAGATEPASS
#define GEN_PASS_DEF_LOCALIZEPASS
#include "compiler/partition/Passes.h.inc"
} // namespace lockstep::partition

using namespace mlir;
using namespace lockstep;

/// The one mesh of a module, or nothing after an error.
static dist::MeshOp getMesh(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (llvm::hasSingleElement(meshes))
    return *meshes.begin();
  module.emitError("expected one dist.mesh, but got ")
      << std::distance(meshes.begin(), meshes.end());
  return {};
}

namespace {

struct Propagate : partition::impl::PropagatePassBase<Propagate> {
  void runOnOperation() override {
    dist::MeshOp mesh = getMesh(getOperation());
    if (!mesh)
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(sharding::propagate(function, mesh)))
        return signalPassFailure();
  }
};

struct Localize : partition::impl::LocalizePassBase<Localize> {
  void runOnOperation() override {
    dist::MeshOp mesh = getMesh(getOperation());
    if (!mesh)
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(sharding::localize(function, mesh)))
        return signalPassFailure();
  }
};

} // namespace
