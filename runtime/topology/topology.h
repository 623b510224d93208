// What the cluster looks like: nodes, the devices in them, and the links
// between ranks with their bandwidth and latency.
//
// A topology file (JSON, docs/topologies) describes types of nodes, the hosts
// of each type, and the network above them. Ranks fill the nodes in the order
// of the file, each node's devices in order, so that rank r's node is known.
// What the compiler needs first is how long a collective over some ranks
// takes: the slowest link that the ranks span decides.
//
// Units in memory: bytes, seconds, bytes per second, floating-point operations
// per second. (The file has GB/s, microseconds, GiB and Gflop/s.)
#ifndef LOCKSTEP_RUNTIME_TOPOLOGY_TOPOLOGY_H
#define LOCKSTEP_RUNTIME_TOPOLOGY_TOPOLOGY_H

#include "runtime/support/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A connection between two ranks.
struct Link {
  std::string name;     ///< "lo", "nvlink", "mlx5_{i}"
  double bandwidth = 0; ///< bytes per second of one rank, one way
  double latency = 0;   ///< seconds per message
};

enum class DeviceKind { Cpu, Gpu };

struct NodeType {
  std::string name;
  DeviceKind kind = DeviceKind::Cpu;
  int64_t ranks = 0;   ///< devices of one node, each one rank
  int64_t threads = 0; ///< of one CPU rank; 0 for a GPU
  int64_t sm = 0;      ///< compute capability, 90 for sm_90; 0 for a CPU
  /// Sustained rates of one rank; 0 where the file does not say.
  double flops = 0; ///< f32 on a CPU, the fastest listed type on a GPU
  double memoryBandwidth = 0;
  int64_t memoryBytes = 0; ///< of a GPU
  Link local;              ///< between ranks of one node
  Link network;            ///< to other nodes; bandwidth 0 if there is none
};

struct Node {
  std::string host;
  size_t type = 0; ///< index into Topology::types
};

/// A level of switches above the nodes.
struct SwitchLevel {
  std::string name;
  double bandwidth = 0; ///< of one link, bytes per second
  double oversubscription = 1;
};

/// Hosts joined more closely than the rest (a pod, an NVLink domain).
struct HostBlock {
  std::string name;
  std::vector<std::string> hosts;
};

class Topology {
public:
  std::vector<NodeType> types;
  std::vector<Node> nodes;
  std::string fabric; ///< kind of the network; empty for one node
  std::vector<SwitchLevel> switches;
  std::vector<HostBlock> blocks;

  /// Reads and checks a file; errors name the file and the field.
  static StatusOr<Topology> load(const std::string &path);
  /// The same from text; `name` stands for the file in errors.
  static StatusOr<Topology> parse(const std::string &text,
                                  const std::string &name);
  /// One box with `ranks` CPU ranks of one thread each, talking through the
  /// loopback device: what is meant without a file.
  static Topology localCpu(int64_t ranks);

  /// Devices of all nodes: as many ranks as can be placed.
  int64_t numRanks() const;
  /// Index of the node on which a rank runs; ranks fill nodes in order.
  size_t nodeOf(int64_t rank) const;
  const NodeType &typeOf(int64_t rank) const {
    return types[nodes[nodeOf(rank)].type];
  }
  /// The link that decides how fast these ranks talk: the slowest node's
  /// local link, or its network where they span nodes (with the
  /// oversubscription of the switches).
  Link linkOf(const std::vector<int64_t> &ranks) const;
  /// An error when fewer than `ranks` devices are described.
  Status checkRanks(int64_t ranks) const;

  /// Seconds for a ring all-reduce of `bytes` over the ranks:
  /// 2(n-1) messages one after the other, 2(n-1)/n of the bytes per rank; on
  /// GPUs NCCL's constant besides.
  double allReduceSeconds(double bytes,
                          const std::vector<int64_t> &ranks) const;
  /// Seconds for a ring all-gather (`bytes`: the whole result) or
  /// reduce-scatter (`bytes`: the whole input): half of an all-reduce.
  double allGatherSeconds(double bytes,
                          const std::vector<int64_t> &ranks) const;

  /// A table for people: nodes, devices, links.
  std::string describe() const;

private:
  /// `rounds` times n-1 messages of 1/n of the bytes.
  double ringSeconds(double bytes, int rounds,
                     const std::vector<int64_t> &ranks) const;
};

/// Expands "h[001-003,7]x[0-1]" to its names; numbers keep their width. An
/// error for brackets that do not match, ranges that run backward, or more
/// than 1,000,000 names.
StatusOr<std::vector<std::string>> expandHosts(const std::string &pattern);

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_TOPOLOGY_TOPOLOGY_H
