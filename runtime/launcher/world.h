// Which rank this process is, and where rank 0 is: from the local launcher,
// torchrun, Slurm or mpirun.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_WORLD_H
#define LOCKSTEP_RUNTIME_LAUNCHER_WORLD_H

#include "runtime/support/status.h"

#include <string>

namespace lockstep::runtime {

struct World {
  int rank = 0, ranks = 1;
  int localRank = 0; ///< among the ranks of this machine
  std::string masterAddress = "127.0.0.1";
  int masterPort = 0;
  int firstPort = 0;  ///< where the control server is looked for first
  int portsToTry = 1; ///< and how many ports from there
  int listener = -1;  ///< rank 0: a listening socket it inherited
  int lastLines = -1; ///< memory shared with our own launcher (last_lines.h)
  bool local = false; ///< started by our own launcher, which does the talking
};

/// True when the environment names a rank.
bool worldInEnvironment();

/// Reads the environment. Errors: a rank without size, address or port.
StatusOr<World> worldFromEnvironment();

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_WORLD_H
