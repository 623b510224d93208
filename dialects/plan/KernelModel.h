//===- KernelModel.h - What the regions of kernels may hold ----*- C++ -*-===//
//
// The contract between fuse, which forms kernels, schedule, which gives them
// memory, and emit, which lowers them.
//
//   loop         Pointwise, broadcast_in_dim, reshape, transpose, slice, pad,
//   concatenate, reverse, iota, constant, gather, reduce and dropout.
//                There is one domain (iteration space). All `reduce` operations
//                reduce the same dimensions of it; values after a reduce are
//                row-level, broadcasting brings them back to the element level.
//                Results are element-level or row-level. View-like operations
//                compose into index expressions, so no value of the region
//                needs memory of its own but reduced ones.
//   contraction  One dot_general; views on operands and results become strides
//   of a library call. attention, attention_gradient, convolution,
//   convolution_input_gradient, convolution_filter_gradient, sort
//                One operation of that name, with views on operands and results
//                that become strides.
//   scatter      One scatter; `operand` may be a constant of the region.
//   Otherwise only views, constants and pointwise on the
//                updates and indices.
//   scan         One cumulative or arg_reduce along one dimension.
//   window       One reduce_window or reduce_window_gradient.
//   update       Pointwise work written for one element (tensor<1xT>) and
//   shared scalars (rank 0); runs over any number of elements.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_PLAN_KERNELMODEL_H
#define LOCKSTEP_DIALECTS_PLAN_KERNELMODEL_H

#include "dialects/plan/Plan.h"

namespace lockstep::plan {

/// True for operations that only renumber elements: reshape, transpose, slice,
/// broadcast_in_dim.
bool isViewOp(mlir::Operation *op);

/// The kind of kernel whose anchor `op` is, nothing where it belongs into a
/// loop.
std::optional<KernelKind> getAnchorKind(mlir::Operation *op);

/// True if result `result` may lie in exactly the memory of argument
/// `argument`. Emitted code keeps this promise: a work item loads every element
/// that it needs of such an argument before it stores the same element of the
/// result, and no other work item touches it.
bool canWriteOver(KernelOp kernel, unsigned argument, unsigned result);

/// The argument whose memory result `result` must have: what lies there is
/// added to. -1 if there is none.
int getAccumulatedArgument(KernelOp kernel, unsigned result);

} // namespace lockstep::plan

#endif
