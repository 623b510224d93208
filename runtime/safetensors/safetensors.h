// Reading and writing of safetensors files: an 8-byte little-endian header
// length, a JSON header {name: {dtype, shape, data_offsets}, "__metadata__":
// {string: string}}, then the tensors' bytes, row-major, little-endian, without
// gaps.
//
// The reader maps the file and validates everything before it returns: header
// length and depth, known dtypes, shapes without overflow, offsets that tile
// the data exactly. The writer is atomic (see AtomicFile) and streams, so that
// a checkpoint needs no second copy of the weights in memory.
#ifndef LOCKSTEP_RUNTIME_SAFETENSORS_SAFETENSORS_H
#define LOCKSTEP_RUNTIME_SAFETENSORS_SAFETENSORS_H

#include "runtime/support/atomic_file.h"
#include "runtime/support/dtype.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/status.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

/// One tensor of an open file. `data` is not aligned in general: copy elements
/// with memcpy.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
};

class SafetensorsFile {
public:
  static StatusOr<std::shared_ptr<const SafetensorsFile>>
  open(const std::string &path);

  /// In the order of their data in the file.
  const std::vector<SafetensorsTensor> &tensors() const { return entries; }
  /// Null when there is no such tensor.
  const SafetensorsTensor *find(std::string_view name) const;
  const std::map<std::string, std::string> &metadata() const { return meta; }
  const std::string &path() const { return file->path(); }

private:
  SafetensorsFile() = default;
  Status parseHeader();

  std::shared_ptr<const MappedFile> file;
  std::vector<SafetensorsTensor> entries;
  std::unordered_map<std::string_view, size_t> byName;
  std::map<std::string, std::string> meta;
};

/// What a file will hold; data follows in the same order through append().
struct SafetensorsHeaderEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

/// Streams one file:
///   create(path, entries, metadata); append(bytes of tensor 0); ... ; commit()
class SafetensorsWriter {
public:
  /// Reserves the disk space of the whole file, so that a full disk is an error
  /// here, with the old file untouched. Names must be distinct.
  static StatusOr<SafetensorsWriter>
  create(const std::string &path,
         const std::vector<SafetensorsHeaderEntry> &entries,
         const std::map<std::string, std::string> &metadata = {});

  /// Appends bytes of the current tensor; a tensor may come in several parts.
  Status append(const void *data, uint64_t bytes);
  /// Checks that every announced byte was appended, then makes the file
  /// visible.
  Status commit();

private:
  explicit SafetensorsWriter(AtomicFile file) : file(std::move(file)) {}
  AtomicFile file;
  uint64_t expected = 0;
};

/// Writes tensors that are all in memory (`data` and `bytes` set).
Status
writeSafetensors(const std::string &path,
                 const std::vector<SafetensorsTensor> &tensors,
                 const std::map<std::string, std::string> &metadata = {});

/// Product of the dimensions times the element size; nothing when a dimension
/// is negative or the product does not fit in 63 bits.
std::optional<uint64_t> tensorBytes(DType dtype,
                                    const std::vector<int64_t> &shape);

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SAFETENSORS_SAFETENSORS_H
