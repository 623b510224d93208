// Safetensors files: round trips, refusal of every malformed header, and the
// atomic writer on a full disk.
#include "runtime/safetensors/safetensors.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace lockstep;

namespace {
struct TemporaryPath {
  std::string path;
  explicit TemporaryPath(const std::string &name)
      : path("safetensors_test." + std::to_string(getpid()) + "." + name) {}
  ~TemporaryPath() { std::remove(path.c_str()); }
};

std::string errorOf(const std::string &header, size_t dataBytes,
                    int64_t lengthChange = 0) {
  TemporaryPath file("bad");
  std::ofstream out(file.path, std::ios::binary);
  uint64_t length = header.size() + uint64_t(lengthChange);
  out.write(reinterpret_cast<const char *>(&length), 8);
  out << header << std::string(dataBytes, 'x');
  out.close();
  auto result = SafetensorsFile::open(file.path);
  if (result.ok())
    return "ok";
  CHECK(result.status().exitCode() == 1);
  CHECK(result.status().where().compare(0, file.path.size(), file.path) == 0);
  return result.status().what();
}
} // namespace

TEST_CASE("tensors round-trip") {
  TemporaryPath file("roundtrip");
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> b = {-7};
  auto bytes = [](const void *p) { return static_cast<const std::byte *>(p); };
  REQUIRE(writeSafetensors(file.path,
                           {{"b", DType::I64, {}, bytes(b.data()), 8},
                            {"empty", DType::F16, {0, 4}, nullptr, 0},
                            {"a\"\n", DType::F32, {2, 3}, bytes(a.data()), 24}},
                           {{"format", "pt"}, {"step", "12"}})
              .ok());
  auto result = SafetensorsFile::open(file.path);
  REQUIRE(result.ok());
  const SafetensorsFile &read = **result;
  REQUIRE(read.tensors().size() == 3);
  CHECK(read.metadata().at("step") == "12");
  const SafetensorsTensor *tensor = read.find("a\"\n");
  REQUIRE(tensor);
  CHECK(tensor->dtype == DType::F32);
  CHECK(tensor->shape == std::vector<int64_t>{2, 3});
  CHECK(std::memcmp(tensor->data, a.data(), 24) == 0);
  CHECK(read.find("b")->shape.empty());
  CHECK(read.find("empty")->bytes == 0);
  CHECK(read.find("c") == nullptr);
}

TEST_CASE("malformed headers are refused with a reason") {
  auto entry = [](const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
    return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}}";
  };
  std::string good = entry("\"F32\"", "[2]", "[0,8]");
  CHECK(errorOf(good, 8) == "ok");
  CHECK(errorOf(good, 7) == "data ends at byte 8, but the file has 7");
  CHECK(errorOf(good, 9) == "1 bytes after the last tensor belong to none");
  CHECK(errorOf(good, 8, 100) ==
        "the header's length of 154 bytes exceeds the file or the format's "
        "limit");
  CHECK(errorOf(good, 8, -1) == "the header is not a JSON object");
  CHECK(errorOf("[]", 0) == "the header is not a JSON object");
  CHECK(errorOf("", 0) == "the header is not a JSON object");
  CHECK(errorOf(std::string(100000, '['), 0) ==
        "the header is not a JSON object");
  CHECK(errorOf("{\"a\":" + std::string(50000, '[') + std::string(50000, ']') +
                    "}",
                0) != "ok");
  CHECK(errorOf("{\"a\":1}", 0) == "expected an object in the header");
  CHECK(errorOf("{\"__metadata__\":{\"k\":1}}", 0) ==
        "expected strings in '__metadata__', but 'k' is none");
  CHECK(errorOf(entry("7", "[2]", "[0,8]"), 8) == "expected a string 'dtype'");
  CHECK(errorOf(entry("\"F31\"", "[2]", "[0,8]"), 8) ==
        "dtype 'F31' is not supported");
  CHECK(errorOf(entry("\"F32\"", "{}", "[0,8]"), 8) ==
        "expected an array 'shape'");
  CHECK(errorOf(entry("\"F32\"", "[-2]", "[0,8]"), 8) ==
        "expected sizes that are not negative in 'shape'");
  CHECK(errorOf(entry("\"F32\"", "[2.0]", "[0,8]"), 8) ==
        "expected sizes that are not negative in 'shape'");
  CHECK(errorOf(entry("\"F32\"", "[4294967296,4294967296,4]", "[0,8]"), 8) ==
        "expected too many bytes for dtype and shape, but 'data_offsets' span "
        "8");
  CHECK(errorOf(entry("\"F32\"", "[3]", "[0,8]"), 8) ==
        "expected 12 bytes for dtype and shape, but 'data_offsets' span 8");
  CHECK(errorOf(entry("\"F32\"", "[2]", "[8,0]"), 8) ==
        "expected 'data_offsets' in ascending order");
  CHECK(errorOf(entry("\"F32\"", "[2]", "[4,12]"), 12) ==
        "data begins at byte 4, but the tensor before ends at 0");
  // Two tensors over the same bytes.
  std::string inner = good.substr(5, good.size() - 6);
  CHECK(errorOf("{\"a\":" + inner + ",\"b\":" + inner + "}", 8) ==
        "data begins at byte 0, but the tensor before ends at 8");
}

TEST_CASE("the writer demands exactly the announced bytes") {
  TemporaryPath file("announced");
  auto writer = SafetensorsWriter::create(file.path, {{"a", DType::F32, {2}}});
  REQUIRE(writer.ok());
  float values[3] = {1, 2, 3};
  CHECK(writer->append(values, 4).ok());
  CHECK(!writer->commit().ok());
  CHECK(!writer->append(values, 8).ok());
  CHECK(writer->append(values + 1, 4).ok());
  CHECK(writer->commit().ok());
  CHECK(SafetensorsFile::open(file.path).ok());
  CHECK(!SafetensorsWriter::create(
             file.path, {{"a", DType::F32, {2}}, {"a", DType::F32, {2}}})
             .ok());
}

TEST_CASE("a failed write leaves the old file") {
  TemporaryPath file("full");
  REQUIRE(writeFileAtomically(file.path, "old", 3).ok());
  // A file size limit acts as a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit saved = {};
  getrlimit(RLIMIT_FSIZE, &saved);
  rlimit limit = {4096, saved.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  std::vector<char> large(100000);
  Status reserved = writeFileAtomically(file.path, large.data(), large.size());
  auto unreserved = AtomicFile::create(file.path);
  Status written = unreserved->write(large.data(), large.size());
  unreserved = inputError("closed");
  setrlimit(RLIMIT_FSIZE, &saved);
  CHECK(!reserved.ok());
  CHECK(!written.ok());
  std::ifstream in(file.path);
  std::string content;
  in >> content;
  CHECK(content == "old");
  CHECK(access((file.path + ".partial-" + std::to_string(getpid())).c_str(),
               F_OK) != 0);
  CHECK(!writeFileAtomically("missing-folder/file", "x", 1).ok());
  CHECK(!writeFileAtomically(".", "x", 1).ok());
}
