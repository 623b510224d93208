#include "compiler/import/pt2/Archive.h"

#include <sys/stat.h>
#include <zip.h>

using namespace lockstep;
using namespace lockstep::pt2;

static const char *const brokenFile =
    "the file is damaged or cut off: export or copy it again";

StatusOr<std::shared_ptr<const Archive>> Archive::open(const std::string &path,
                                                       uint64_t maxEntries) {
  int code = 0;
  zip_t *handle = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (!handle) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN)
      return inputError("cannot open the file: " + text).at(path);
    return inputError("not a readable zip archive: " + text)
        .at(path)
        .remedy("give a .pt2 file of torch.export.save, whole and undamaged");
  }
  std::shared_ptr<Archive> archive(new Archive(path, handle));
  LOCKSTEP_RETURN_IF_ERROR(archive->readDirectory(maxEntries).at(path));
  // The folder of the first record; PyTorch writes all others beside it.
  if (!archive->entries.empty()) {
    const std::string &first = archive->entries.front().name;
    if (size_t slash = first.find('/'); slash != std::string::npos)
      archive->rootFolder = first.substr(0, slash + 1);
  }
  return std::shared_ptr<const Archive>(std::move(archive));
}

Archive::~Archive() { zip_discard(handle); }

Status Archive::readDirectory(uint64_t maxEntries) {
  struct stat info = {};
  if (::stat(file.c_str(), &info) != 0)
    return inputError("cannot read the file's size");
  uint64_t fileBytes = static_cast<uint64_t>(info.st_size);
  zip_int64_t count = zip_get_num_entries(handle, 0);
  if (count < 0 || uint64_t(count) > maxEntries)
    return inputError("the archive has " + std::to_string(count) +
                      " records, more than " + std::to_string(maxEntries));
  entries.reserve(static_cast<size_t>(count));
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE |
                                ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(handle, zip_uint64_t(i), 0, &stat) != 0 ||
        (stat.valid & needed) != needed)
      return inputError("the zip directory is not readable at record " +
                        std::to_string(i))
          .remedy(brokenFile);
    Record record{stat.name, uint64_t(i), stat.size};
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) &&
        stat.encryption_method != ZIP_EM_NONE)
      return inputError("record '" + record.name + "' is encrypted");
    // Sizes decide allocations: deflate expands at most 1032 times.
    bool stored = stat.comp_method == ZIP_CM_STORE;
    if (!stored && stat.comp_method != ZIP_CM_DEFLATE)
      return inputError("record '" + record.name +
                        "' has an unknown compression method")
          .remedy(brokenFile);
    if (stat.comp_size > fileBytes ||
        (stored ? stat.size != stat.comp_size
                : stat.size > 1032 * stat.comp_size))
      return inputError("record '" + record.name + "' claims " +
                        std::to_string(stat.size) + " bytes in a file of " +
                        std::to_string(fileBytes))
          .remedy(brokenFile);
    entries.push_back(std::move(record));
  }
  for (size_t i = 0; i < entries.size(); ++i)
    if (!byName.emplace(entries[i].name, i).second)
      return inputError("record '" + entries[i].name + "' is there twice")
          .remedy(brokenFile);
  return Status::success();
}

const Archive::Record *Archive::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &entries[it->second];
}

Status Archive::read(const Record &record, std::byte *out) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto failure = [&](const std::string &what) {
    return inputError("cannot read record '" + record.name + "': " + what)
        .at(file)
        .remedy(brokenFile);
  };
  zip_file_t *stream = zip_fopen_index(handle, record.index, 0);
  if (!stream)
    return failure(zip_strerror(handle));
  uint64_t done = 0;
  zip_int64_t count = 0;
  while (done < record.bytes) {
    uint64_t part = std::min<uint64_t>(record.bytes - done, uint64_t(1) << 30);
    count = zip_fread(stream, out + done, part);
    if (count <= 0)
      break;
    done += uint64_t(count);
  }
  // The checksum is verified by the read that meets the end.
  char beyond = 0;
  if (count >= 0 && done == record.bytes)
    count = zip_fread(stream, &beyond, 1);
  std::string what;
  if (count < 0)
    what = zip_file_strerror(stream);
  else if (count > 0 || done != record.bytes)
    what = "its length is not what the directory says";
  zip_fclose(stream);
  return what.empty() ? Status::success() : failure(what);
}

StatusOr<std::string> Archive::readText(const Record &record,
                                        uint64_t maxBytes) const {
  if (record.bytes > maxBytes)
    return inputError("record '" + record.name + "' of " +
                      std::to_string(record.bytes) + " bytes exceeds " +
                      std::to_string(maxBytes))
        .at(file);
  std::string text(record.bytes, '\0');
  LOCKSTEP_RETURN_IF_ERROR(
      read(record, reinterpret_cast<std::byte *>(text.data())));
  return text;
}
