#include "compiler/import/pt2/JsonDocument.h"

#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

using namespace lockstep;
using namespace lockstep::pt2;

//===-- Values ------------------------------------------------------------===//

const char *JsonValue::kindName() const {
  static constexpr const char *names[] = {"null",   "boolean", "number",
                                          "number", "number",  "string",
                                          "array",  "object"};
  return names[static_cast<size_t>(kind)];
}

bool JsonValue::getInteger(int64_t &out) const {
  if (kind == Kind::Natural && natural > uint64_t(INT64_MAX))
    return false;
  out = integer;
  return true;
}

double JsonValue::getNumber() const {
  return kind == Kind::Real      ? real
         : kind == Kind::Integer ? static_cast<double>(integer)
                                 : static_cast<double>(natural);
}

JsonValue::Fields JsonValue::fields() const {
  return {members, members + count};
}

const JsonValue *JsonValue::find(std::string_view key) const {
  const JsonField *last = members + count;
  const JsonField *it = std::lower_bound(
      members, last, key, [](const JsonField &field, std::string_view key) {
        return *field.key < key;
      });
  return it != last && *it->key == key ? &it->value : nullptr;
}

std::string JsonValue::toText() const {
  auto join = [&](char open, char close, auto &&range, auto &&write) {
    std::string text(1, open);
    for (const auto &part : range)
      text += (text.size() > 1 ? "," : "") + write(part);
    return text + close;
  };
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Boolean:
    return boolean ? "true" : "false";
  case Kind::Integer:
    return std::to_string(integer);
  case Kind::Natural:
    return std::to_string(natural);
  case Kind::Real:
    return nlohmann::json(real).dump();
  case Kind::String:
    return nlohmann::json(getText()).dump();
  case Kind::Array:
    return join('[', ']', *this,
                [](const JsonValue &element) { return element.toText(); });
  case Kind::Object:
    return join('{', '}', fields(), [](const JsonField &field) {
      return nlohmann::json(*field.key).dump() + ":" + field.value.toText();
    });
  }
  return "";
}

//===-- Documents ---------------------------------------------------------===//

struct JsonDocument::Storage {
  std::pmr::monotonic_buffer_resource arena{size_t(1) << 16};
  std::unordered_set<std::string> keys;

  template <typename T> T *allocate(size_t count) {
    return static_cast<T *>(arena.allocate(count * sizeof(T), alignof(T)));
  }
  template <typename T> const T *copy(const T *first, size_t count) {
    T *copied = allocate<T>(count);
    std::uninitialized_copy_n(first, count, copied);
    return copied;
  }
};

void JsonDocument::Deleter::operator()(Storage *storage) const {
  delete storage;
}

namespace {
/// Takes the events of nlohmann's parser; what is open lies on a stack.
class DocumentBuilder {
public:
  DocumentBuilder(JsonDocument::Storage &storage, unsigned maxDepth)
      : storage(storage), maxDepth(maxDepth) {}

  bool tooDeep = false;
  JsonValue root() const { return pending.empty() ? JsonValue() : pending[0]; }

  bool null() { return add(JsonValue()); }
  bool boolean(bool value) { return add(JsonValue(value)); }
  bool number_integer(int64_t value) { return add(JsonValue(value)); }
  bool number_unsigned(uint64_t value) { return add(JsonValue(value)); }
  bool number_float(double value, const std::string &) {
    return add(JsonValue(value));
  }
  bool string(const std::string &text) {
    return add(JsonValue(
        std::string_view(storage.copy(text.data(), text.size()), text.size())));
  }
  bool binary(const std::vector<uint8_t> &) { return false; }
  bool start_array(size_t) { return open(); }
  bool start_object(size_t) { return open(); }
  bool key(const std::string &text) {
    keys.push_back(&*storage.keys.insert(text).first);
    return true;
  }
  bool end_array() {
    size_t first = close(), count = pending.size() - first;
    const JsonValue *elements = storage.copy(pending.data() + first, count);
    pending.resize(first);
    return add(JsonValue(elements, count));
  }
  bool end_object();
  bool parse_error(size_t, const std::string &,
                   const nlohmann::json::exception &) {
    return false;
  }

private:
  bool add(JsonValue value) {
    pending.push_back(value);
    return true;
  }
  bool open() {
    opened.push_back(pending.size());
    tooDeep = opened.size() > maxDepth;
    return !tooDeep;
  }
  size_t close() {
    size_t first = opened.back();
    opened.pop_back();
    return first;
  }

  /// A field of the object that is closed.
  struct Place {
    const std::string *key; ///< equal keys are one object
    size_t index;
  };

  JsonDocument::Storage &storage;
  unsigned maxDepth;
  /// Complete values whose array or object is not, the keys of the fields among
  /// them, and where each open array or object begins.
  std::vector<JsonValue> pending;
  std::vector<const std::string *> keys;
  std::vector<size_t> opened;
  std::vector<Place> order; ///< of end_object alone
};
} // namespace

bool DocumentBuilder::end_object() {
  size_t first = close(), count = pending.size() - first;
  order.clear();
  for (size_t i = 0; i < count; ++i)
    order.push_back({keys[keys.size() - count + i], i});
  std::sort(order.begin(), order.end(), [](const Place &a, const Place &b) {
    return a.key == b.key ? a.index < b.index : *a.key < *b.key;
  });
  JsonField *fields = storage.allocate<JsonField>(count);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i)
    if (i + 1 == count || order[i].key != order[i + 1].key)
      new (fields + kept++)
          JsonField{order[i].key, pending[first + order[i].index]};
  pending.resize(first);
  keys.resize(keys.size() - count);
  return add(JsonValue(fields, kept));
}

StatusOr<JsonDocument> JsonDocument::parse(std::string_view text,
                                           unsigned maxDepth) {
  JsonDocument document;
  document.storage.reset(new Storage);
  DocumentBuilder builder(*document.storage, maxDepth);
  bool parsed = nlohmann::json::sax_parse(text.data(),
                                          text.data() + text.size(), &builder);
  if (builder.tooDeep)
    return inputError("JSON is nested deeper than " + std::to_string(maxDepth) +
                      " levels");
  if (!parsed)
    return inputError("malformed JSON");
  document.value = builder.root();
  return document;
}
