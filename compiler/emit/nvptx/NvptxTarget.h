//===- NvptxTarget.h - NVIDIA GPUs -----------------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_NVPTXTARGET_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_NVPTXTARGET_H

#include "compiler/emit/Target.h"
#include "compiler/emit/nvptx/AttentionCalls.h"
#include "compiler/emit/nvptx/ProductKernel.h"

namespace lockstep::emit {

/// sm_80, sm_90a or sm_100a. The code sections are cubins where the CUDA
/// toolkit's ptxas is at hand, else one of PTX, which the driver compiles when
/// the artifact is loaded, if the user allows it.
class NvptxTarget : public Target {
public:
  explicit NvptxTarget(llvm::StringRef chip, const TargetOptions &options = {})
      : chip(chip), section(chip), options(options) {}

  llvm::StringRef getName() const override { return section; }
  bool isGpu() const override { return true; }
  bool hasProductEpilogues() const override;
  bool hasTileAttention() const override;
  bool hasLibrary(plan::KernelKind kind) const override;
  bool usesLibrary(plan::KernelOp kernel,
                   llvm::ArrayRef<int64_t> alignments) const override;
  std::string getToolVersion() const override;
  mlir::LogicalResult compile(mlir::ModuleOp module,
                              llvm::MutableArrayRef<GeneratedKernel> kernels,
                              std::vector<std::string> &objects) override;

  /// The PTX of the kernels, whether or not there is a ptxas.
  mlir::LogicalResult
  compileToPtx(mlir::ModuleOp module,
               llvm::MutableArrayRef<GeneratedKernel> kernels,
               std::string &ptx);

private:
  /// The PTX of kernels in groups, each a module of its own.
  mlir::LogicalResult
  compileGroups(mlir::ModuleOp module,
                llvm::MutableArrayRef<GeneratedKernel> kernels,
                std::vector<std::string> &texts) const;
  /// A product that a kernel of our own does; nothing for other kernels.
  std::optional<ProductKernel>
  planProduct(plan::KernelOp kernel, llvm::ArrayRef<int64_t> alignments) const;
  /// Attention likewise.
  std::optional<AttentionCalls> planAttention(plan::KernelOp kernel) const;
  /// Gives products and attention their launches, adds their code to `shared`,
  /// and leaves the others in `grids`.
  void addSharedKernels(llvm::MutableArrayRef<GeneratedKernel> kernels,
                        SharedCode &shared,
                        std::vector<GeneratedKernel *> &grids) const;

  std::string chip, section;
  TargetOptions options;
};

} // namespace lockstep::emit

#endif
