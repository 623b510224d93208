//===- SharedCode.cpp - Kernels that several launches share ---------------===//
#include "compiler/emit/nvptx/SharedCode.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

std::string SharedCode::add(StringRef prefix, std::string key, Build build) {
  std::string symbol = (prefix + "_" + Twine(kernels.size())).str();
  auto [it, isNew] = kernels.insert(
      {std::move(key), Kernel{std::move(symbol), std::move(build)}});
  return it->second.symbol;
}

FailureOr<std::string> SharedCode::lower(size_t index, StringRef chip) const {
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
  const Kernel &kernel = kernels.begin()[index].second;
  if (failed(kernel.build(*module, kernel.symbol)))
    return failure();
  return lowerToPtx(*module, chip, PtxOptimization::None);
}
