// Reading of JSON values with errors that say where in the document they are.
// A JsonPlace is a value together with the path that led to it; the path costs
// nothing until an error needs it. Places live on the stack: a child refers to
// its parent.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_JSON_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_JSON_H

#include "compiler/import/pt2/JsonDocument.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::pt2 {

class JsonPlace {
public:
  explicit JsonPlace(const JsonValue &value) : json(&value) {}
  JsonPlace(const JsonValue &value, const JsonPlace &parent,
            std::string_view key)
      : json(&value), parent(&parent), key(key) {}
  JsonPlace(const JsonValue &value, const JsonPlace &parent, size_t index)
      : json(&value), parent(&parent), index(index) {}

  const JsonValue &value() const { return *json; }
  /// "graph_module.graph.nodes[3].inputs[0].arg"
  std::string path() const;
  /// An input error at this place.
  Status error(std::string what) const;
  /// "expected <what>, but got <kind of this value>"
  Status expected(std::string_view what) const;

private:
  const JsonValue *json;
  const JsonPlace *parent = nullptr;
  std::string_view key;
  size_t index = 0;
};

Status read(const JsonPlace &place, int64_t &out);
Status read(const JsonPlace &place, bool &out);
/// Also "Infinity", "-Infinity" and "NaN", which JSON has no numbers for.
Status read(const JsonPlace &place, double &out);
Status read(const JsonPlace &place, std::string &out);

/// Calls `body(JsonPlace)` for each element of an array.
template <typename Body>
Status forEachElement(const JsonPlace &place, Body &&body) {
  if (!place.value().isArray())
    return place.expected("an array");
  size_t index = 0;
  for (const JsonValue &element : place.value())
    LOCKSTEP_RETURN_IF_ERROR(body(JsonPlace(element, place, index++)));
  return Status::success();
}

/// Calls `body(const std::string &key, JsonPlace)` for each field of an object.
template <typename Body>
Status forEachField(const JsonPlace &place, Body &&body) {
  if (!place.value().isObject())
    return place.expected("an object");
  for (const JsonField &field : place.value().fields())
    LOCKSTEP_RETURN_IF_ERROR(
        body(*field.key,
             JsonPlace(field.value, place, std::string_view(*field.key))));
  return Status::success();
}

/// Calls `body(JsonPlace)` for a field; a missing one is an error.
template <typename Body>
Status field(const JsonPlace &place, const char *name, Body &&body) {
  if (!place.value().isObject())
    return place.expected("an object");
  const JsonValue *value = place.value().find(name);
  if (!value)
    return place.error("expected a field '" + std::string(name) + "'");
  return body(JsonPlace(*value, place, std::string_view(name)));
}

/// The same for a field that may be missing or null, which are success.
template <typename Body>
Status optionalField(const JsonPlace &place, const char *name, Body &&body) {
  if (!place.value().isObject())
    return place.expected("an object");
  const JsonValue *value = place.value().find(name);
  if (!value || value->isNull())
    return Status::success();
  return body(JsonPlace(*value, place, std::string_view(name)));
}

/// A union: an object with exactly one field, whose name is the kind.
template <typename Body> Status readUnion(const JsonPlace &place, Body &&body) {
  if (!place.value().isObject() || place.value().size() != 1)
    return place.expected("an object with exactly one field");
  return forEachField(place, body);
}

/// Fields read into variables.
template <typename T>
Status readField(const JsonPlace &place, const char *name, T &out) {
  return field(place, name,
               [&](const JsonPlace &inner) { return read(inner, out); });
}
template <typename T>
Status readOptionalField(const JsonPlace &place, const char *name, T &out) {
  return optionalField(
      place, name, [&](const JsonPlace &inner) { return read(inner, out); });
}

/// An array whose elements `readElement(JsonPlace, T &)` reads.
template <typename T, typename ReadElement>
Status readArray(const JsonPlace &place, std::vector<T> &out,
                 ReadElement &&readElement) {
  if (place.value().isArray())
    out.reserve(place.value().size());
  return forEachElement(place, [&](const JsonPlace &element) {
    T value{};
    LOCKSTEP_RETURN_IF_ERROR(readElement(element, value));
    out.push_back(std::move(value));
    return Status::success();
  });
}
template <typename T>
Status readArray(const JsonPlace &place, std::vector<T> &out) {
  return readArray(place, out, [](const JsonPlace &element, T &value) {
    return read(element, value);
  });
}

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_JSON_H
