// lockstep-compile: the compiler. Reads flags into CompileOptions and hands
// them to compiler/driver.
#include "compiler/driver/Compile.h"
#include "tools/common/cli.h"

#include <CLI/Validators.hpp>

using lockstep::CompileOptions;

/// "cross_entropy", "mse" or "output:I".
static std::string checkLoss(const std::string &text) {
  bool output = text.rfind("output:", 0) == 0 && text.size() > 7 &&
                text.find_first_not_of("0123456789", 7) == std::string::npos;
  return text == "cross_entropy" || text == "mse" || output
             ? ""
             : "expected cross_entropy, mse or output:I, but got '" + text +
                   "'";
}

static void addLossFlags(CLI::App &app, CompileOptions &o) {
  auto group = "Loss";
  app.add_option("--loss", o.loss,
                 "cross_entropy | mse, on the graph's first output and the "
                 "labels; output:I, the graph's own output I")
      ->group(group)
      ->check(checkLoss)
      ->capture_default_str();
  app.add_option("--labels", o.labels,
                 "name of the labels in the data, or next-token: the token "
                 "stream shifted by one")
      ->group(group)
      ->capture_default_str();
  app.add_option("--class-dim", o.classDim,
                 "dimension of the classes in the logits")
      ->group(group)
      ->capture_default_str();
  app.add_option("--label-smoothing", o.labelSmoothing,
                 "as torch.nn.CrossEntropyLoss")
      ->group(group)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--ignore-index", o.ignoreIndex, "labels that do not count")
      ->group(group)
      ->capture_default_str();
}

static void addOptimizerFlags(CLI::App &app, CompileOptions &o) {
  auto group = "Optimizer";
  app.add_option("--optimizer", o.optimizer, "sgd | adam | adamw")
      ->group(group)
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", o.weightDecay,
                 "default 0.01 for adamw, else 0")
      ->group(group)
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--weight-decay-exclude", o.weightDecayExclude,
         "parameters without decay: 'ndim<2' or name patterns such as '*.bias'")
      ->group(group);
  app.add_option("--momentum", o.momentum, "of sgd")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--nesterov", o.nesterov, "Nesterov momentum")->group(group);
  app.add_option("--betas", o.betas, "of adam and adamw")
      ->group(group)
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(0.0, 0.999999999))
      ->capture_default_str();
  app.add_option("--eps", o.eps, "of adam and adamw")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--lr-schedule", o.lrSchedule, "constant | linear | cosine")
      ->group(group)
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str();
  app.add_option("--warmup-steps", o.warmupSteps, "steps of linear warm-up")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--total-steps", o.totalSteps,
                 "steps until --min-lr is reached")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--min-lr", o.minLr, "learning rate at the end and after it")
      ->group(group)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--grad-clip", o.gradClip,
                 "bound of the global gradient norm over all ranks")
      ->group(group)
      ->check(CLI::PositiveNumber);
  app.add_option("--gradient-accumulation-steps", o.gradientAccumulationSteps,
                 "micro batches per step; the loss is that of the whole batch")
      ->group(group)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

static void addModelFlags(CLI::App &app, CompileOptions &o) {
  auto group = "Model";
  app.add_option(
         "--global-batch-size", o.globalBatchSize,
         "binds the symbolic batch; the batch in the graph is the global one")
      ->group(group)
      ->check(CLI::PositiveNumber);
  app.add_option("--whole", o.whole,
                 "this input is whole on every rank; else dimension 0 of every "
                 "input and of the labels is the batch")
      ->group(group);
  app.add_option("--weights", o.weights,
                 "a safetensors file, a Hugging Face folder with its index, or "
                 "none (see --init); default: the graph's own")
      ->group(group);
  app.add_option("--init", o.init,
                 "with --weights none: normal:STD (norms 1, biases 0)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--tie", o.ties, "A=B: two parameters that share storage")
      ->group(group);
  app.add_option("--seed", o.seed, "of weights, dropout and shuffling")
      ->group(group)
      ->capture_default_str();
  app.add_option("--batch-norm", o.batchNorm,
                 "global: statistics over all ranks (per accumulation step); "
                 "local: of each rank")
      ->group(group)
      ->check(CLI::IsMember({"global", "local"}))
      ->capture_default_str();
  app.add_option("--precision", o.precision,
                 "f32: all of it; bf16-mixed: products, convolutions and "
                 "attention in bf16, the rest and the parameters in f32")
      ->group(group)
      ->check(CLI::IsMember({"f32", "bf16-mixed"}))
      ->capture_default_str();
}

static void addClusterFlags(CLI::App &app, CompileOptions &o) {
  auto group = "Cluster";
  app.add_option("--ranks", o.ranks, "ranks to compile for")
      ->group(group)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--topology", o.topology,
                 "the cluster (docs/topologies); default: one box with that "
                 "many CPU ranks")
      ->group(group);
  app.add_option("--target", o.target,
                 "x86-64-v3 | x86-64-v4 | native | sm_80 | sm_90a | sm_100a")
      ->group(group)
      ->check(CLI::IsMember(
          {"x86-64-v3", "x86-64-v4", "native", "sm_80", "sm_90a", "sm_100a"}))
      ->capture_default_str();
  app.add_option("--memory-limit", o.memoryLimit,
                 "bytes per rank that must suffice, if need be by computing "
                 "saved values again (suffixes KiB, MiB, GiB)")
      ->group(group)
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--deterministic", o.deterministic,
               "only kernels that give the same bits in every run")
      ->group(group);
}

static void addStageFlags(CLI::App &app, CompileOptions &o, std::string &from,
                          std::string &to) {
  auto group = "Stages";
  app.add_option("-o,--output", o.output,
                 "the artifact, or IR with --compile-to; - for standard output")
      ->group(group);
  app.add_option("--compile-from", from,
                 "resume from an .mlir file: the phase that made it")
      ->group(group)
      ->check(CLI::IsMember(lockstep::phaseNames()));
  app.add_option("--model", o.model,
                 "with --compile-from: the exported graph that the IR was made "
                 "from, whose weights go into the artifact")
      ->group(group);
  app.add_option("--compile-to", to,
                 "stop after this phase: import, precision, autodiff, "
                 "partition, fuse, schedule")
      ->group(group)
      ->check(CLI::IsMember(lockstep::phaseNames()));
  app.add_option("--dump-ir-dir", o.dumpIrDir,
                 "writes the IR after every phase into this folder, numbered")
      ->group(group);
  app.add_option("--report", o.report,
                 "writes the compiler's decisions (YAML remarks) to this file")
      ->group(group);
  app.add_flag("-q,--quiet", o.quiet, "no summary")->group(group);
}

int main(int argc, char **argv) {
  return lockstep::tools::runTool([&]() -> int {
    lockstep::tools::CommandLine line("lockstep-compile",
                                      "Compiles an exported model into one "
                                      "artifact that trains it on every rank.");
    CompileOptions options;
    std::string from, to;
    line.app()
        .add_option(
            "model", options.input,
            "the exported graph (.pt2), or IR (.mlir) with --compile-from")
        ->required();
    addLossFlags(line.app(), options);
    addOptimizerFlags(line.app(), options);
    addModelFlags(line.app(), options);
    addClusterFlags(line.app(), options);
    addStageFlags(line.app(), options, from, to);
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    if (!from.empty())
      options.from = *lockstep::phaseFromName(from);
    if (!to.empty())
      options.to = *lockstep::phaseFromName(to);
    return lockstep::tools::finish(lockstep::compile(options));
  });
}
