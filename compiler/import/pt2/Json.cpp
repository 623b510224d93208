#include "compiler/import/pt2/Json.h"

#include <cmath>

using namespace lockstep;
using namespace lockstep::pt2;

/// The deepest nesting, or more than `limit` as soon as that is passed.
static unsigned nestingDepth(std::string_view text, unsigned limit) {
  unsigned depth = 0, deepest = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
      continue;
    }
    if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest && (deepest = depth) > limit)
        return deepest;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

StatusOr<Json> pt2::parseJson(std::string_view text, unsigned maxDepth) {
  if (nestingDepth(text, maxDepth) > maxDepth)
    return inputError("JSON is nested deeper than " + std::to_string(maxDepth) +
                      " levels");
  Json value = Json::parse(text.begin(), text.end(), nullptr,
                           /*allow_exceptions=*/false);
  if (value.is_discarded())
    return inputError("malformed JSON");
  return value;
}

std::string JsonPlace::path() const {
  if (!parent)
    return "";
  std::string outer = parent->path();
  if (key.empty())
    return outer + "[" + std::to_string(index) + "]";
  // Names from the file may be long or odd: they end up in an error line.
  std::string shown(key.substr(0, 100));
  for (char &c : shown)
    if (static_cast<unsigned char>(c) < 0x20)
      c = '?';
  return outer.empty() ? shown : outer + "." + shown;
}

Status JsonPlace::error(std::string what) const {
  return inputError(std::move(what)).at(path());
}

Status JsonPlace::expected(std::string_view what) const {
  std::string got = json->type_name();
  if (json->is_object() && json->size() != 1)
    got += " with " + std::to_string(json->size()) + " fields";
  return error("expected " + std::string(what) + ", but got " + got);
}

Status pt2::read(const JsonPlace &place, int64_t &out) {
  if (place.value().is_number_unsigned() &&
      place.value().get<uint64_t>() > uint64_t(INT64_MAX))
    return place.error("expected an integer of 64 bits, but got " +
                       place.value().dump());
  if (!place.value().is_number_integer())
    return place.expected("an integer");
  out = place.value().get<int64_t>();
  return Status::success();
}

Status pt2::read(const JsonPlace &place, bool &out) {
  if (!place.value().is_boolean())
    return place.expected("a boolean");
  out = place.value().get<bool>();
  return Status::success();
}

Status pt2::read(const JsonPlace &place, double &out) {
  if (place.value().is_number()) {
    out = place.value().get<double>();
    return Status::success();
  }
  if (const auto *text = place.value().get_ptr<const std::string *>()) {
    if (*text == "Infinity" || *text == "-Infinity") {
      out = (*text)[0] == '-' ? -HUGE_VAL : HUGE_VAL;
      return Status::success();
    }
    if (*text == "NaN") {
      out = std::nan("");
      return Status::success();
    }
  }
  return place.expected("a number");
}

Status pt2::read(const JsonPlace &place, std::string &out) {
  const auto *text = place.value().get_ptr<const std::string *>();
  if (!text)
    return place.expected("a string");
  out = *text;
  return Status::success();
}
