// Reads topology files. Every error names the file and the field, as in
// "c.json: node_types.box.net[0].bandwidth: expected a number above 0, but got
// -1". Fields that this version does not use are checked where they bear on
// ranks and links, and otherwise ignored, so that richer files stay readable.
#include "runtime/support/mapped_file.h"
#include "runtime/topology/topology.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace lockstep {

using Json = nlohmann::json;

namespace {

/// A JSON value and the path that leads to it.
class Field {
public:
  Field(const Json &json, std::string path)
      : json(&json), path(std::move(path)) {}

  const std::string &where() const { return path; }
  const Json &value() const { return *json; }
  bool has(const char *key) const {
    return json->is_object() && json->contains(key);
  }
  Status wrong(const std::string &what) const {
    std::string text = json->dump();
    if (text.size() > 60)
      text = text.substr(0, 57) + "...";
    return inputError("expected " + what + ", but got " + text).at(path);
  }
  Field child(const std::string &key) const {
    return Field((*json)[key], path.empty() ? key : path + "." + key);
  }
  Field item(size_t i) const {
    return Field((*json)[i], path + "[" + std::to_string(i) + "]");
  }

  StatusOr<Field> get(const char *key) const {
    if (!json->is_object())
      return wrong("an object");
    if (!json->contains(key))
      return inputError(std::string("field '") + key + "' is missing").at(path);
    return child(key);
  }
  StatusOr<std::string> getString(const char *key) const {
    LOCKSTEP_ASSIGN_OR_RETURN(Field field, get(key));
    if (!field.json->is_string() ||
        field.json->get_ref<const std::string &>().empty())
      return field.wrong("a text");
    return field.json->get<std::string>();
  }
  /// A number of at least `least` (above it, if `above`).
  StatusOr<double> getNumber(const char *key, double least, bool above) const {
    LOCKSTEP_ASSIGN_OR_RETURN(Field field, get(key));
    std::string bound =
        std::string(above ? "a number above " : "a number from ") +
        std::to_string(static_cast<long>(least));
    if (!field.json->is_number())
      return field.wrong(bound);
    double number = field.json->get<double>();
    if (!(above ? number > least : number >= least) || number > 1e18)
      return field.wrong(bound);
    return number;
  }
  StatusOr<int64_t> getCount(const char *key) const {
    LOCKSTEP_ASSIGN_OR_RETURN(Field field, get(key));
    if (!field.json->is_number_integer() || field.json->get<int64_t>() < 1 ||
        field.json->get<int64_t>() > 1000000)
      return field.wrong("a whole number from 1 to 1000000");
    return field.json->get<int64_t>();
  }
  StatusOr<Field> getArray(const char *key) const {
    LOCKSTEP_ASSIGN_OR_RETURN(Field field, get(key));
    if (!field.json->is_array())
      return field.wrong("a list");
    return field;
  }

private:
  const Json *json;
  std::string path;
};

class Reader {
public:
  StatusOr<Topology> read(const Field &root);

private:
  Status readUnits(const Field &root);
  Status readType(const std::string &name, const Field &field);
  Status readCpu(const Field &field, NodeType &type);
  Status readGpu(const Field &field, NodeType &type);
  Status readNets(const Field &field, NodeType &type);
  Status readNodes(const Field &root);
  Status readFabric(const Field &root);
  Status readBlocks(const Field &root);
  Status checkNetwork(const Field &root);

  Topology topology;
  std::map<std::string, size_t> typeIndex;
  std::set<std::string> hosts;
};

} // namespace

// NCCL's latencies for large messages: NVLink and network hop of a ring.
static constexpr double kNvlinkSeconds = 3.4e-6, kNetworkSeconds = 14e-6;
static constexpr double kGiga = 1e9, kMicro = 1e-6, kGiB = 1024.0 * 1024 * 1024;

StatusOr<Topology> Reader::read(const Field &root) {
  LOCKSTEP_ASSIGN_OR_RETURN(Field version, root.get("version"));
  if (!version.value().is_number_integer() || version.value() != 1)
    return version.wrong("version 1");
  LOCKSTEP_RETURN_IF_ERROR(readUnits(root));
  LOCKSTEP_ASSIGN_OR_RETURN(Field types, root.get("node_types"));
  if (!types.value().is_object() || types.value().empty())
    return types.wrong("an object of node types");
  for (const auto &entry : types.value().items())
    LOCKSTEP_RETURN_IF_ERROR(readType(entry.key(), types.child(entry.key())));
  LOCKSTEP_RETURN_IF_ERROR(readNodes(root));
  LOCKSTEP_RETURN_IF_ERROR(readFabric(root));
  LOCKSTEP_RETURN_IF_ERROR(readBlocks(root));
  LOCKSTEP_RETURN_IF_ERROR(checkNetwork(root));
  return std::move(topology);
}

/// The units are fixed; naming others is an error rather than a surprise.
Status Reader::readUnits(const Field &root) {
  if (!root.has("units"))
    return Status::success();
  Field units = root.child("units");
  for (auto [key, expected] : {std::pair("bw", "GB/s"), std::pair("lat", "us")})
    if (units.has(key)) {
      LOCKSTEP_ASSIGN_OR_RETURN(std::string unit, units.getString(key));
      if (unit != expected)
        return units.child(key).wrong(std::string("'") + expected + "'");
    }
  return Status::success();
}

Status Reader::readType(const std::string &name, const Field &field) {
  NodeType type;
  type.name = name;
  if (field.has("cpu") == field.has("gpu"))
    return field.wrong("either 'cpu' or 'gpu'");
  LOCKSTEP_RETURN_IF_ERROR(field.has("cpu") ? readCpu(field.child("cpu"), type)
                                            : readGpu(field, type));
  if (field.has("net"))
    LOCKSTEP_RETURN_IF_ERROR(readNets(field, type));
  if (type.kind == DeviceKind::Cpu && type.local.bandwidth == 0) {
    if (type.ranks > 1 && type.network.bandwidth == 0)
      return inputError("no link between the ranks of one node")
          .at(field.where())
          .remedy("give 'net' an entry with 'bandwidth' and 'lat'");
    type.local = type.network;
  }
  typeIndex[name] = topology.types.size();
  topology.types.push_back(type);
  return Status::success();
}

Status Reader::readCpu(const Field &field, NodeType &type) {
  type.kind = DeviceKind::Cpu;
  LOCKSTEP_ASSIGN_OR_RETURN(type.ranks, field.getCount("ranks"));
  LOCKSTEP_ASSIGN_OR_RETURN(type.threads, field.getCount("threads"));
  if (field.has("gflops")) {
    LOCKSTEP_ASSIGN_OR_RETURN(double rate,
                              field.child("gflops").getNumber("f32", 0, true));
    type.flops = rate * kGiga;
  }
  if (field.has("mem_bw")) {
    LOCKSTEP_ASSIGN_OR_RETURN(double rate, field.getNumber("mem_bw", 0, true));
    type.memoryBandwidth = rate * kGiga;
  }
  return Status::success();
}

Status Reader::readGpu(const Field &field, NodeType &type) {
  Field gpu = field.child("gpu");
  type.kind = DeviceKind::Gpu;
  LOCKSTEP_ASSIGN_OR_RETURN(type.ranks, gpu.getCount("count"));
  LOCKSTEP_ASSIGN_OR_RETURN(type.sm, gpu.getCount("sm"));
  LOCKSTEP_ASSIGN_OR_RETURN(double memory, gpu.getNumber("mem_gib", 0, true));
  type.memoryBytes = static_cast<int64_t>(memory * kGiB);
  LOCKSTEP_ASSIGN_OR_RETURN(double rate, gpu.getNumber("mem_bw", 0, true));
  type.memoryBandwidth = rate * kGiga;
  if (gpu.has("tflops")) {
    Field rates = gpu.child("tflops");
    if (!rates.value().is_object())
      return rates.wrong("an object of rates by type");
    for (const auto &entry : rates.value().items()) {
      LOCKSTEP_ASSIGN_OR_RETURN(double tflops,
                                rates.getNumber(entry.key().c_str(), 0, true));
      if (entry.key() == "bf16" || type.flops == 0)
        type.flops = tflops * 1e12;
    }
  }
  if (field.has("nvlink")) {
    Field nvlink = field.child("nvlink");
    LOCKSTEP_ASSIGN_OR_RETURN(int64_t links, nvlink.getCount("count"));
    LOCKSTEP_ASSIGN_OR_RETURN(double speed, nvlink.getNumber("bw", 0, true));
    double latency = kNvlinkSeconds;
    if (nvlink.has("lat")) {
      LOCKSTEP_ASSIGN_OR_RETURN(double lat, nvlink.getNumber("lat", 0, false));
      latency = lat * kMicro;
    }
    type.local = {"nvlink", static_cast<double>(links) * speed * kGiga,
                  latency};
  } else if (field.has("pci")) {
    // NCCL's effective PCIe rates: 16 lanes of generation 5 give 48 GB/s.
    Field pci = field.child("pci");
    LOCKSTEP_ASSIGN_OR_RETURN(std::string speed, pci.getString("link_speed"));
    LOCKSTEP_ASSIGN_OR_RETURN(int64_t width, pci.getCount("link_width"));
    static const std::map<std::string, double> perLane = {
        {"8.0 GT/s PCIe", 60},
        {"16.0 GT/s PCIe", 120},
        {"32.0 GT/s PCIe", 240},
        {"64.0 GT/s PCIe", 480}};
    auto rate = perLane.find(speed);
    if (rate == perLane.end())
      return pci.child("link_speed")
          .wrong("'8.0', '16.0', '32.0' or '64.0 GT/s PCIe'");
    type.local = {"pci", static_cast<double>(width) * rate->second / 80 * kGiga,
                  5.7e-6};
  } else if (type.ranks > 1) {
    return inputError("no link between the GPUs")
        .at(field.where())
        .remedy("give 'nvlink' or 'pci'");
  }
  return Status::success();
}

/// Entries have `bandwidth` (GB/s) and `lat` (us), or as NCCL has them `speed`
/// (Mb/s) and `latency` (us, of the card, added to the network's). The loopback
/// device "lo" joins the ranks of one node.
Status Reader::readNets(const Field &field, NodeType &type) {
  LOCKSTEP_ASSIGN_OR_RETURN(Field nets, field.getArray("net"));
  for (size_t i = 0; i < nets.value().size(); ++i) {
    Field net = nets.item(i);
    Link link;
    LOCKSTEP_ASSIGN_OR_RETURN(link.name, net.getString("name"));
    if (net.has("speed")) {
      LOCKSTEP_ASSIGN_OR_RETURN(double speed, net.getNumber("speed", 0, true));
      link.bandwidth = speed / 8000 * kGiga;
      link.latency = kNetworkSeconds;
      if (net.has("latency")) {
        LOCKSTEP_ASSIGN_OR_RETURN(double own,
                                  net.getNumber("latency", 0, false));
        link.latency += own * kMicro;
      }
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(double speed,
                                net.getNumber("bandwidth", 0, true));
      LOCKSTEP_ASSIGN_OR_RETURN(double latency, net.getNumber("lat", 0, false));
      link.bandwidth = speed * kGiga;
      link.latency = latency * kMicro;
    }
    int64_t count = 1;
    if (net.has("count")) {
      LOCKSTEP_ASSIGN_OR_RETURN(count, net.getCount("count"));
    }
    bool isLocal = link.name == "lo" || link.name == "shm";
    if (isLocal && type.kind == DeviceKind::Cpu) {
      type.local = link;
    } else if (!isLocal) {
      // The cards of a node are shared out among its ranks.
      link.bandwidth *= static_cast<double>(count) /
                        static_cast<double>(std::max(count, type.ranks));
      if (link.bandwidth > type.network.bandwidth)
        type.network = link;
    }
  }
  return Status::success();
}

Status Reader::readNodes(const Field &root) {
  LOCKSTEP_ASSIGN_OR_RETURN(Field nodes, root.getArray("nodes"));
  if (nodes.value().empty())
    return nodes.wrong("at least one entry");
  for (size_t i = 0; i < nodes.value().size(); ++i) {
    Field node = nodes.item(i);
    LOCKSTEP_ASSIGN_OR_RETURN(std::string pattern, node.getString("hosts"));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string typeName, node.getString("type"));
    auto type = typeIndex.find(typeName);
    if (type == typeIndex.end())
      return node.child("type").wrong("the name of a node type");
    StatusOr<std::vector<std::string>> names = expandHosts(pattern);
    if (!names.ok())
      return std::move(names).status().at(node.where() + ".hosts");
    for (const std::string &name : *names) {
      if (!hosts.insert(name).second)
        return inputError("host '" + name + "' is there twice")
            .at(node.where() + ".hosts");
      topology.nodes.push_back({name, type->second});
    }
  }
  return Status::success();
}

Status Reader::readFabric(const Field &root) {
  if (!root.has("fabric"))
    return Status::success();
  Field fabric = root.child("fabric");
  LOCKSTEP_ASSIGN_OR_RETURN(topology.fabric, fabric.getString("kind"));
  if (!fabric.has("switches"))
    return Status::success();
  LOCKSTEP_ASSIGN_OR_RETURN(Field switches, fabric.getArray("switches"));
  for (size_t i = 0; i < switches.value().size(); ++i) {
    Field entry = switches.item(i);
    SwitchLevel level;
    LOCKSTEP_ASSIGN_OR_RETURN(level.name, entry.getString("name"));
    LOCKSTEP_ASSIGN_OR_RETURN(double speed,
                              entry.getNumber("link_speed", 0, true));
    level.bandwidth = speed / 8000 * kGiga;
    if (entry.has("nodes_per_switch"))
      LOCKSTEP_RETURN_IF_ERROR(entry.getCount("nodes_per_switch").status());
    if (entry.has("oversubscription")) {
      LOCKSTEP_ASSIGN_OR_RETURN(level.oversubscription,
                                entry.getNumber("oversubscription", 1, false));
    }
    topology.switches.push_back(level);
  }
  return Status::success();
}

Status Reader::readBlocks(const Field &root) {
  if (!root.has("blocks"))
    return Status::success();
  LOCKSTEP_ASSIGN_OR_RETURN(Field blocks, root.getArray("blocks"));
  for (size_t i = 0; i < blocks.value().size(); ++i) {
    Field entry = blocks.item(i);
    HostBlock block;
    LOCKSTEP_ASSIGN_OR_RETURN(block.name, entry.getString("name"));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string pattern, entry.getString("hosts"));
    StatusOr<std::vector<std::string>> names = expandHosts(pattern);
    if (!names.ok())
      return std::move(names).status().at(entry.where() + ".hosts");
    for (const std::string &name : *names)
      if (!hosts.count(name))
        return inputError("host '" + name + "' is in no entry of 'nodes'")
            .at(entry.where() + ".hosts");
    block.hosts = std::move(*names);
    topology.blocks.push_back(std::move(block));
  }
  return Status::success();
}

/// Several nodes need a network.
Status Reader::checkNetwork(const Field &) {
  if (topology.nodes.size() < 2)
    return Status::success();
  for (const Node &node : topology.nodes) {
    const NodeType &type = topology.types[node.type];
    if (type.network.bandwidth == 0)
      return inputError("host '" + node.host + "' cannot be reached")
          .at("node_types." + type.name)
          .remedy("give 'net' an entry besides the loopback device");
  }
  return Status::success();
}

StatusOr<Topology> Topology::load(const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                            MappedFile::open(path));
  return parse(
      std::string(reinterpret_cast<const char *>(file->data()), file->size()),
      path);
}

StatusOr<Topology> Topology::parse(const std::string &text,
                                   const std::string &name) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return inputError("not valid JSON").at(name);
  if (!json.is_object())
    return inputError("expected an object").at(name);
  StatusOr<Topology> topology = Reader().read(Field(json, ""));
  if (!topology.ok())
    return std::move(topology).status().at(name);
  return topology;
}

} // namespace lockstep
