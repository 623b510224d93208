//===- AttentionLaunch.h - What it takes to launch the kernels -*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONLAUNCH_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONLAUNCH_H

#include "compiler/emit/nvptx/attention/WorkTable.h"
#include "compiler/emit/nvptx/gemm/GemmLaunch.h"
#include <map>

namespace lockstep::attention {

/// What the caller passes in. LogSumExp is f32 [batch][head][query]; KeyMask
/// [batch][key] and Mask [batch][head][query][key] are i8 or numbers; the
/// others are bf16 [batch][head][row][column].
enum class AttentionTensor {
  Query,
  Key,
  Value,
  Output,
  OutputGradient,
  QueryGradient,
  KeyGradient,
  ValueGradient,
  LogSumExp,
  KeyMask,
  Mask,
};

/// Memory between the kernels of a plan, in which no value is assumed.
enum class AttentionScratch { LogSum, RowSum, QuerySums, KeyBias, MaskPieces };

/// Distances in elements from one row, head, batch to the next.
struct TensorStrides {
  int64_t row = 0, head = 0, batch = 0;
  /// Of Mask.
  int64_t column = 1;
};
/// Of the tensors up to ValueGradient that a plan uses, and of the masks, where
/// a stride of 0 means that all share it. Without its own, KeyMask is
/// contiguous.
using AttentionStrides = std::map<AttentionTensor, TensorStrides>;

enum class AttentionKernel {
  KeyBias,
  MaskPieces,
  Forward,
  Prepare,
  Backward,
  Convert,
  QueryGradient,
};

/// One argument of a kernel.
struct LaunchParameter {
  enum class Kind {
    TensorMap, // of `tensor`, by value
    Pointer,   // to `tensor`
    Scratch,   // to `scratch`
    Table,     // to the launch's table, which never changes
    Bounds,    // to the launch's bounds
    Null,      // a pointer that the kernel does not use
    Number,    // i32 `number`
    Wide,      // i64 `number`
    Scalar,    // f32 `scalar`
  };
  Kind kind = Kind::Null;
  AttentionTensor tensor = AttentionTensor::Query;
  AttentionScratch scratch = AttentionScratch::LogSum;
  gemm::TensorMapShape map;
  int64_t number = 0;
  float scalar = 0;
};

struct AttentionLaunch {
  AttentionKernel kernel = AttentionKernel::Forward;
  /// In the order of the kernel's arguments.
  std::vector<LaunchParameter> parameters;
  /// The items' numbers, and each block's first item; empty for the passes.
  std::vector<int32_t> table, bounds;
  int64_t gridBlocks = 0;
  int threads = 0, sharedBytes = 0;
};

/// The launches of a forward or a backward pass, in order.
struct AttentionPlan {
  std::vector<AttentionLaunch> launches;
  std::map<AttentionScratch, int64_t> scratchBytes;
};

/// Empty, or what the kernels cannot take of how the tensors lie.
std::string checkStrides(const AttentionStrides &strides);

/// For configurations, sizes and strides that the checks accept.
AttentionPlan planForward(const ForwardConfig &config,
                          const AttentionSize &size,
                          const AttentionStrides &strides, float scale,
                          int multiprocessors);
/// Prepare, backward, convert.
AttentionPlan planBackward(const BackwardConfig &config,
                           const AttentionSize &size,
                           const AttentionStrides &strides, float scale,
                           int multiprocessors);
/// Query gradient, then a backward without dq.
AttentionPlan planBackward(const QueryGradientConfig &queryConfig,
                           const BackwardConfig &config,
                           const AttentionSize &size,
                           const AttentionStrides &strides, float scale,
                           int multiprocessors);

} // namespace lockstep::attention

#endif
