// Topology files: what is read, what is refused, what collectives cost.
#include "runtime/topology/topology.h"

#include <catch2/catch.hpp>

using namespace lockstep;

static std::string errorOf(const std::string &text) {
  StatusOr<Topology> topology = Topology::parse(text, "c.json");
  REQUIRE(!topology.ok());
  CHECK(topology.status().code() == ExitCode::InputError);
  return topology.status().toString();
}

/// A box of two CPU ranks with `field` replaced by `value`.
static std::string box(const std::string &field = "",
                       const std::string &value = "") {
  std::string text =
      R"({"version":1,"units":{"bw":"GB/s","lat":"us"},"node_types":{"box":{)"
      R"("cpu":{"ranks":2,"threads":1,"gflops":{"f32":80},"mem_bw":20},)"
      R"("net":[{"name":"lo","bandwidth":1.0,"lat":50}]}},)"
      R"("nodes":[{"hosts":"localhost","type":"box"}]})";
  size_t at = text.find(field);
  REQUIRE(at != std::string::npos);
  return field.empty() ? text : text.replace(at, field.size(), value);
}

TEST_CASE("A box of CPU ranks gives ranks, rates and links") {
  StatusOr<Topology> topology = Topology::parse(box(), "c.json");
  REQUIRE(topology.ok());
  CHECK(topology->numRanks() == 2);
  CHECK(topology->typeOf(1).flops == 80e9);
  Link link = topology->linkOf({0, 1});
  CHECK(link.bandwidth == 1e9);
  CHECK(link.latency == Approx(50e-6));
  // 2 messages and once the bytes.
  CHECK(topology->allReduceSeconds(1e6, {0, 1}) == Approx(100e-6 + 1e-3));
  CHECK(topology->allReduceSeconds(1e6, {0}) == 0);
  CHECK(topology->checkRanks(2).ok());
  CHECK(topology->checkRanks(3).toString().find(
            "has 2 devices, but 3 ranks are asked for") != std::string::npos);
}

TEST_CASE("Ranks fill nodes in order, and the slowest link decides") {
  StatusOr<Topology> topology =
      Topology::load(LOCKSTEP_SOURCE_DIR "/docs/topologies/dgx-h100-x16.json");
  REQUIRE(topology.ok());
  CHECK(topology->numRanks() == 128);
  CHECK(topology->nodeOf(7) == 0);
  CHECK(topology->nodeOf(8) == 1);
  CHECK(topology->linkOf({0, 7}).bandwidth == Approx(18 * 20.6e9));
  CHECK(topology->linkOf({0, 8}).bandwidth == Approx(50e9));
}

TEST_CASE("Every file that is shipped can be read") {
  for (const char *name :
       {"cpu-2-ranks", "cpu-8-cores", "dgx-h100", "dgx-h100-x16", "h200-x2"}) {
    StatusOr<Topology> topology = Topology::load(
        std::string(LOCKSTEP_SOURCE_DIR "/docs/topologies/") + name + ".json");
    INFO(topology.status().toString());
    REQUIRE(topology.ok());
    CHECK(!topology->describe().empty());
  }
}

TEST_CASE("Without a file, ranks share one box") {
  CHECK(Topology::localCpu(4).numRanks() == 4);
  CHECK(Topology::localCpu(4).allReduceSeconds(4 << 20, {0, 1}) > 0);
}

TEST_CASE("Host patterns expand, keeping the width of numbers") {
  CHECK(*expandHosts("h[001-003]") ==
        std::vector<std::string>{"h001", "h002", "h003"});
  CHECK(*expandHosts("a[1-2]b[7,9]") ==
        std::vector<std::string>{"a1b7", "a1b9", "a2b7", "a2b9"});
  CHECK(expandHosts("h[001-128]")->size() == 128);
  for (const char *bad :
       {"h[3-1]", "h[1", "h]1", "h[a-b]", "", "h[]", "h[1-99999999]", "h[1,]"})
    CHECK(!expandHosts(bad).ok());
}

TEST_CASE("Errors name the file and the field") {
  CHECK(errorOf("{") == "c.json: not valid JSON");
  CHECK(errorOf("[]") == "c.json: expected an object");
  CHECK(errorOf(box("\"version\":1", "\"version\":2")) ==
        "c.json: version: expected version 1, but got 2");
  CHECK(errorOf(box("\"version\":1,", "")) ==
        "c.json: field 'version' is missing");
  CHECK(errorOf(box("GB/s", "Gb/s")) ==
        "c.json: units.bw: expected 'GB/s', but got \"Gb/s\"");
  CHECK(errorOf(box("\"bandwidth\":1.0", "\"bandwidth\":0")) ==
        "c.json: node_types.box.net[0].bandwidth: expected a number above 0, "
        "but got 0");
  CHECK(errorOf(box("\"lat\":50", "\"lat\":-1")) ==
        "c.json: node_types.box.net[0].lat: expected a number from 0, but got "
        "-1");
  CHECK(errorOf(box("\"ranks\":2", "\"ranks\":0")) ==
        "c.json: node_types.box.cpu.ranks: expected a whole number from 1 to "
        "1000000, but got 0");
  CHECK(errorOf(box("\"type\":\"box\"", "\"type\":\"bix\"")) ==
        "c.json: nodes[0].type: expected the name of a node type, but got "
        "\"bix\"");
  CHECK(errorOf(box("localhost", "h[2-1]")) ==
        "c.json: nodes[0].hosts: range '2-1' runs backward");
  CHECK(errorOf(box("localhost", "h[1-1,1]")) ==
        "c.json: nodes[0].hosts: host 'h1' is there twice");
  CHECK(errorOf(box("localhost", "h[1-2]")) ==
        "c.json: node_types.box: host 'h1' cannot be reached; give 'net' an "
        "entry besides the loopback device");
}
