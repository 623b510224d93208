//===- ProductKernel.h - Products on the tensor cores -----------*- C++ -*-===//
//
// Maps a contraction kernel (dialects/plan/ProductEpilogue.h) to a generated
// GEMM kernel (gemm/): a configuration, whose code all kernels of it share, and
// the parameters of its launches.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_PRODUCTKERNEL_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_PRODUCTKERNEL_H

#include "compiler/emit/Target.h"
#include "compiler/emit/nvptx/LaunchParameters.h"
#include "compiler/emit/nvptx/SharedCode.h"

namespace lockstep::emit {

struct ProductKernel {
  gemm::GemmConfig config;
  gemm::GemmLaunch launch;
  /// Of the kernel's arguments and results, numbered together: which one each
  /// tensor of the launch is, and at which byte it begins.
  struct Place {
    uint32_t operand = 0;
    int64_t byteOffset = 0;
  };
  Place a, b, d, side, bias;
};

/// A product of bf16 for an sm_90a GPU of so many multiprocessors. Nothing
/// where the kernel is another one, its operands do not begin and step by 16
/// bytes, or the vendor's library can do it and is expected to be faster.
/// `alignments` as in GeneratedKernel.
std::optional<ProductKernel> planProduct(plan::KernelOp kernel,
                                         llvm::ArrayRef<int64_t> alignments,
                                         int multiprocessors);

/// Adds the code to what kernels share, and the launch to the kernel.
void addLaunch(const ProductKernel &product, const ScratchLayout &scratch,
               SharedCode &code, GeneratedKernel &kernel);

} // namespace lockstep::emit

#endif
