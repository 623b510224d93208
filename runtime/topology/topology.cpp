// Ranks, links and times of a topology.
#include "runtime/topology/topology.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <map>

namespace lockstep {

Topology Topology::localCpu(int64_t ranks) {
  Topology topology;
  NodeType type;
  type.name = "local-cpu";
  type.ranks = ranks;
  type.threads = 1;
  // One core with AVX2, and Gloo over the loopback device: an all-reduce of
  // 4 MiB between two ranks takes 6 to 9 ms.
  type.flops = 80e9;
  type.memoryBandwidth = 10e9;
  type.local = {"lo", 0.6e9, 50e-6};
  topology.types.push_back(type);
  topology.nodes.push_back({"localhost", 0});
  return topology;
}

int64_t Topology::numRanks() const {
  int64_t ranks = 0;
  for (const Node &node : nodes)
    ranks += types[node.type].ranks;
  return ranks;
}

size_t Topology::nodeOf(int64_t rank) const {
  size_t node = 0;
  for (; node + 1 < nodes.size(); ++node) {
    int64_t here = types[nodes[node].type].ranks;
    if (rank < here)
      break;
    rank -= here;
  }
  return node;
}

Link Topology::linkOf(const std::vector<int64_t> &ranks) const {
  assert(!ranks.empty() && "a link joins ranks");
  bool spansNodes = false;
  size_t first = nodeOf(ranks.front());
  std::vector<const NodeType *> spanned;
  for (int64_t rank : ranks) {
    size_t node = nodeOf(rank);
    spansNodes |= node != first;
    spanned.push_back(&types[nodes[node].type]);
  }
  Link slowest;
  for (const NodeType *type : spanned) {
    const Link &link = spansNodes ? type->network : type->local;
    if (slowest.name.empty() || link.bandwidth < slowest.bandwidth) {
      double latency = std::max(slowest.latency, link.latency);
      slowest = link;
      slowest.latency = latency;
    }
  }
  if (spansNodes)
    for (const SwitchLevel &level : switches)
      slowest.bandwidth /= level.oversubscription;
  return slowest;
}

Status Topology::checkRanks(int64_t ranks) const {
  if (ranks <= numRanks())
    return Status::success();
  return inputError("the topology has " + std::to_string(numRanks()) +
                    " devices, but " + std::to_string(ranks) +
                    " ranks are asked for")
      .remedy("describe more hosts, or pass fewer --ranks");
}

/// What NCCL needs for a ring besides its hops (tuning.cc, Simple).
static constexpr double kNcclBaseSeconds = 8.4e-6;

double Topology::ringSeconds(double bytes, int rounds,
                             const std::vector<int64_t> &ranks) const {
  double n = static_cast<double>(ranks.size());
  if (n < 2)
    return 0;
  Link link = linkOf(ranks);
  double base =
      typeOf(ranks.front()).kind == DeviceKind::Gpu ? kNcclBaseSeconds : 0;
  return base + rounds * ((n - 1) * link.latency +
                          (n - 1) / n * bytes / link.bandwidth);
}

double Topology::allGatherSeconds(double bytes,
                                  const std::vector<int64_t> &ranks) const {
  return ringSeconds(bytes, 1, ranks);
}

double Topology::allReduceSeconds(double bytes,
                                  const std::vector<int64_t> &ranks) const {
  return ringSeconds(bytes, 2, ranks);
}

static std::string describeLink(const Link &link) {
  char text[128];
  std::snprintf(text, sizeof text, "%s %.4g GB/s, %.4g us", link.name.c_str(),
                link.bandwidth / 1e9, link.latency * 1e6);
  return text;
}

static std::string describeType(const NodeType &type) {
  char text[256];
  if (type.kind == DeviceKind::Gpu)
    std::snprintf(text, sizeof text, "%lld GPUs, sm_%lld, %.4g GiB each",
                  static_cast<long long>(type.ranks),
                  static_cast<long long>(type.sm),
                  static_cast<double>(type.memoryBytes) / (1ll << 30));
  else
    std::snprintf(text, sizeof text, "%lld CPU ranks, threads each: %lld",
                  static_cast<long long>(type.ranks),
                  static_cast<long long>(type.threads));
  std::string line = text;
  if (type.flops > 0) {
    std::snprintf(text, sizeof text, ", %.4g Gflop/s", type.flops / 1e9);
    line += text;
  }
  if (type.memoryBandwidth > 0) {
    std::snprintf(text, sizeof text, ", memory %.4g GB/s",
                  type.memoryBandwidth / 1e9);
    line += text;
  }
  line += "\n    in the node: " + describeLink(type.local) + "\n";
  if (type.network.bandwidth > 0)
    line += "    to other nodes: " + describeLink(type.network) + "\n";
  return line;
}

std::string Topology::describe() const {
  std::string text = std::to_string(nodes.size()) + " nodes, " +
                     std::to_string(numRanks()) + " ranks\n";
  std::vector<std::vector<std::string>> hosts(types.size());
  for (const Node &node : nodes)
    hosts[node.type].push_back(node.host);
  for (size_t i = 0; i < types.size(); ++i) {
    if (hosts[i].empty())
      continue;
    text += "  " + types[i].name + " (" + hosts[i].front();
    if (hosts[i].size() > 1)
      text += " ... " + hosts[i].back();
    text += ", " + std::to_string(hosts[i].size()) +
            " nodes): " + describeType(types[i]);
  }
  if (!fabric.empty())
    text += "  fabric: " + fabric + "\n";
  for (const SwitchLevel &level : switches) {
    char line[128];
    std::snprintf(line, sizeof line, "    %s: %.4g GB/s a link, %.4g:1\n",
                  level.name.c_str(), level.bandwidth / 1e9,
                  level.oversubscription);
    text += line;
  }
  for (const HostBlock &block : blocks)
    text += "  block " + block.name + ": " +
            std::to_string(block.hosts.size()) + " nodes\n";
  return text;
}

} // namespace lockstep
