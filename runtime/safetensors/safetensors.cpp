#include "runtime/safetensors/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_set>

using namespace lockstep;
using nlohmann::json;

/// The format's own limit for the header.
static constexpr uint64_t maxHeaderBytes = 100'000'000;
static constexpr size_t maxRank = 64;

std::optional<uint64_t>
lockstep::tensorBytes(DType dtype, const std::vector<int64_t> &shape) {
  uint64_t bytes = dtypeSize(dtype);
  bool zero = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    if (size == 0) {
      zero = true;
      continue;
    }
    if (bytes > uint64_t(INT64_MAX) / uint64_t(size))
      return std::nullopt;
    bytes *= uint64_t(size);
  }
  return zero ? 0 : bytes;
}

/// A non-negative integer that fits in 63 bits.
static std::optional<int64_t> naturalNumber(const json &value) {
  if (!value.is_number_unsigned())
    return std::nullopt;
  uint64_t number = value.get<uint64_t>();
  if (number > uint64_t(INT64_MAX))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

namespace {
/// An entry's header before its bytes are placed.
struct ParsedEntry {
  SafetensorsTensor tensor;
  uint64_t begin = 0, end = 0;
};
} // namespace

static StatusOr<ParsedEntry> parseEntry(const std::string &name,
                                        const json &value) {
  auto bad = [&](const std::string &what) {
    return inputError(what).at("tensor '" + name + "'");
  };
  if (!value.is_object())
    return bad("expected an object in the header");
  auto dtype = value.find("dtype"), shape = value.find("shape"),
       offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string())
    return bad("expected a string 'dtype'");
  if (shape == value.end() || !shape->is_array())
    return bad("expected an array 'shape'");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2)
    return bad("expected two 'data_offsets'");

  ParsedEntry entry;
  entry.tensor.name = name;
  const auto &dtypeText = dtype->get_ref<const std::string &>();
  std::optional<DType> known = dtypeFromName(dtypeText);
  if (!known)
    return bad("dtype '" + dtypeText + "' is not supported");
  entry.tensor.dtype = *known;
  if (shape->size() > maxRank)
    return bad("more than " + std::to_string(maxRank) + " dimensions");
  for (const json &size : *shape) {
    std::optional<int64_t> number = naturalNumber(size);
    if (!number)
      return bad("expected sizes that are not negative in 'shape'");
    entry.tensor.shape.push_back(*number);
  }
  std::optional<int64_t> begin = naturalNumber((*offsets)[0]),
                         end = naturalNumber((*offsets)[1]);
  std::optional<uint64_t> bytes = tensorBytes(*known, entry.tensor.shape);
  if (!begin || !end || *end < *begin)
    return bad("expected 'data_offsets' in ascending order");
  if (!bytes || *bytes != uint64_t(*end - *begin))
    return bad("expected " +
               (bytes ? std::to_string(*bytes) : std::string("too many")) +
               " bytes for dtype and shape, but 'data_offsets' span " +
               std::to_string(*end - *begin));
  entry.begin = uint64_t(*begin);
  entry.end = uint64_t(*end);
  entry.tensor.bytes = *bytes;
  return entry;
}

/// Refuses headers nested deeper than the format's three levels.
static json parseBounded(const char *begin, const char *end) {
  return json::parse(
      begin, end,
      [](int depth, json::parse_event_t event, json &) { return depth <= 3; },
      false);
}

Status SafetensorsFile::parseHeader() {
  if (file->size() < 8)
    return inputError("file of " + std::to_string(file->size()) +
                      " bytes is too short for a safetensors header");
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | uint64_t(file->data()[i]);
  if (headerBytes > maxHeaderBytes || headerBytes > file->size() - 8)
    return inputError("the header's length of " + std::to_string(headerBytes) +
                      " bytes exceeds the file or the format's limit");
  const char *text = reinterpret_cast<const char *>(file->data()) + 8;
  json header = headerBytes > 0 && text[0] == '{'
                    ? parseBounded(text, text + headerBytes)
                    : json(json::value_t::discarded);
  if (!header.is_object())
    return inputError("the header is not a JSON object");

  std::vector<ParsedEntry> parsed;
  for (const auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object())
        return inputError("expected an object '__metadata__'");
      for (const auto &[key, text] : value.items()) {
        if (!text.is_string())
          return inputError("expected strings in '__metadata__', but '" + key +
                            "' is none");
        meta[key] = text.get_ref<const std::string &>();
      }
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(ParsedEntry entry, parseEntry(name, value));
    parsed.push_back(std::move(entry));
  }

  std::sort(parsed.begin(), parsed.end(),
            [](const ParsedEntry &a, const ParsedEntry &b) {
              return std::tie(a.begin, a.end, a.tensor.name) <
                     std::tie(b.begin, b.end, b.tensor.name);
            });
  uint64_t position = 0, dataBytes = file->size() - 8 - headerBytes;
  const std::byte *data = file->data() + 8 + headerBytes;
  entries.reserve(parsed.size());
  for (ParsedEntry &entry : parsed) {
    if (entry.begin != position)
      return inputError("data begins at byte " + std::to_string(entry.begin) +
                        ", but the tensor before ends at " +
                        std::to_string(position))
          .at("tensor '" + entry.tensor.name + "'");
    position = entry.end;
    if (position > dataBytes)
      return inputError("data ends at byte " + std::to_string(position) +
                        ", but the file has " + std::to_string(dataBytes))
          .at("tensor '" + entry.tensor.name + "'")
          .remedy("the file is cut off: copy or download it again");
    entry.tensor.data = data + entry.begin;
    entries.push_back(std::move(entry.tensor));
  }
  if (position != dataBytes)
    return inputError(std::to_string(dataBytes - position) +
                      " bytes after the last tensor belong to none");
  for (size_t i = 0; i < entries.size(); ++i)
    byName.emplace(entries[i].name, i);
  return Status::success();
}

StatusOr<std::shared_ptr<const SafetensorsFile>>
SafetensorsFile::open(const std::string &path) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto mapping, MappedFile::open(path));
  std::shared_ptr<SafetensorsFile> result(new SafetensorsFile());
  result->file = std::move(mapping);
  LOCKSTEP_RETURN_IF_ERROR(result->parseHeader().at(path));
  return std::shared_ptr<const SafetensorsFile>(std::move(result));
}

const SafetensorsTensor *SafetensorsFile::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &entries[it->second];
}

StatusOr<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path,
                          const std::vector<SafetensorsHeaderEntry> &entries,
                          const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t position = 0;
  std::unordered_set<std::string_view> seen;
  for (const SafetensorsHeaderEntry &entry : entries) {
    std::optional<uint64_t> bytes = tensorBytes(entry.dtype, entry.shape);
    if (!bytes || *bytes > uint64_t(INT64_MAX) - position)
      return internalFault("tensor '" + entry.name + "' is too large").at(path);
    if (entry.name == "__metadata__" || !seen.insert(entry.name).second)
      return internalFault("tensor name '" + entry.name + "' is used twice")
          .at(path);
    nlohmann::ordered_json value;
    value["dtype"] = std::string(dtypeName(entry.dtype));
    value["shape"] = entry.shape;
    value["data_offsets"] = {position, position + *bytes};
    // Appended without a search: ordered objects look keys up linearly.
    header.get_ref<nlohmann::ordered_json::object_t &>().emplace_back(
        entry.name, std::move(value));
    position += *bytes;
  }
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > maxHeaderBytes)
    return internalFault("the header exceeds the format's limit").at(path);

  LOCKSTEP_ASSIGN_OR_RETURN(
      AtomicFile file, AtomicFile::create(path, 8 + text.size() + position));
  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(uint64_t(text.size()) >> (8 * i));
  LOCKSTEP_RETURN_IF_ERROR(file.write(length, 8));
  LOCKSTEP_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  SafetensorsWriter writer(std::move(file));
  writer.expected = 8 + text.size() + position;
  return writer;
}

Status SafetensorsWriter::append(const void *data, uint64_t bytes) {
  if (bytes > expected - file.size())
    return internalFault("more tensor data than the header announced");
  return file.write(data, bytes);
}

Status SafetensorsWriter::commit() {
  if (file.size() != expected)
    return internalFault("less tensor data than the header announced");
  return file.commit();
}

Status
lockstep::writeSafetensors(const std::string &path,
                           const std::vector<SafetensorsTensor> &tensors,
                           const std::map<std::string, std::string> &metadata) {
  std::vector<SafetensorsHeaderEntry> entries;
  for (const SafetensorsTensor &tensor : tensors)
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                            SafetensorsWriter::create(path, entries, metadata));
  for (const SafetensorsTensor &tensor : tensors)
    LOCKSTEP_RETURN_IF_ERROR(writer.append(tensor.data, tensor.bytes));
  return writer.commit();
}
