//===- AttentionCalls.h - Attention on the tensor cores ---------*- C++ -*-===//
//
// Maps an attention kernel (dialects/plan/AttentionForm.h) to generated kernels
// (attention/): one launch forward, a few backward, each of a configuration
// whose code all kernels of it share.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTIONCALLS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTIONCALLS_H

#include "compiler/emit/Target.h"
#include "compiler/emit/nvptx/LaunchParameters.h"
#include "compiler/emit/nvptx/SharedCode.h"
#include "compiler/emit/nvptx/attention/AttentionLaunch.h"
#include "dialects/plan/AttentionForm.h"

namespace lockstep::emit {

struct AttentionCalls {
  plan::AttentionForm form;
  attention::AttentionPlan plan;
  /// Of a forward pass.
  attention::ForwardConfig forward;
  /// Of a backward pass.
  attention::BackwardConfig backward;
  /// Of the pair that gives the same bits in every run.
  std::optional<attention::QueryGradientConfig> queryGradient;

  /// Whether the results' rounding may change from run to run.
  bool varies() const { return form.isGradient && !queryGradient; }
};

/// Attention for an sm_90a GPU of so many multiprocessors; nothing where the
/// kernel is another one. `deterministic`: with the same bits in every run.
std::optional<AttentionCalls>
planAttention(plan::KernelOp kernel, int multiprocessors, bool deterministic);

/// Adds the code of each launch to what kernels share, and the launches to the
/// kernel.
void addParts(const AttentionCalls &calls, const ScratchLayout &scratch,
              SharedCode &code, GeneratedKernel &kernel);

} // namespace lockstep::emit

#endif
