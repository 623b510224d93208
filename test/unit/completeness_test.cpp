//===- completeness_test.cpp - Every train operation answers every interface
//--------===//
#include "compiler/driver/Registration.h"
#include "dialects/train/Train.h"
#include "mlir/IR/MLIRContext.h"
#include <catch2/catch.hpp>

using namespace mlir;
using namespace lockstep;

/// Names of the registered `train` operations without `Interface`, apart from
/// the exceptions.
template <typename Interface>
static std::string findMissing(std::initializer_list<StringRef> exceptions) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string missing;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() ==
            train::TrainDialect::getDialectNamespace() &&
        !name.hasInterface<Interface>() &&
        !llvm::is_contained(exceptions, name.getStringRef()))
      missing += name.getStringRef().str() + " ";
  return missing;
}

// A region and its terminator: the interpreter runs them, autodiff creates
// them, partition and schedule look inside.
#define REGION_OPS "train.accumulate", "train.yield"

TEST_CASE("every train operation can be evaluated") {
  CHECK(findMissing<train::EvaluableOpInterface>({REGION_OPS}) == "");
}

TEST_CASE("every train operation has a cost") {
  CHECK(findMissing<train::CostedOpInterface>({}) == "");
}

TEST_CASE("every train operation has a derivative") {
  // The update comes after the backward pass; gradients of first order have
  // none of their own.
  CHECK(findMissing<train::DifferentiableOpInterface>({REGION_OPS}) == "");
}

TEST_CASE("every train operation says how it divides over ranks") {
  CHECK(findMissing<train::PartitionableOpInterface>({REGION_OPS}) == "");
}
