// Checks that a plan is consistent with itself: what the executor relies on and
// would otherwise have to test at every launch.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_PLAN_CHECK_H
#define LOCKSTEP_RUNTIME_ARTIFACT_PLAN_CHECK_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/support/status.h"

namespace lockstep::runtime {

/// Numbered rules; the error text begins with the rule's number.
///   P1  every operand, tensor, input and scalar lies inside the program's
///       arena, iterations included, at a multiple of its element size
///   P2  kernel and communicator indices exist; a generated kernel has a
///       symbol, a library kernel none
///   P3  every collective id is started before it is awaited, awaited exactly
///       once, within the same loop body or program
///   P4  collective operands pair up and have the sizes the kind asks for
///   P5  groups of a communicator name existing ranks, each at most once
///   P6  names of tensors (tied ones too) are unique; sizes fit shapes and
///       types; a step program exists
///   P7  inputs follow the row rule: local rows = global rows / ranks, or whole
///   P8  generated kernels are all for the host or all for CUDA; those for CUDA
///       have 1 to 1024 threads and at least one item per block, the segments
///       of a segmented launch equally many operands, the launches of any other
///       kernel equally many work items
///   P9  only generated CUDA kernels, not segmented, have parameter lists; each
///       parameter names an operand of every launch, with all elements of its
///       tensor inside, or a range of the constants
Status checkPlan(const artifact::PlanT &plan);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_PLAN_CHECK_H
