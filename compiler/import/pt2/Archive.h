// The records of a .pt2 file, through libzip. Opening reads the directory only;
// a record is read, and its checksum verified, when it is asked for.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_ARCHIVE_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_ARCHIVE_H

#include "runtime/support/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct zip;

namespace lockstep::pt2 {

class Archive {
public:
  struct Record {
    std::string name;
    uint64_t index = 0; ///< in the zip directory
    uint64_t bytes = 0; ///< uncompressed
  };

  static StatusOr<std::shared_ptr<const Archive>> open(const std::string &path,
                                                       uint64_t maxEntries);
  ~Archive();
  Archive(const Archive &) = delete;
  Archive &operator=(const Archive &) = delete;

  const std::string &path() const { return file; }
  /// In the directory's order.
  const std::vector<Record> &records() const { return entries; }
  /// Null when there is no such record.
  const Record *find(std::string_view name) const;

  /// Reads a whole record into `out`, which holds record.bytes bytes.
  /// Safe from several threads.
  Status read(const Record &record, std::byte *out) const;
  /// A record of at most `maxBytes` as text.
  StatusOr<std::string> readText(const Record &record, uint64_t maxBytes) const;

  /// The folder that all records of a pt2 archive lie in, with its slash; empty
  /// for the older layout without one.
  const std::string &root() const { return rootFolder; }
  void setRoot(std::string root) { rootFolder = std::move(root); }

private:
  Archive(std::string path, zip *handle)
      : file(std::move(path)), handle(handle) {}
  Status readDirectory(uint64_t maxEntries);

  std::string file, rootFolder;
  zip *handle;
  mutable std::mutex mutex;
  std::vector<Record> entries;
  std::unordered_map<std::string_view, size_t> byName;
};

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_ARCHIVE_H
