#include "runtime/launcher/world.h"

#include <cstdlib>
#include <utility>

namespace lockstep::runtime {

namespace {

/// Names of rank, world size and rank on the machine, by who sets them.
struct Convention {
  const char *rank, *size, *localRank;
};
constexpr Convention conventions[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"}, // torchrun, and our own launcher
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

const Convention *present() {
  for (const Convention &convention : conventions)
    // Half of torchrun's is a mistake, which worldFromEnvironment tells; Slurm
    // gives a batch script a rank without a size.
    if (&convention == conventions
            ? getenv(convention.rank) || getenv(convention.size)
            : getenv(convention.rank) && getenv(convention.size)) {
      // An interactive Slurm shell is one task and no rank of ours.
      bool slurm = convention.rank[0] == 'S';
      if (slurm && std::string(getenv(convention.size)) == "1" &&
          !getenv("MASTER_ADDR"))
        continue;
      return &convention;
    }
  return nullptr;
}

bool parse(const char *name, int least, int most, int &value) {
  const char *text = getenv(name);
  char *end = nullptr;
  long parsed = text && *text ? strtol(text, &end, 10) : -1;
  if (!text || !end || *end || parsed < least || parsed > most)
    return false;
  value = int(parsed);
  return true;
}

} // namespace

bool worldInEnvironment() { return present() != nullptr; }

StatusOr<World> worldFromEnvironment() {
  World world;
  const Convention *names = present();
  if (!names)
    return world;
  auto refuse = [](const std::string &name, const std::string &what,
                   const std::string &remedy =
                       "start the ranks with torchrun, srun or mpirun, or "
                       "without these variables") {
    const char *value = getenv(name.c_str());
    return inputError(name + (value ? "=" + std::string(value) : "") + " " +
                      what)
        .at("environment")
        .remedy(remedy);
  };
  for (auto [given, needed] : {std::pair(names->rank, names->size),
                               std::pair(names->size, names->rank)})
    if (!getenv(needed))
      return refuse(given, "is set, but " + std::string(needed) + " is not");
  if (!parse(names->size, 1, 1 << 20, world.ranks))
    return refuse(names->size, "is not a number of ranks");
  if (!parse(names->rank, 0, world.ranks - 1, world.rank))
    return refuse(names->rank,
                  "is not a rank below " + std::string(names->size));
  if (!parse(names->localRank, 0, 1 << 20, world.localRank))
    world.localRank = world.rank;
  if (world.ranks == 1)
    return world;
  const char *address = getenv("MASTER_ADDR");
  if (!address || !*address)
    return refuse("MASTER_ADDR", "must name the machine of rank 0",
                  "export MASTER_ADDR and MASTER_PORT, the same for all ranks");
  world.masterAddress = address;
  if (!parse("MASTER_PORT", 1, 65535, world.masterPort))
    return refuse("MASTER_PORT", "must be a port of rank 0's machine",
                  "export a free port, the same for all ranks");
  world.local = getenv("LOCKSTEP_LAUNCHER") != nullptr;
  if (!parse("LOCKSTEP_LISTENER", 0, 1 << 20, world.listener))
    world.listener = -1;
  if (!parse("LOCKSTEP_LAST_LINES", 0, 1 << 20, world.lastLines))
    world.lastLines = -1;
  world.firstPort = world.masterPort;
  world.portsToTry = world.local ? 1 : 16;
  // torchrun's agent serves a store of its own on MASTER_PORT.
  if (const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"))
    if (std::string(agent) == "True" && world.masterPort < 65535)
      world.firstPort = world.masterPort + 1;
  return world;
}

} // namespace lockstep::runtime
