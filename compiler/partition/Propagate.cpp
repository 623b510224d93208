//===- Propagate.cpp - How every operation is divided ---------------------===//
#include "compiler/partition/Passes.h"
#include "compiler/sharding/Localization.h"
#include "compiler/sharding/Propagation.h"
#include "mlir/IR/Threading.h"

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

/// Of the functions with a body, side by side.
static LogicalResult
forEachFunction(ModuleOp module,
                llvm::function_ref<LogicalResult(func::FuncOp)> body) {
  SmallVector<func::FuncOp> functions =
      llvm::filter_to_vector(module.getOps<func::FuncOp>(), [](auto function) {
        return !function.isExternal();
      });
  return failableParallelForEach(module.getContext(), functions, body);
}

namespace {

struct Propagate : partition::impl::PropagatePassBase<Propagate> {
  void runOnOperation() override {
    dist::MeshOp mesh = getMesh(getOperation());
    if (!mesh)
      return signalPassFailure();
    if (failed(forEachFunction(getOperation(), [&](func::FuncOp function) {
          return sharding::propagate(function, mesh);
        })))
      signalPassFailure();
  }
};

struct Localize : partition::impl::LocalizePassBase<Localize> {
  void runOnOperation() override {
    dist::MeshOp mesh = getMesh(getOperation());
    if (!mesh)
      return signalPassFailure();
    if (failed(forEachFunction(getOperation(), [&](func::FuncOp function) {
          return sharding::localize(function, mesh);
        })))
      signalPassFailure();
  }
};

} // namespace
