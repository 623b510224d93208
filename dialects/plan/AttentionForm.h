//===- AttentionForm.h - Attention for tensor-core kernels ------*- C++ -*-===//
//
// Which attention the generated kernels compute (compiler/emit/nvptx), and how
// the tensors of such a kernel lie. Fuse asks before it keeps an operation
// whole and folds views into it; emit asks for the numbers. Strides and offsets
// are in elements.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_PLAN_ATTENTIONFORM_H
#define LOCKSTEP_DIALECTS_PLAN_ATTENTIONFORM_H

#include "dialects/plan/StridedView.h"

namespace lockstep::plan {

/// Whether operation `op` is an attention, or a gradient of one, whose types,
/// sizes and mask the kernels take: bf16, one head dimension of at most 256
/// that is a multiple of 8, a positive scale, a window only with a causal mask
/// of as many keys as queries, and a mask of i1, f32 or bf16.
bool suitsAttentionTiles(mlir::Operation *op);

/// Whether tensor copies reach a query, key, value, output or a gradient of one
/// [batch, head, row, column] that lies so: unit innermost stride, everything
/// else in steps of 16 bytes.
bool suitsAttentionTiles(const StridedView &view);

struct AttentionForm {
  /// One of the kernel's arguments and results, numbered together.
  struct Tensor {
    unsigned operand = 0;
    int64_t offset = 0;
    /// Of dimensions of size 1: some number that tensor copies accept.
    int64_t row = 0, head = 0, batch = 0;
  };
  Tensor query, key, value, output;
  /// f32 [batch, head, row], contiguous.
  unsigned lse = 0;
  /// Boolean or added to the scaled scores; contiguous.
  struct Mask {
    enum class Element { Boolean, F32, BFloat16 };
    unsigned operand = 0;
    Element element = Element::Boolean;
    /// 0 of dimensions of size 1.
    int64_t row = 0, head = 0, batch = 0, column = 0;
    /// The same for all heads and queries.
    bool isOfKeys() const { return !row && !head && column == 1; }
  };
  std::optional<Mask> mask;
  /// Of a gradient.
  Tensor outputGradient, queryGradient, keyGradient, valueGradient;

  bool isGradient = false;
  int64_t batches = 1, queryHeads = 1, keyHeads = 1, queries = 1, keys = 1,
          headDim = 1;
  float scale = 1;
  bool causal = false;
  std::optional<int64_t> window;
};

/// The parts of an attention kernel; nothing where it is not one of that form.
std::optional<AttentionForm> foldAttention(KernelOp kernel);

} // namespace lockstep::plan

#endif
