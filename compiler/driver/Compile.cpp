//===- Compile.cpp - The phases in order ----------------------------------===//
//
// A compilation is a module that goes through the phases. This file reads the
// input, runs one phase after the other, writes the IR where it was asked for,
// and the artifact at the end. What a phase does is its stage's business.
//
//===----------------------------------------------------------------------===//
#include "compiler/driver/Compile.h"
#include "compiler/autodiff/Passes.h"
#include "compiler/driver/Diagnostics.h"
#include "compiler/driver/Registration.h"
#include "compiler/emit/Emit.h"
#include "compiler/emit/Target.h"
#include "compiler/fuse/Passes.h"
#include "compiler/import/Import.h"
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Weights.h"
#include "compiler/partition/Passes.h"
#include "compiler/precision/Passes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Summary.h"
#include "dialects/train/StepAttributes.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace lockstep {
namespace {

class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), context(makeRegistry()), diagnostics(context),
        target(emit::Target::create(options.target, {options.deterministic})) {}

  Status run();

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  Status checkOptions() const;
  Status enableReport();
  Status importModel();
  Status readIr();
  Status readWeights(const pt2::Pt2File &file);
  Status runPhase(Phase phase);
  void addPasses(Phase phase, PassManager &manager) const;
  StepOptions stepOptions() const;
  const std::string &exportedModel() const {
    return options.from ? options.model : options.input;
  }
  Status emit();
  Status printIr(const std::string &path) const;
  Status dump(Phase phase) const;

  const CompileOptions &options;
  MLIRContext context;
  DiagnosticCollector diagnostics;
  std::unique_ptr<emit::Target> target;
  OwningOpRef<ModuleOp> module;
  std::optional<WeightStore> weights;
};

} // namespace

Status Compilation::checkOptions() const {
  if (options.from && *options.from > options.to)
    return usageError(std::string("--compile-from ") +
                      phaseName(*options.from) + " comes after --compile-to " +
                      phaseName(options.to));
  if (options.output.empty())
    return usageError("an output is needed")
        .remedy("give -o FILE, or -o - for IR on standard output");
  if (options.lrSchedule != "constant" &&
      options.totalSteps <= options.warmupSteps)
    return usageError("--lr-schedule " + options.lrSchedule +
                      " needs --total-steps above --warmup-steps");
  if (options.nesterov && options.momentum <= 0)
    return usageError("--nesterov needs --momentum");
  if (!target)
    return usageError("there is no target '" + options.target + "'")
        .remedy("give --target x86-64-v3, x86-64-v4, native, sm_80, sm_90a or "
                "sm_100a");
  if (!options.from)
    return options.model.empty() ? Status::success()
                                 : usageError("--model needs --compile-from");
  if (*options.from == Phase::Emit)
    return usageError("nothing comes after emit: --compile-from takes the "
                      "phase that made the IR");
  // IR has no weights, and an artifact of zeros would train.
  if (options.to == Phase::Emit && options.model.empty())
    return usageError("IR has no weights for the artifact")
        .remedy("name the exported graph that it was made from with --model "
                "FILE.pt2, and give --weights, --init, --tie and --seed as "
                "before");
  return Status::success();
}

Status Compilation::enableReport() {
  if (options.report.empty())
    return Status::success();
  // `all` alone lets nothing through.
  std::string any = ".*";
  remark::RemarkCategories categories{any, any, any, any, any};
  if (failed(remark::enableOptimizationRemarksWithLLVMStreamer(
          context, options.report, llvm::remarks::Format::YAML,
          std::make_unique<remark::RemarkEmittingPolicyAll>(), categories)))
    return inputError("the report cannot be written")
        .at(options.report)
        .remedy("check that the folder exists and is writable");
  return Status::success();
}

Status Compilation::readWeights(const pt2::Pt2File &file) {
  WeightOptions weightOptions;
  weightOptions.weights = options.weights;
  weightOptions.init = options.init;
  weightOptions.ties = options.ties;
  LOCKSTEP_ASSIGN_OR_RETURN(weights,
                            pt2::buildWeightStore(file, weightOptions));
  return Status::success();
}

Status Compilation::importModel() {
  LOCKSTEP_ASSIGN_OR_RETURN(pt2::Pt2File file, pt2::readPt2(options.input));
  LOCKSTEP_RETURN_IF_ERROR(readWeights(file));
  ImportOptions importOptions;
  if (options.globalBatchSize > 0)
    importOptions.globalBatchSize = options.globalBatchSize;
  importOptions.wholeInputs = options.whole;
  FailureOr<OwningOpRef<ModuleOp>> imported =
      importProgram(context, file.program, importOptions, *weights);
  if (failed(imported))
    return diagnostics.takeError("import").at(options.input);
  module = std::move(*imported);
  return Status::success();
}

Status Compilation::readIr() {
  module = parseSourceFile<ModuleOp>(options.input, &context);
  if (!module)
    return diagnostics.takeError("parse").at(options.input);
  if (options.model.empty())
    return Status::success();
  LOCKSTEP_ASSIGN_OR_RETURN(pt2::Pt2File file, pt2::readPt2(options.model));
  return readWeights(file);
}

StepOptions Compilation::stepOptions() const {
  StepOptions step;
  step.loss = options.loss;
  step.labels = options.labels;
  step.classDim = options.classDim;
  step.labelSmoothing = options.labelSmoothing;
  step.ignoreIndex = options.ignoreIndex;
  step.optimizer = options.optimizer;
  step.lr = options.lr;
  step.momentum = options.momentum;
  step.nesterov = options.nesterov;
  step.beta1 = options.betas[0];
  step.beta2 = options.betas[1];
  step.eps = options.eps;
  step.weightDecay =
      options.weightDecay.value_or(options.optimizer == "adamw" ? 0.01 : 0.0);
  step.weightDecayExclude.assign(options.weightDecayExclude.begin(),
                                 options.weightDecayExclude.end());
  step.gradClip = options.gradClip.value_or(0);
  step.accumulationSteps = options.gradientAccumulationSteps;
  step.localBatchNorm = options.batchNorm == "local";
  step.lrSchedule = options.lrSchedule;
  step.warmupSteps = options.warmupSteps;
  step.totalSteps = options.totalSteps;
  step.minLr = options.minLr;
  return step;
}

void Compilation::addPasses(Phase phase, PassManager &manager) const {
  switch (phase) {
  case Phase::Import:
  case Phase::Emit:
    break;
  case Phase::Precision: {
    PrecisionOptions precision;
    precision.policy = options.precision;
    buildPrecisionPipeline(manager, precision);
    break;
  }
  case Phase::Autodiff:
    buildAutodiffPipeline(manager, stepOptions());
    if (options.precision != "f32")
      buildJoinConversions(manager);
    break;
  case Phase::Partition: {
    PartitionPipelineOptions partition;
    partition.ranks = options.ranks;
    partition.topology = options.topology;
    buildPartitionPipeline(manager, partition);
    break;
  }
  case Phase::Fuse: {
    fuse::FusePipelineOptions fusion;
    fusion.gpu = target->isGpu();
    fusion.epilogues = target->hasProductEpilogues();
    fusion.tileAttention = target->hasTileAttention();
    fuse::buildFusePipeline(manager, fusion);
    break;
  }
  case Phase::Schedule: {
    schedule::SchedulePipelineOptions schedule;
    schedule.memoryLimit = options.memoryLimit;
    schedule.gpu = target->isGpu();
    schedule::buildSchedulePipeline(manager, schedule);
    break;
  }
  }
}

Status Compilation::runPhase(Phase phase) {
  // Verified once, at the end: lockstep-opt and the tests verify after each
  // pass, which takes as long as the passes.
  PassManager manager(&context);
  manager.enableVerifier(false);
  addPasses(phase, manager);
  if (failed(manager.run(*module)) || failed(verify(*module)))
    return diagnostics.takeError(phaseName(phase)).at(options.input);
  return Status::success();
}

Status Compilation::printIr(const std::string &path) const {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, llvm::sys::fs::OF_Text);
  if (error)
    return inputError("cannot be written: " + error.message())
        .at(path)
        .remedy("check that the folder exists and is writable");
  (*module)->print(file.os(), OpPrintingFlags().enableDebugInfo(
                                  path != "-", /*prettyForm=*/false));
  file.os().flush();
  if (file.os().has_error()) {
    std::string message = file.os().error().message();
    file.os().clear_error();
    return inputError("cannot be written: " + message)
        .at(path)
        .remedy("free some space or choose another place");
  }
  file.keep();
  return Status::success();
}

Status Compilation::dump(Phase phase) const {
  if (options.dumpIrDir.empty())
    return Status::success();
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.dumpIrDir))
    return inputError("cannot be made: " + error.message())
        .at(options.dumpIrDir);
  llvm::SmallString<128> path(options.dumpIrDir);
  llvm::sys::path::append(path, std::to_string(static_cast<int>(phase)) + "-" +
                                    phaseName(phase) + ".mlir");
  return printIr(std::string(path));
}

/// What computing again saved, if anything is.
static void printRecompute(const schedule::ScheduleSummary &summary) {
  if (!summary.recomputedCalls && !summary.recomputedResults)
    return;
  llvm::outs() << "recomputed: " << summary.recomputedCalls
               << " kernel calls and " << summary.recomputedResults
               << " results of kernels that run anyway, "
               << llvm::format("%.1f",
                               double(summary.recomputedBytes) / 1048576.0)
               << " MiB less at the peak, predicted to take "
               << llvm::format("%.3g", summary.recomputedSeconds * 1e3)
               << " ms per step\n";
}

static void printSummary(const artifact::PlanT &plan,
                         const schedule::ScheduleSummary &summary,
                         llvm::ArrayRef<std::string> notes) {
  const artifact::SummaryT &s = *plan.summary;
  llvm::outs() << plan.model << ": " << s.parameters << " parameters ("
               << s.parameters_decayed << " with weight decay), " << plan.loss
               << ", " << plan.optimizer << "\n";
  llvm::outs() << "labels: " << (plan.labels.empty() ? "none" : plan.labels)
               << (plan.labels_rule == artifact::LabelsRule::NextToken
                       ? ", the tokens shifted by one"
                   : plan.labels_rule == artifact::LabelsRule::SameTokens
                       ? ", the tokens themselves"
                       : "")
               << "\n";
  llvm::outs() << "batch: " << plan.global_batch << " samples over "
               << plan.ranks << (plan.ranks == 1 ? " rank" : " ranks") << ", "
               << s.batch_per_rank << " each";
  if (s.tokens_per_step > 0)
    llvm::outs() << ", " << s.tokens_per_step << " tokens per step";
  llvm::outs() << "\nplan: " << s.kernels << " kernels, " << s.collectives
               << " collectives per step, peak memory "
               << llvm::format("%.1f", s.peak_bytes / 1048576.0)
               << " MiB per rank\n";
  printRecompute(summary);
  if (!s.varying_kernels.empty())
    llvm::outs() << "not the same bits in every run, without --deterministic: "
                 << llvm::join(s.varying_kernels, ", ") << "\n";
  for (const std::string &note : notes)
    llvm::outs() << note << "\n";
}

Status Compilation::emit() {
  emit::EmitOptions emitOptions;
  emitOptions.target = options.target;
  emitOptions.seed = options.seed;
  emitOptions.model = llvm::sys::path::stem(exportedModel()).str();
  emitOptions.loss = options.loss;
  emitOptions.optimizer = options.optimizer;
  emitOptions.ranks = options.ranks;
  emitOptions.deterministic = options.deterministic;
  artifact::PlanT plan;
  schedule::ScheduleSummary summary =
      schedule::summarize(*module, train::kStepName);
  if (failed(emit::emitArtifact(*module, emitOptions, *weights, options.output,
                                &plan)))
    return diagnostics.takeError("emit").at(options.output);
  if (!options.quiet)
    printSummary(plan, summary, weights->notes());
  return Status::success();
}

Status Compilation::run() {
  LOCKSTEP_RETURN_IF_ERROR(checkOptions());
  LOCKSTEP_RETURN_IF_ERROR(enableReport());
  LOCKSTEP_RETURN_IF_ERROR(options.from ? readIr() : importModel());
  if (!options.from)
    LOCKSTEP_RETURN_IF_ERROR(dump(Phase::Import));
  // Resuming from a phase means from what that phase made.
  for (int i = static_cast<int>(options.from.value_or(Phase::Import)) + 1;
       i <= static_cast<int>(options.to); ++i) {
    Phase phase = static_cast<Phase>(i);
    if (phase == Phase::Emit)
      return emit();
    LOCKSTEP_RETURN_IF_ERROR(runPhase(phase));
    LOCKSTEP_RETURN_IF_ERROR(dump(phase));
  }
  return printIr(options.output);
}

Status compile(const CompileOptions &options) {
  auto compilation = std::make_unique<Compilation>(options);
  Status status = compilation->run();
  // A process compiles once: to take the IR apart, operation by operation,
  // would be for nothing. The report is complete when its engine ends.
  if (options.report.empty())
    static_cast<void>(compilation.release());
  return status;
}

} // namespace lockstep
