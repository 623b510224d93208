//===- GemmLaunch.h - What it takes to launch a GEMM kernel ----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMLAUNCH_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMLAUNCH_H

#include "compiler/emit/nvptx/gemm/TileTable.h"

namespace lockstep::gemm {

/// Distances in elements: from one row of the contiguous index to the next
/// (the leading dimension), and from one matrix of a batch to the next. The
/// second tensor lies as D does.
struct GemmStrides {
  int64_t a = 0, b = 0, d = 0;
  int64_t aBatch = 0, bBatch = 0, dBatch = 0;
};

/// What a tensor map describes, innermost dimension first.
struct TensorMapShape {
  std::vector<int64_t> extents;     // elements
  std::vector<int64_t> byteStrides; // of dimensions 1 and on
  std::vector<int32_t> box;         // elements that one copy moves
  int elementBytes = 2;
  int swizzleBytes = 128;
};

enum class GemmTensor { A, B, D, Side, Bias };

/// One argument of a kernel.
struct LaunchParameter {
  enum class Kind {
    TensorMap,  // of `tensor`, by value
    Pointer,    // to `tensor`
    TileTable,  // to the items, which never change
    Workspace,  // to memory in which no value is assumed
    Counters,   // to memory that is zero before the first launch
    ColumnSums, // to f32 [getColumnSumLines][N]
    Number,
    Null, // a pointer that the kernel does not use
  };
  Kind kind = Kind::Null;
  GemmTensor tensor = GemmTensor::A;
  TensorMapShape map;
  int32_t number = 0;
};

struct GemmLaunch {
  /// In the order of the kernel's arguments.
  std::vector<LaunchParameter> parameters;
  TileTable table;
  int gridBlocks = 0, clusterBlocks = 1, threads = 0, sharedBytes = 0;
  /// Whether it may start before the kernel before it has ended.
  bool overlap = false;
  int64_t workspaceBytes = 0, counterBytes = 0, columnSumBytes = 0;
};

/// Empty, or what the kernels cannot take of how the operands lie.
std::string checkStrides(const GemmConfig &config, const GemmSize &size,
                         const GemmStrides &strides);

/// For a configuration, a size and strides that the checks accept.
GemmLaunch planLaunch(const GemmConfig &config, const GemmSize &size,
                      const GemmStrides &strides, int multiprocessors,
                      int group = 8);

} // namespace lockstep::gemm

#endif
