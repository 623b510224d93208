#include "tools/fuzz/Mutations.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <zip.h>

using namespace lockstep;
using namespace lockstep::fuzz;
using nlohmann::json;

uint64_t Random::next() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

StatusOr<Seed> fuzz::loadSeed(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  Seed seed;
  seed.bytes = content.str();
  zip_t *archive = zip_open(path.c_str(), ZIP_RDONLY, nullptr);
  if (!archive)
    return inputError("not a zip archive").at(path);
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t stat;
    zip_file_t *file = zip_fopen_index(archive, zip_uint64_t(i), 0);
    if (!file || zip_stat_index(archive, zip_uint64_t(i), 0, &stat) != 0)
      return inputError("a record cannot be read").at(path);
    std::string bytes(stat.size, '\0');
    if (zip_fread(file, bytes.data(), bytes.size()) !=
        zip_int64_t(bytes.size()))
      return inputError("a record cannot be read").at(path);
    zip_fclose(file);
    seed.records.emplace_back(stat.name, std::move(bytes));
  }
  zip_discard(archive);
  return seed;
}

static Status writeBytes(const std::string &bytes, const std::string &path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (!out.flush())
    return inputError("cannot write").at(path);
  return Status::success();
}

static Status
writeArchive(const std::vector<std::pair<std::string, std::string>> &records,
             bool deflate, const std::string &path) {
  std::remove(path.c_str());
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, nullptr);
  if (!archive)
    return inputError("cannot write").at(path);
  for (const auto &[name, bytes] : records) {
    zip_source_t *source =
        zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    if (index < 0) // a name that is there already
      zip_source_free(source);
    else
      zip_set_file_compression(archive, zip_uint64_t(index),
                               deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 1);
  }
  if (zip_close(archive) != 0)
    return inputError("cannot write").at(path);
  return Status::success();
}

//===-- Bytes -------------------------------------------------------------===//

static std::string mutateBytes(std::string &bytes, Random &random) {
  // Half of the damage goes to the directory at the end of the file.
  size_t tail = std::min<size_t>(bytes.size(), 4096);
  auto position = [&] {
    return random.chance(50) ? bytes.size() - 1 - random.below(tail)
                             : random.below(bytes.size());
  };
  if (bytes.empty()) {
    bytes = "PK";
    return "two bytes";
  }
  switch (random.below(5)) {
  case 0:
  case 1: {
    uint64_t count = 1 + random.below(8);
    for (uint64_t i = 0; i < count; ++i)
      bytes[position()] = static_cast<char>(random.next());
    return std::to_string(count) + " bytes changed";
  }
  case 2:
    bytes.resize(random.below(bytes.size()));
    return "cut to " + std::to_string(bytes.size()) + " bytes";
  case 3: {
    size_t begin = position(), count = 1 + random.below(64);
    bytes.erase(begin, count);
    return "bytes removed at " + std::to_string(begin);
  }
  default: {
    size_t begin = position();
    bytes.insert(begin,
                 bytes.substr(random.below(bytes.size()), random.below(64)));
    return "bytes inserted at " + std::to_string(begin);
  }
  }
}

//===-- JSON --------------------------------------------------------------===//

/// Every value below and including `value`.
static void collect(json &value, std::vector<json *> &out) {
  out.push_back(&value);
  if (value.is_structured())
    for (json &inner : value)
      collect(inner, out);
}

static json randomScalar(Random &random) {
  static const int64_t integers[] = {
      0,     1,         -1,        2,         7,         255,      256,
      65536, INT32_MAX, INT32_MIN, 1LL << 40, INT64_MAX, INT64_MIN};
  static const char *const strings[] = {
      "",          "x",
      "as_tensor", "Infinity",
      "NaN",       "weight_0",
      "../x",      "[1, {}]",
      "input",     "Integer(0)",
      "s0",        "torch.ops.aten.add.Tensor",
      "\xff\xfe",  "Symbol('s0')",
      "%s%n",      "FloorDiv(Integer(1), Integer(0))"};
  switch (random.below(8)) {
  case 0:
    return nullptr;
  case 1:
    return random.chance(50);
  case 2:
    return static_cast<double>(integers[random.below(std::size(integers))]) *
           1.5;
  case 3:
    return json::array();
  case 4:
    return json::object();
  case 5:
    return strings[random.below(std::size(strings))];
  case 6:
    return random.next();
  default:
    return integers[random.below(std::size(integers))];
  }
}

static void mutateString(std::string &text, Random &random,
                         const std::vector<json *> &all) {
  const json &other = *all[random.below(all.size())];
  if (other.is_string() && random.chance(50))
    text = other.get<std::string>();
  else if (!text.empty() && random.chance(50))
    text.resize(random.below(text.size()));
  else if (!text.empty())
    text[random.below(text.size())] = static_cast<char>(random.below(128));
  else
    text = "y";
}

static void mutateStructure(json &value, Random &random) {
  if (value.is_array() && !value.empty()) {
    size_t index = random.below(value.size());
    if (random.chance(40))
      value.erase(index);
    else if (random.chance(50))
      value.push_back(json(value[index]));
    else
      std::swap(value[index], value[random.below(value.size())]);
  } else if (value.is_object() && !value.empty()) {
    auto it = value.begin();
    std::advance(it, std::ptrdiff_t(random.below(value.size())));
    std::string key = it.key();
    json moved = *it;
    if (random.chance(70))
      value.erase(key);
    if (random.chance(70))
      value[key + (random.chance(50) ? "_" : "s")] = std::move(moved);
  } else {
    value = randomScalar(random);
  }
}

void fuzz::mutateJson(json &document, Random &random) {
  std::vector<json *> all;
  collect(document, all);
  json &value = *all[random.below(all.size())];
  switch (random.below(8)) {
  case 0:
  case 1:
    value = randomScalar(random);
    break;
  case 2:
    if (value.is_number_integer()) {
      int64_t number = value.get<int64_t>();
      static const int64_t factors[] = {-1, 2, 3, 1024, 1LL << 31, 1LL << 62};
      value =
          random.chance(50)
              ? number + int64_t(random.below(5)) - 2
              : int64_t(uint64_t(number) * uint64_t(factors[random.below(6)]));
    } else if (value.is_string()) {
      mutateString(value.get_ref<std::string &>(), random, all);
    } else {
      mutateStructure(value, random);
    }
    break;
  case 3:
  case 4:
    mutateStructure(value, random);
    break;
  case 5: { // another part of the document in its place
    json copy = *all[random.below(all.size())];
    value = std::move(copy);
    break;
  }
  case 6: { // two scalars change places
    json &other = *all[random.below(all.size())];
    if (!value.is_structured() && !other.is_structured())
      std::swap(value, other);
    else
      mutateStructure(value, random);
    break;
  }
  default: // nesting
    for (uint64_t i = random.below(400); i > 0; --i) {
      json outer = json::array();
      outer.push_back(std::move(value));
      value = std::move(outer);
    }
  }
}

/// Values in `value` whose change keeps the document well formed: numbers,
/// flags, and the names that arguments refer to.
static void collectGentle(json &value, bool isName, std::vector<json *> &out) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end(); ++it)
      collectGentle(*it, it.key() == "as_tensor" || isName, out);
  } else if (value.is_array()) {
    for (json &inner : value)
      collectGentle(inner, isName, out);
  } else if (value.is_number() || value.is_boolean() ||
             (isName && value.is_string())) {
    out.push_back(&value);
  }
}

/// Changes a value so that the graph is still a graph, but says another thing:
/// another size, dimension, dtype, flag or operand.
static void mutateGently(json &document, Random &random) {
  std::vector<json *> all;
  collectGentle(document, false, all);
  if (all.empty())
    return;
  json &value = *all[random.below(all.size())];
  if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_number_integer()) {
    static const int64_t numbers[] = {0, 1, -1, 2, 3, 5, 8, -2, 64, 100000};
    value = random.chance(50)
                ? value.get<int64_t>() + int64_t(random.below(3)) - 1
                : numbers[random.below(std::size(numbers))];
  } else if (value.is_number()) {
    value = value.get<double>() * 2 - 1;
  } else {
    const json &other = *all[random.below(all.size())];
    if (other.is_string())
      value = json(other);
  }
}

//===-- Records -----------------------------------------------------------===//

static std::string mutateRecord(Seed &seed, Random &random) {
  auto &records = seed.records;
  size_t index = random.below(records.size());
  std::string &bytes = records[index].second, name = records[index].first;
  switch (random.below(7)) {
  case 0:
    if (!bytes.empty())
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    return "a byte of " + name + " changed";
  case 1:
    bytes.resize(random.below(bytes.size() + 1));
    return name + " cut to " + std::to_string(bytes.size()) + " bytes";
  case 2:
    bytes.append(random.below(4096), '\x7f');
    return name + " lengthened";
  case 3:
    bytes.clear();
    return name + " emptied";
  case 4:
    records.erase(records.begin() + std::ptrdiff_t(index));
    return name + " removed";
  case 5:
    std::swap(bytes, records[random.below(records.size())].second);
    return name + " exchanged with another record";
  default:
    records[index].first += random.chance(50) ? "x" : "/x";
    return name + " renamed";
  }
}

static bool isJson(const std::string &name) {
  return name.size() > 5 && name.compare(name.size() - 5, 5, ".json") == 0;
}

static std::string mutateDocuments(Seed &seed, Random &random) {
  std::vector<size_t> documents;
  for (size_t i = 0; i < seed.records.size(); ++i)
    if (isJson(seed.records[i].first))
      documents.push_back(i);
  if (documents.empty())
    return mutateRecord(seed, random);
  // The graph is the largest and gets most of the damage.
  size_t largest = *std::max_element(
      documents.begin(), documents.end(), [&](size_t a, size_t b) {
        return seed.records[a].second.size() < seed.records[b].second.size();
      });
  size_t index =
      random.chance(60) ? largest : documents[random.below(documents.size())];
  auto &[name, text] = seed.records[index];
  json document = json::parse(text, nullptr, false);
  uint64_t count = 1 + random.below(3);
  bool gentle = random.chance(50);
  for (uint64_t i = 0; i < count; ++i)
    gentle ? mutateGently(document, random) : mutateJson(document, random);
  text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  return std::to_string(count) + " changes in " + name;
}

StatusOr<std::string> fuzz::writeMutant(const Seed &seed, Random &random,
                                        const std::string &path) {
  uint64_t kind = random.below(10);
  if (kind < 2) {
    std::string bytes = seed.bytes;
    std::string what = mutateBytes(bytes, random);
    LOCKSTEP_RETURN_IF_ERROR(writeBytes(bytes, path));
    return what;
  }
  Seed mutant = seed;
  std::string what =
      kind < 4 ? mutateRecord(mutant, random) : mutateDocuments(mutant, random);
  LOCKSTEP_RETURN_IF_ERROR(
      writeArchive(mutant.records, random.chance(20), path));
  return what;
}
