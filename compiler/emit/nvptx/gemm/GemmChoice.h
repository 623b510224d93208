//===- GemmChoice.h - Which kernel for which product -----------*- C++ -*-===//
//
// The choice is made at compile time, from what was measured once
// (docs/gpu-kernels.md): each candidate's speed in its steady state, and the
// time of its last, partly filled wave of tiles.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMCHOICE_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMCHOICE_H

#include "compiler/emit/nvptx/gemm/TileTable.h"

namespace lockstep::gemm {

/// A product, with what a kernel shall do besides.
struct GemmRequest {
  GemmSize size;
  Major a = Major::K, b = Major::K;
  Output output = Output::BFloat16;
  bool bias = false;
  Activation activation = Activation::None;
  Side side = Side::None;
  bool columnSums = false;
  /// Whether the vendor's library can do it as well.
  bool hasAlternative = true;
};

struct GemmChoice {
  GemmConfig config;
  /// Of buildTileTable.
  int group = 8;
  /// How long it takes, in blocks of 128 x 128 x 64 of one multiprocessor.
  double time = 0;
};

/// The kernel expected to be the fastest, for an sm_90a GPU of so many
/// multiprocessors. Nothing where no kernel can do it, or where the vendor's
/// library can and was measured to be faster: a plain product of few tiles.
std::optional<GemmChoice> chooseGemm(const GemmRequest &request,
                                     int multiprocessors);

} // namespace lockstep::gemm

#endif
