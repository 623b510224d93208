// lockstep-inspect: says what is in a model or an artifact. Each kind of file
// has one entry in the table below: how to know it, and how to describe it.
#include "runtime/artifact/describe.h"
#include "tools/common/cli.h"

#ifdef LOCKSTEP_HAS_IMPORT
#include "compiler/import/Import.h"
#include "compiler/import/pt2/Weights.h"
#include "dialects/train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#endif
#ifdef LOCKSTEP_HAS_COMPILER
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Summary.h"
#endif

#include <cstdio>
#include <fstream>

using namespace lockstep;

namespace {
struct InspectOptions {
  std::string path;
  bool brief = false;
};

struct FileKind {
  std::string_view magic; ///< first bytes of such files
  const char *name;
  Status (*describe)(const InspectOptions &options);
};
} // namespace

static Status describeArtifact(const InspectOptions &options) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto artifact,
                            runtime::ArtifactReader::open(options.path));
  runtime::DescribeOptions parts;
  parts.tensors = parts.kernels = parts.instructions = parts.arena =
      !options.brief;
  std::fputs(runtime::describeArtifact(*artifact, parts).c_str(), stdout);
  return Status::success();
}

#ifdef LOCKSTEP_HAS_IMPORT
/// What import says against a model whose operators it all knows: a form of one
/// that it does not. Empty when it takes the model, or has no weights to do so.
static std::string refusalOf(const pt2::Pt2File &file) {
  mlir::MLIRContext context;
  context.loadDialect<train::TrainDialect, mlir::func::FuncDialect>();
  std::string refusal;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (refusal.empty() &&
            diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          refusal = diagnostic.str();
        return mlir::success();
      });
  StatusOr<WeightStore> weights = pt2::buildWeightStore(file, {});
  if (!weights.ok()) // pickled or left out: import asks for shapes only
    weights = pt2::buildWeightStore(file, {"none", "normal:0.02", {}});
  if (weights.ok())
    (void)importProgram(context, file.program, {}, *weights);
  return refusal;
}

/// Every operator that import does not know, with the Python line of its first
/// use, or else the first that it knows but not in this form.
static void printUnsupported(const pt2::Pt2File &file) {
  std::vector<UnsupportedTarget> unsupported =
      findUnsupportedTargets(file.program);
  if (!unsupported.empty())
    std::printf("not supported: %zu operators\n", unsupported.size());
  else if (std::string refusal = refusalOf(file); !refusal.empty())
    std::printf("not supported: %s\n", refusal.c_str());
  else
    std::puts("all operators are supported");
  for (const UnsupportedTarget &target : unsupported)
    std::printf("  %6lld  %s%s%s\n", static_cast<long long>(target.count),
                target.target.c_str(), target.place.empty() ? "" : "  ",
                target.place.c_str());
}
#endif

#ifdef LOCKSTEP_HAS_COMPILER
static Status describeModel(const InspectOptions &options) {
  LOCKSTEP_ASSIGN_OR_RETURN(pt2::Pt2File file, pt2::readPt2(options.path));
  pt2::SummaryOptions parts;
  parts.tensors = parts.operators = !options.brief;
  std::fputs(pt2::describeProgram(file.program, parts).c_str(), stdout);
#ifdef LOCKSTEP_HAS_IMPORT
  printUnsupported(file);
#endif
  return Status::success();
}
#endif

static const FileKind fileKinds[] = {
    {"LOCKSTEP", "an artifact", describeArtifact},
#ifdef LOCKSTEP_HAS_COMPILER
    {"PK\x03\x04", "an exported model", describeModel},
#endif
};

static Status inspect(const InspectOptions &options) {
  std::ifstream file(options.path, std::ios::binary);
  if (!file.is_open())
    return inputError("cannot open the file").at(options.path);
  char head[8] = {};
  file.read(head, sizeof(head));
  std::string known;
  for (const FileKind &kind : fileKinds) {
    if (std::string_view(head, sizeof(head)).substr(0, kind.magic.size()) ==
        kind.magic)
      return kind.describe(options);
    known += (known.empty() ? "" : " nor ") + std::string(kind.name);
  }
  return inputError("the file is neither " + known)
      .at(options.path)
      .remedy("give a .pt2 file of torch.export.save or a .lockstep file");
}

int main(int argc, char **argv) {
  return tools::runTool([&]() -> int {
    tools::CommandLine line("lockstep-inspect",
                            "Says what is in an exported model (.pt2) or an "
                            "artifact (.lockstep).");
    InspectOptions options;
    line.app().add_option("file", options.path, "the file")->required();
    line.app().add_flag("--brief", options.brief,
                        "totals only, without a line for each tensor, "
                        "operator and instruction");
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(inspect(options));
  });
}
