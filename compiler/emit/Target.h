//===- Target.h - Machine code for the kernels of a program ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_TARGET_H
#define LOCKSTEP_COMPILER_EMIT_TARGET_H

#include "compiler/emit/KernelLaunch.h"
#include "compiler/emit/loops/KernelFunction.h"
#include "dialects/plan/Plan.h"
#include <memory>
#include <string>

namespace lockstep::emit {

/// One of the launches that a kernel takes where one does not do.
struct KernelPart {
  /// What it does, for the part's name.
  std::string label;
  std::string symbol;
  KernelShape shape;
  KernelLaunch launch;
  double flops = 0, bytes = 0;
};

/// A kernel to generate. `symbol` must be unique among the kernels of one
/// object; compile may replace it by one that kernels of equal code share.
/// The others are what compile found.
struct GeneratedKernel {
  plan::KernelOp kernel;
  std::string symbol;
  KernelShape shape;
  /// Bytes of which each operand's address is a multiple in every launch:
  /// arguments, then results. Empty: of its element's size.
  llvm::SmallVector<int64_t> alignments;
  KernelLaunch launch = {};
  /// If there are any: the launches, in order, in the place of symbol, shape
  /// and launch. All take the kernel's operands.
  std::vector<KernelPart> parts = {};
  /// Whether the results' rounding may change from run to run.
  bool varies = false;
};

struct TargetOptions {
  /// Only kernels that give the same bits in every run.
  bool deterministic = false;
};

/// Turns generated kernels into the code section of an artifact.
class Target {
public:
  virtual ~Target() = default;

  /// The target of this name: x86-64-v3, x86-64-v4, native (the higher of these
  /// that this machine has), sm_80, sm_90a, sm_100a; null for another name.
  static std::unique_ptr<Target> create(llvm::StringRef name,
                                        const TargetOptions &options = {});

  /// Name of the code section: the instruction set that the code needs. Known
  /// after compile.
  virtual llvm::StringRef getName() const = 0;
  /// Whether kernels run on a GPU: fuse and schedule choose by it.
  virtual bool isGpu() const { return false; }
  /// Whether kernels of bf16 products do what plan::foldProduct takes.
  virtual bool hasProductEpilogues() const { return false; }
  /// Whether there are kernels of what plan::suitsAttentionTiles takes.
  virtual bool hasTileAttention() const { return false; }
  /// True for kinds of kernels that the runtime's library computes on the
  /// target; the others are generated.
  virtual bool hasLibrary(plan::KernelKind kind) const = 0;
  /// Whether this kernel goes to the library. `alignments` as in
  /// GeneratedKernel.
  virtual bool usesLibrary(plan::KernelOp kernel,
                           llvm::ArrayRef<int64_t> alignments) const {
    return hasLibrary(kernel.getKind());
  }
  /// The tool outside of the compiler that made the code, with its version, for
  /// the artifact's hash; empty where there is none.
  virtual std::string getToolVersion() const { return {}; }
  /// Compiles all kernels into self-contained objects and sets their shapes.
  /// The same kernels give the same bytes. Errors are emitted at the kernels,
  /// or at `module` where they belong to none.
  virtual mlir::LogicalResult
  compile(mlir::ModuleOp module, llvm::MutableArrayRef<GeneratedKernel> kernels,
          std::vector<std::string> &objects) = 0;
};

/// Dialects and translations that code generation needs; before emission, since
/// kernels are compiled by several threads.
void loadEmitDialects(mlir::MLIRContext &context);

} // namespace lockstep::emit

#endif
