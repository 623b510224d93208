//===- RowTensors.h - Rows of strided tensors ------------------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ROWTENSORS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ROWTENSORS_H

#include "compiler/emit/nvptx/attention/BlockFrame.h"

namespace lockstep::attention {

/// bf16 [batch][head][row][column], columns contiguous; strides in elements,
/// i64.
struct RowTensor {
  Value data, rowStride, headStride, batchStride;
};

/// Where a row begins.
Value getRowPointer(AttentionBuilder &b, const RowTensor &tensor, Value row,
                    Value head, Value batch);

/// sum + the products of eight columns of two rows, in f32.
Value addProducts(AttentionBuilder &b, Value sum, Value pointerA,
                  Value pointerB);

/// Stores what backward reads of a query.
void storeVectors(AttentionBuilder &b, Value logSums, Value rowSums,
                  Value index, Value logSum, Value rowSum);

/// Minus lse in base 2 of a row of the forward pass's result; minus infinity
/// too where the row saw nothing, so that its weights are zeros.
Value loadLogSum(AttentionBuilder &b, Value lse, Value index);

} // namespace lockstep::attention

#endif
