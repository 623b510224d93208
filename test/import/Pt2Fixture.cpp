#include "test/import/Pt2Fixture.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <zip.h>

using namespace lockstep::test;

std::string lockstep::test::modelPath(const std::string &name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/test/models/" + name;
}

std::string lockstep::test::readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  return content.str();
}

Pt2Fixture::Pt2Fixture(const std::string &model) {
  static int count = 0;
  path = "pt2_fixture." + std::to_string(getpid()) + "." +
         std::to_string(count++) + ".pt2";
  zip_t *archive = zip_open(modelPath(model).c_str(), ZIP_RDONLY, nullptr);
  INFO("unpack the models with test/models/unpack.py");
  REQUIRE(archive);
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t stat;
    REQUIRE(zip_stat_index(archive, zip_uint64_t(i), 0, &stat) == 0);
    std::string bytes(stat.size, '\0');
    zip_file_t *file = zip_fopen_index(archive, zip_uint64_t(i), 0);
    REQUIRE(zip_fread(file, bytes.data(), bytes.size()) ==
            zip_int64_t(bytes.size()));
    zip_fclose(file);
    records.emplace_back(stat.name, std::move(bytes));
  }
  zip_discard(archive);
}

Pt2Fixture::~Pt2Fixture() { std::remove(path.c_str()); }

std::string &Pt2Fixture::record(const std::string &suffix) {
  for (auto &[name, bytes] : records)
    if (name.size() >= suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
      return bytes;
  FAIL("no record " << suffix);
  return records.front().second;
}

nlohmann::json Pt2Fixture::json(const std::string &suffix) {
  return nlohmann::json::parse(record(suffix));
}

void Pt2Fixture::setJson(const std::string &suffix,
                         const nlohmann::json &value) {
  record(suffix) = value.dump();
}

void Pt2Fixture::remove(const std::string &suffix) {
  std::string *found = &record(suffix);
  for (size_t i = 0; i < records.size(); ++i)
    if (&records[i].second == found) {
      records.erase(records.begin() + std::ptrdiff_t(i));
      return;
    }
}

std::string Pt2Fixture::write(bool deflate) {
  std::remove(path.c_str());
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, nullptr);
  REQUIRE(archive);
  for (const auto &[name, bytes] : records) {
    zip_source_t *source =
        zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    REQUIRE(index >= 0);
    zip_set_file_compression(archive, zip_uint64_t(index),
                             deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 1);
  }
  REQUIRE(zip_close(archive) == 0);
  return path;
}

std::string Pt2Fixture::writeRaw(const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}
