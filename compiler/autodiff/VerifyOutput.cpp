//===- VerifyOutput.cpp - Checks the programs that leave the stage
//---------===//
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Program.h"
#include "dialects/train/StepAttributes.h"
#include "llvm/ADT/StringMap.h"

namespace lockstep {
#define GEN_PASS_DEF_VERIFYAUTODIFFOUTPUTPASS
#include "compiler/autodiff/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

/// Every argument has a role and a name that is unique in its role; `types`
/// gets them by "role:name".
static LogicalResult verifyArguments(func::FuncOp program,
                                     llvm::StringMap<Type> &types) {
  for (unsigned i = 0, e = program.getNumArguments(); i < e; ++i) {
    DictionaryAttr attributes = program.getArgAttrDict(i);
    std::optional<Role> role = getRole(attributes);
    if (!role || autodiff::getName(attributes).empty())
      return program.emitError("expected a role and a name of argument ") << i;
    std::string key =
        (stringifyRole(*role) + ":" + autodiff::getName(attributes)).str();
    if (!types.try_emplace(key, program.getArgument(i).getType()).second)
      return program.emitError("expected one argument '")
             << key << "', but got two";
  }
  return success();
}

/// Every result is a metric or replaces an argument of its type.
static LogicalResult verifyResults(func::FuncOp program,
                                   const llvm::StringMap<Type> &types) {
  for (unsigned i = 0, e = program.getNumResults(); i < e; ++i) {
    DictionaryAttr attributes = program.getResultAttrDict(i);
    std::optional<Role> role = getRole(attributes);
    if (!role || autodiff::getName(attributes).empty())
      return program.emitError("expected a role and a name of result ") << i;
    std::string key =
        (stringifyRole(*role) + ":" + autodiff::getName(attributes)).str();
    if (*role != Role::Metric &&
        types.lookup(key) != program.getResultTypes()[i])
      return program.emitError("expected result ")
             << i << " to replace an argument '" << key << "' of type "
             << program.getResultTypes()[i];
  }
  return success();
}

static LogicalResult verifyMetrics(func::FuncOp program,
                                   ArrayRef<StringRef> names) {
  for (StringRef name : names) {
    auto isMetric = [&](unsigned i) {
      return getRole(program.getResultAttrDict(i)) == Role::Metric &&
             autodiff::getName(program.getResultAttrDict(i)) == name;
    };
    if (!llvm::any_of(llvm::seq<unsigned>(0, program.getNumResults()),
                      isMetric))
      return program.emitError("expected a metric '")
             << name << "' among the results";
  }
  return success();
}

namespace {

struct VerifyAutodiffOutputPass
    : lockstep::impl::VerifyAutodiffOutputPassBase<VerifyAutodiffOutputPass> {
  using Base::Base;

  void runOnOperation() override {
    if (getOperation().lookupSymbol(kForwardName)) {
      getOperation().emitError("expected no @forward after autodiff");
      return signalPassFailure();
    }
    if (failed(verify(kStepName, {"loss", "grad_norm"})) ||
        failed(verify(kEvalName, {"loss"})))
      return signalPassFailure();
  }

private:
  LogicalResult verify(StringRef name, ArrayRef<StringRef> metrics) {
    auto program = getOperation().lookupSymbol<func::FuncOp>(name);
    if (!program)
      return getOperation().emitError("expected a function @") << name;
    llvm::StringMap<Type> types;
    return failure(failed(verifyArguments(program, types)) ||
                   failed(verifyResults(program, types)) ||
                   failed(verifyMetrics(program, metrics)));
  }
};

} // namespace
