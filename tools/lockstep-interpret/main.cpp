// lockstep-interpret: runs a program of any stage with the reference
// interpreter.
#include "compiler/driver/Registration.h"
#include "compiler/reference/Feeds.h"
#include "mlir/Parser/Parser.h"
#include "tools/common/cli.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace lockstep;

namespace {

struct Options {
  std::string file, entry = "step", inputs, writeInputs, outputs, expect;
  int64_t steps = 1;
  double tolerance = 1e-5;
  bool print = false;
  RandomOptions random;
};

} // namespace

static void printTensor(const std::string &name, const HostTensor &tensor) {
  constexpr int64_t kShown = 8;
  llvm::outs() << name << " : " << tensor.getType() << " =";
  for (int64_t i = 0, e = std::min(kShown, tensor.getNumElements()); i < e; ++i)
    llvm::outs() << llvm::format(" %.9g", tensor.getDouble(i));
  llvm::outs() << (tensor.getNumElements() > kShown ? " ...\n" : "\n");
}

/// MLIR prints its own errors, with the place in the program; the text here
/// says what that meant.
static Status run(const Options &options) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(options.file, &context);
  if (!module)
    return inputError("the program cannot be read").at(options.file);
  mlir::FailureOr<mlir::Operation *> entry = findEntry(*module, options.entry);
  if (failed(entry))
    return inputError("there is no entry '" + options.entry + "'")
        .at(options.file)
        .remedy("name another with --entry");
  EntrySignature signature = getEntrySignature(*entry);
  Feeds feeds = drawFeeds(signature, options.random);
  if (!options.inputs.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Feeds given, readFeeds(options.inputs, &context));
    for (auto &[name, value] : given)
      feeds[name] = value;
  }
  if (!options.writeInputs.empty())
    LOCKSTEP_RETURN_IF_ERROR(writeFeeds(options.writeInputs, feeds));
  int64_t ranks = getNumRanks(*module);
  LOCKSTEP_ASSIGN_OR_RETURN(
      llvm::SmallVector<RankTensors> arguments,
      distributeFeeds(signature, feeds, ranks, options.steps));
  mlir::FailureOr<llvm::SmallVector<RankTensors>> values =
      runEntry(*entry, ranks, arguments);
  if (failed(values))
    return inputError("the program cannot be run").at(options.file);
  Feeds expected;
  if (!options.expect.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(expected, readFeeds(options.expect, &context));
  }
  LOCKSTEP_RETURN_IF_ERROR(
      checkRanksAgree(signature, *values, expected).at(options.file));
  Feeds results = collectResults(signature, *values, ranks, expected);
  if (options.print)
    for (auto &[name, value] : results)
      printTensor(name, value);
  if (!options.outputs.empty())
    LOCKSTEP_RETURN_IF_ERROR(writeFeeds(options.outputs, results));
  if (!options.expect.empty())
    return compareFeeds(results, expected, options.tolerance).at(options.file);
  return Status::success();
}

int main(int argc, char **argv) {
  return tools::runTool([&] {
    Options options;
    tools::CommandLine line("lockstep-interpret",
                            "Runs a program of any stage, all ranks in one "
                            "process, slowly and by definition.");
    CLI::App &app = line.app();
    app.add_option("program", options.file, "the .mlir file")->required();
    app.add_option("--entry", options.entry,
                   "the function, or the plan's program (default: step)");
    app.add_option(
        "--inputs", options.inputs,
        "safetensors file with global values by name; what it lacks is drawn");
    app.add_option("--write-inputs", options.writeInputs,
                   "writes the values used, for another run");
    app.add_option("--gradient-accumulation-steps", options.steps,
                   "how the batch is cut for the ranks (default: 1)");
    app.add_option("--seed", options.random.seed, "for drawn values");
    app.add_option("--integers-below", options.random.integerLimit,
                   "drawn integers are below this (default: 2)");
    app.add_option("-o,--outputs", options.outputs, "writes the results");
    app.add_option("--expect", options.expect,
                   "compares the results with this file, by name");
    app.add_option("--tolerance", options.tolerance,
                   "of the comparison, relative to a tensor's largest "
                   "magnitude (default: 1e-5)");
    app.add_flag("--print", options.print,
                 "prints the first elements of every result");
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(run(options));
  });
}
