// Starts the ranks of a run on this machine and watches over them.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_LOCAL_LAUNCHER_H
#define LOCKSTEP_RUNTIME_LAUNCHER_LOCAL_LAUNCHER_H

#include "runtime/support/status.h"

#include <string>
#include <vector>

namespace lockstep::runtime {

/// The path of this program.
std::string ownProgram();

/// Starts this program `ranks` times with the same arguments and, in the
/// environment, rank, world size, and the port where rank 0 listens; threads
/// are divided among them unless OMP_NUM_THREADS says otherwise. Rank 0 has the
/// terminal; what others print is prefixed "[rank r] ". SIGINT and SIGTERM go
/// on to the ranks; a second one ends them at once.
///
/// The value is the exit code of the run (0, or 128+n after an orderly stop).
/// When a rank fails, the others are ended, and the error is told once: that of
/// the lowest rank that gave one, or which rank died and its last line.
StatusOr<int> launchLocally(int ranks,
                            const std::vector<std::string> &arguments);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_LOCAL_LAUNCHER_H
