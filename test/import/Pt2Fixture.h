// Takes a .pt2 file apart and writes changed copies of it, for tests of the
// reader.
#ifndef LOCKSTEP_TEST_IMPORT_PT2FIXTURE_H
#define LOCKSTEP_TEST_IMPORT_PT2FIXTURE_H

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// "<source>/test/models/<name>"
std::string modelPath(const std::string &name);

class Pt2Fixture {
public:
  /// Reads all records of a model in test/models.
  explicit Pt2Fixture(const std::string &model);
  ~Pt2Fixture();

  /// The record whose name ends so; it must exist.
  std::string &record(const std::string &suffix);
  nlohmann::json json(const std::string &suffix);
  void setJson(const std::string &suffix, const nlohmann::json &value);
  void remove(const std::string &suffix);

  /// Writes the records as an archive, deflated if asked for; returns the path,
  /// which the destructor removes.
  std::string write(bool deflate = false);
  /// Writes these bytes as the file.
  std::string writeRaw(const std::string &bytes);

  std::vector<std::pair<std::string, std::string>> records;

private:
  std::string path;
};

std::string readFile(const std::string &path);

} // namespace lockstep::test

#endif // LOCKSTEP_TEST_IMPORT_PT2FIXTURE_H
