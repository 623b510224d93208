// PTX of kernels, and cubins where ptxas is at hand.
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <catch2/catch.hpp>
#include <cstdlib>

using namespace mlir;
using namespace lockstep::emit;

namespace {
/// y[i] = 2 x[i] for the elements of a block's threads, in a loop.
constexpr const char *doubling = R"(
llvm.func @double(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %n: i32)
    attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128>} {
  %two = arith.constant 2.0 : f32
  %step = arith.constant 128 : i32
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  scf.for %i = %tid to %n step %step : i32 {
    %p = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %q = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %v = llvm.load %p : !llvm.ptr<1> -> f32
    %w = arith.mulf %v, %two : f32
    llvm.store %w, %q : f32, !llvm.ptr<1>
  }
  llvm.return
})";

std::string lower(const char *text, llvm::StringRef chip) {
  MLIRContext context;
  loadPtxDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  REQUIRE(module);
  FailureOr<std::string> ptx = lowerToPtx(*module, chip);
  return succeeded(ptx) ? *ptx : std::string();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// An environment variable for as long as the object lives.
struct ScopedEnvironment {
  ScopedEnvironment(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name)) {
      had = true;
      before = old;
    }
    setenv(name, value, 1);
  }
  ~ScopedEnvironment() {
    if (had)
      setenv(name, before.c_str(), 1);
    else
      unsetenv(name);
  }
  const char *name;
  std::string before;
  bool had = false;
};
} // namespace

TEST_CASE("a kernel becomes PTX for each chip, and the PTX assembles") {
  for (const char *chip : {"sm_80", "sm_90a", "sm_100a"}) {
    INFO(chip);
    std::string ptx = lower(doubling, chip);
    CHECK(contains(ptx, std::string(".target ") + chip + "\n"));
    CHECK(contains(ptx, ".entry double("));
    CHECK(contains(ptx, ".reqntid 128"));
    CubinResult result = assembleCubin(ptx, chip);
    if (findPtxas().empty()) {
      CHECK(result.status == CubinResult::Status::NoPtxas);
      continue;
    }
    INFO(result.messages);
    REQUIRE(result.status == CubinResult::Status::Assembled);
    CHECK(result.cubin.substr(1, 3) == "ELF");
    CHECK(assembleCubin(ptx, chip).cubin == result.cubin);
  }
}

TEST_CASE("a chip without a code generator is refused") {
  MLIRContext context;
  loadPtxDialects(context);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(doubling, &context);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  CHECK(failed(lowerToPtx(*module, "sm_70")));
  CHECK(message == "no PTX is generated for 'sm_70': expected sm_80, sm_90a or "
                   "sm_100a");
  CHECK_FALSE(isPtxChip("sm_70"));
}

TEST_CASE("no ptxas and a failing ptxas are told apart") {
  {
    ScopedEnvironment none("LOCKSTEP_PTXAS", "");
    CHECK(assembleCubin("", "sm_90a").status == CubinResult::Status::NoPtxas);
    CHECK(getPtxasVersion().empty());
  }
  {
    ScopedEnvironment wrong("LOCKSTEP_PTXAS", "/no/such/ptxas");
    CubinResult result = assembleCubin("", "sm_90a");
    CHECK(result.status == CubinResult::Status::Failed);
    CHECK(contains(result.messages, "cannot run /no/such/ptxas"));
  }
  if (findPtxas().empty())
    return;
  CHECK(getPtxasVersion().front() == 'V');
  CubinResult result = assembleCubin("not PTX", "sm_90a");
  CHECK(result.status == CubinResult::Status::Failed);
  CHECK(contains(result.messages, "error"));
}
