// Every kernel of test/emit/kernels/*.mlir, generated and run, against the
// evaluation of its region. LOCKSTEP_KERNELS names further files, such as what
// `lockstep-compile MODEL ... --compile-to schedule` writes.
#include "compiler/driver/Registration.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "test/emit/KernelCheck.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <catch2/catch.hpp>

using namespace lockstep;

static std::vector<std::string> kernelFiles() {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(LOCKSTEP_KERNEL_FILES, error), end;
       it != end && !error; it.increment(error))
    if (llvm::StringRef(it->path()).ends_with(".mlir"))
      files.push_back(it->path());
  if (const char *further = std::getenv("LOCKSTEP_KERNELS"))
    for (llvm::StringRef file : llvm::split(further, ':'))
      files.push_back(file.str());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("generated kernels compute what their regions say") {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  int checked = 0;
  for (const std::string &file : kernelFiles()) {
    INFO(file);
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
    REQUIRE(module);
    for (unsigned seed : {1u, 2u}) {
      test::KernelCheckOptions options;
      options.seed = seed;
      CHECK(test::checkKernels(*module, options, &checked) == "");
    }
  }
  CHECK(checked > 0);
}
