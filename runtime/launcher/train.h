// The training loop: steps, evaluation, checkpoints, the log and the progress
// line.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_TRAIN_H
#define LOCKSTEP_RUNTIME_LAUNCHER_TRAIN_H

#include "runtime/launcher/run_options.h"
#include "runtime/launcher/world.h"
#include "runtime/support/status.h"

namespace lockstep::runtime {

/// Runs one rank to the end. The value is 0, or 128+n after an orderly stop
/// because of signal n. Errors: those of Run, LossNotFinite with the step's
/// number, and files that cannot be written.
StatusOr<int> train(const RunOptions &options, const World &world);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_TRAIN_H
