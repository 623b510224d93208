// A JSON document as few, plain allocations. Exported graphs are megabytes of
// small objects with the same few keys: values lie in an arena, keys are there
// once, and the whole goes at once.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_JSONDOCUMENT_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_JSONDOCUMENT_H

#include "runtime/support/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::pt2 {

struct JsonField;

/// Refers to its document.
class JsonValue {
public:
  enum class Kind : uint8_t {
    Null,
    Boolean,
    Integer, ///< negative
    Natural,
    Real,
    String,
    Array,
    Object,
  };
  struct Fields {
    const JsonField *first, *last;
    const JsonField *begin() const { return first; }
    const JsonField *end() const { return last; }
  };

  JsonValue() : integer(0) {}
  explicit JsonValue(bool value) : kind(Kind::Boolean), boolean(value) {}
  explicit JsonValue(int64_t value) : kind(Kind::Integer), integer(value) {}
  explicit JsonValue(uint64_t value) : kind(Kind::Natural), natural(value) {}
  explicit JsonValue(double value) : kind(Kind::Real), real(value) {}
  explicit JsonValue(std::string_view value)
      : kind(Kind::String), count(value.size()), characters(value.data()) {}
  JsonValue(const JsonValue *first, size_t count)
      : kind(Kind::Array), count(count), elements(first) {}
  JsonValue(const JsonField *first, size_t count)
      : kind(Kind::Object), count(count), members(first) {}

  bool isNull() const { return kind == Kind::Null; }
  bool isBoolean() const { return kind == Kind::Boolean; }
  bool isInteger() const {
    return kind == Kind::Integer || kind == Kind::Natural;
  }
  bool isNumber() const { return isInteger() || kind == Kind::Real; }
  bool isString() const { return kind == Kind::String; }
  bool isArray() const { return kind == Kind::Array; }
  bool isObject() const { return kind == Kind::Object; }
  /// "null", "boolean", "number", "string", "array", "object".
  const char *kindName() const;

  bool getBoolean() const { return boolean; }
  /// Nothing where an int64_t cannot hold it.
  bool getInteger(int64_t &out) const;
  double getNumber() const;
  std::string_view getText() const { return {characters, count}; }
  /// Of an array or object.
  size_t size() const { return count; }
  /// Of an array.
  const JsonValue *begin() const { return elements; }
  const JsonValue *end() const { return elements + count; }
  const JsonValue &operator[](size_t index) const { return elements[index]; }
  /// Of an object, sorted by key; of equal keys the last one in the text.
  Fields fields() const;
  const JsonValue *find(std::string_view key) const;

  /// As JSON.
  std::string toText() const;

private:
  Kind kind = Kind::Null;
  size_t count = 0;
  union {
    bool boolean;
    int64_t integer;
    uint64_t natural;
    double real;
    const char *characters;
    const JsonValue *elements;
    const JsonField *members;
  };
};

struct JsonField {
  const std::string *key;
  JsonValue value;
};

class JsonDocument {
public:
  /// A whole document whose nesting is at most `maxDepth`.
  static StatusOr<JsonDocument> parse(std::string_view text, unsigned maxDepth);

  const JsonValue &root() const { return value; }

  struct Storage;
  /// Also for what is only declared here.
  struct Deleter {
    void operator()(Storage *storage) const;
  };

private:
  std::unique_ptr<Storage, Deleter> storage;
  JsonValue value;
};

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_JSONDOCUMENT_H
