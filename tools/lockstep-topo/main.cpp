// lockstep-topo: topology files.
#include "runtime/topology/topology.h"
#include "tools/common/cli.h"

#include <cstdio>

using namespace lockstep;

static Status show(const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(Topology topology, Topology::load(path));
  std::fputs(topology.describe().c_str(), stdout);
  return Status::success();
}

int main(int argc, char **argv) {
  return tools::runTool([&] {
    tools::CommandLine line("lockstep-topo",
                            "Reads and checks topology files.");
    line.app().require_subcommand(1);
    std::string path;
    CLI::App *showCommand = line.app().add_subcommand(
        "show", "check a file and print what it describes");
    showCommand->add_option("file", path, "the topology file (JSON)")
        ->required();
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(show(path));
  });
}
