#include "tools/fuzz/Target.h"

#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Summary.h"
#include "compiler/import/pt2/Weights.h"
#include "tools/fuzz/ImportTarget.h"

using namespace lockstep;
using namespace lockstep::pt2;

/// Values are read unless their sum is larger than any test model's: damage to
/// a size can ask for a terabyte of zeros, honestly.
static Status loadValues(const WeightStore &store) {
  constexpr uint64_t limit = uint64_t(256) << 20;
  uint64_t total = 0;
  for (const WeightEntry &entry : store.entries()) {
    total += entry.bytes();
    if (!entry.hasValue() || total > limit)
      continue;
    LOCKSTEP_ASSIGN_OR_RETURN(WeightBytes value, store.load(entry));
    // Touch both ends.
    volatile std::byte sink{};
    if (value.bytes > 0) {
      sink = value.data[0];
      sink = value.data[value.bytes - 1];
    }
    (void)sink;
  }
  return Status::success();
}

/// Evaluates every symbolic size at its example.
static Status evaluateSizes(const ExportedProgram &program) {
  SymbolBindings bindings;
  for (const auto &[symbol, range] : program.rangeConstraints)
    bindings[symbol] = range.min.value_or(2);
  for (const auto &[name, meta] : program.graph.tensorValues)
    for (const SymInt &size : meta.sizes)
      if (StatusOr<int64_t> value = size.evaluate(bindings); !value.ok())
        return value.status();
  return Status::success();
}

Status fuzz::readWholly(const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(Pt2File file, readPt2(path));
  (void)describeProgram(file.program);
  for (const Node &node : file.program.graph.nodes)
    (void)node.metadata.describe();
  LOCKSTEP_RETURN_IF_ERROR(evaluateSizes(file.program));
  WeightOptions scratch;
  scratch.weights = "none";
  LOCKSTEP_ASSIGN_OR_RETURN(WeightStore drawn, buildWeightStore(file, scratch));
#ifdef LOCKSTEP_HAS_IMPORT
  LOCKSTEP_RETURN_IF_ERROR(importWholly(file.program, drawn));
#endif
  // A model without values is a proper model.
  StatusOr<WeightStore> store = buildWeightStore(file, {});
  return store.ok() ? loadValues(*store) : Status::success();
}
