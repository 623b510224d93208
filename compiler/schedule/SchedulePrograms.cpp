//===- SchedulePrograms.cpp - Functions become programs -------------------===//
#include "compiler/schedule/BuildProgram.h"
#include "compiler/schedule/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

namespace lockstep::schedule {
#define GEN_PASS_DEF_SCHEDULEPROGRAMSPASS
#include "compiler/schedule/SchedulePasses.h.inc"
} // namespace lockstep::schedule

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

/// How many of the largest buffers an error about memory lists.
static constexpr size_t kListed = 10;

static std::string formatBytes(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv("{0:f1} MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

/// What the arena would be without recomputation, where there is some.
static std::string describeRecompute(func::FuncOp function,
                                     int64_t arenaBytes) {
  auto recompute =
      function->getAttrOfType<DictionaryAttr>(plan::kRecomputeAttr);
  if (!recompute)
    return "";
  auto get = [&](llvm::StringRef name) {
    return recompute.getAs<IntegerAttr>(name).getInt();
  };
  return " (" + formatBytes(arenaBytes + get("bytes")) +
         " without what is computed again by " + std::to_string(get("calls")) +
         " kernel calls)";
}

/// The arena is too large: names what is alive where most is.
static void reportHolders(func::FuncOp function, const SharedLayout &shared,
                          const MemoryPlanner &planner, int64_t arenaBytes,
                          int64_t limit) {
  SmallVector<std::pair<int64_t, std::string>> holders;
  for (const SharedBuffer &buffer : shared.getBuffers())
    holders.push_back({plan::getTensorBytes(buffer.type),
                       (plan::stringifyBufferKind(buffer.kind) + " '" +
                        buffer.name.getValue() + "'")
                           .str()});
  SmallVector<Lifetime> lifetimes = planner.getLifetimes();
  int64_t position = getPeak(lifetimes).second;
  for (auto [index, lifetime] : llvm::enumerate(lifetimes))
    if (lifetime.first <= position && position <= lifetime.last)
      holders.push_back(
          {lifetime.bytes,
           planner.describe(planner.getNumShared() + static_cast<int>(index))});
  llvm::sort(holders, [](auto &a, auto &b) {
    return std::tie(b.first, a.second) < std::tie(a.first, b.second);
  });
  InFlightDiagnostic error =
      function.emitError("@")
      << function.getSymName() << " needs " << formatBytes(arenaBytes)
      << " per rank" << describeRecompute(function, arenaBytes)
      << ", but the memory limit is " << formatBytes(limit)
      << "; raise --memory-limit, or use more ranks or a smaller batch; the "
         "largest holders:";
  for (auto &[bytes, text] : ArrayRef(holders).take_front(kListed))
    error << " [" << formatBytes(bytes) << " " << text << "]";
}

/// Remarks: what is alive where most is, besides what is kept between steps.
static void reportAlive(func::FuncOp function, const MemoryPlanner &planner) {
  SmallVector<Lifetime> lifetimes = planner.getLifetimes();
  int64_t position = getPeak(lifetimes).second;
  for (auto [index, lifetime] : llvm::enumerate(lifetimes))
    if (lifetime.first <= position && position <= lifetime.last)
      remark::analysis(function.getLoc(),
                       remark::RemarkOpts::name("alive").category("schedule"))
          << remark::metric("program", function.getSymName())
          << remark::metric("holder", planner.describe(planner.getNumShared() +
                                                       static_cast<int>(index)))
          << remark::metric("bytes", lifetime.bytes)
          << remark::metric("first", lifetime.first)
          << remark::metric("last", lifetime.last);
}

namespace {

struct SchedulePrograms
    : schedule::impl::ScheduleProgramsPassBase<SchedulePrograms> {
  using Base::Base;

  void runOnOperation() override {
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    SymbolTable symbols(getOperation());
    SharedLayout shared;
    for (func::FuncOp function : functions)
      if (failed(shared.add(function)))
        return signalPassFailure();
    shared.finish();

    std::vector<std::unique_ptr<MemoryPlanner>> planners;
    SmallVector<ArenaLayout> layouts;
    // Programs do not run at the same time: they share the range for
    // temporaries.
    int64_t temporaries = 0;
    for (func::FuncOp function : functions) {
      planners.push_back(
          std::make_unique<MemoryPlanner>(function, shared, symbols));
      if (failed(planners.back()->run()))
        return signalPassFailure();
      layouts.push_back(assignArena(planners.back()->getLifetimes()));
      temporaries = std::max(temporaries, layouts.back().bytes);
    }
    int64_t arenaBytes = shared.getBytes() + temporaries;
    for (auto [function, planner, layout] :
         llvm::zip_equal(functions, planners, layouts)) {
      if (memoryLimit > 0 && shared.getBytes() + layout.bytes > memoryLimit) {
        reportHolders(function, shared, *planner,
                      shared.getBytes() + layout.bytes, memoryLimit);
        return signalPassFailure();
      }
      reportAlive(function, *planner);
      plan::ProgramOp program =
          buildProgram(function, shared, *planner, layout.offsets, arenaBytes);
      remark::analysis(program.getLoc(),
                       remark::RemarkOpts::name("memory").category("schedule"))
          << remark::metric("program", program.getSymName())
          << remark::metric("arena_bytes", arenaBytes)
          << remark::metric("persistent_bytes", shared.getPersistentBytes())
          << remark::metric("alive_bytes",
                            static_cast<int64_t>(program.getPeakBytes()));
    }
    for (func::FuncOp function : functions)
      function.erase();
  }
};

} // namespace
