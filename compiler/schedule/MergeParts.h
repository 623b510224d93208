//===- MergeParts.h - Kernels that give more than one value -----*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_MERGEPARTS_H
#define LOCKSTEP_COMPILER_SCHEDULE_MERGEPARTS_H

#include "compiler/schedule/Trial.h"

namespace lockstep::schedule {

/// Lets loop kernels of the backward pass give the values that are computed
/// again from tensors that they read anyway: a norm's gradient, which reads the
/// norm's input, gives its output as well. What reads such a value moves behind
/// that kernel. All but the first `spared` calls are looked at: the first run
/// where memory is short. Values of the trial that its mapping names may be
/// gone afterwards.
void mergeParts(Trial &trial, RecipeBook &book, size_t spared);

} // namespace lockstep::schedule

#endif
