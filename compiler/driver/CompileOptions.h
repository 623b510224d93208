//===- CompileOptions.h - What a user asks of the compiler ------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_DRIVER_COMPILEOPTIONS_H
#define LOCKSTEP_COMPILER_DRIVER_COMPILEOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The stages in order; each can be stopped after and resumed from
/// (--compile-to, --compile-from).
enum class Phase {
  Import,
  Precision,
  Autodiff,
  Partition,
  Fuse,
  Schedule,
  Emit
};

/// The flag's spelling of a phase: "import", ...
const char *phaseName(Phase phase);
std::optional<Phase> phaseFromName(const std::string &name);
std::vector<std::string> phaseNames();

/// One field per flag of lockstep-compile; the defaults are PyTorch's.
struct CompileOptions {
  std::string input;  ///< .pt2, or .mlir with --compile-from
  std::string model;  ///< with --compile-from: the .pt2 that the IR is of
  std::string output; ///< the artifact, or IR; "-" is standard output

  // The loss
  std::string loss = "cross_entropy"; ///< cross_entropy, mse or output:I
  std::string labels =
      "labels"; ///< name of the labels in the data, or next-token
  int64_t classDim = -1;
  double labelSmoothing = 0;
  int64_t ignoreIndex = -100;

  // The optimizer
  std::string optimizer = "sgd"; ///< sgd, adam or adamw
  double lr = 1e-3;
  std::optional<double> weightDecay; ///< 0.01 for adamw, else 0
  double momentum = 0;
  bool nesterov = false;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  std::vector<std::string> weightDecayExclude; ///< "ndim<2" or name globs
  std::string lrSchedule = "constant";         ///< constant, linear or cosine
  int64_t warmupSteps = 0;
  int64_t totalSteps = 0;
  double minLr = 0;
  std::optional<double> gradClip;
  int64_t gradientAccumulationSteps = 1;

  // Shapes, weights, layout
  int64_t globalBatchSize = 0; ///< 0: the graph's
  std::string
      weights; ///< empty: the graph's own; "none": drawn at start by `init`
  std::string init = "normal:0.02";
  std::vector<std::string> ties; ///< "A=B"
  uint64_t seed = 0;
  int64_t ranks = 1;
  std::string topology; ///< empty: a box with `ranks` CPU ranks
  std::string target = "x86-64-v3";
  std::string batchNorm = "global"; ///< or local
  std::vector<std::string> whole;   ///< inputs that are whole on every rank
  std::string precision = "f32";    ///< or bf16-mixed
  int64_t memoryLimit = 0;          ///< bytes per rank; 0: none
  bool deterministic = false; ///< only kernels of the same bits in every run

  // Stages and reports
  std::optional<Phase> from; ///< none: from the exported graph
  Phase to = Phase::Emit;
  std::string dumpIrDir;
  std::string report; ///< YAML file of the decisions (remarks)
  bool quiet = false;
};

} // namespace lockstep

#endif
