#include "compiler/import/pt2/Json.h"

#include <cmath>

using namespace lockstep;
using namespace lockstep::pt2;

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
  std::string got = json->kindName();
  if (json->isObject() && json->size() != 1)
    got += " with " + std::to_string(json->size()) + " fields";
  return error("expected " + std::string(what) + ", but got " + got);
}

Status pt2::read(const JsonPlace &place, int64_t &out) {
  if (!place.value().isInteger())
    return place.expected("an integer");
  if (!place.value().getInteger(out))
    return place.error("expected an integer of 64 bits, but got " +
                       place.value().toText());
  return Status::success();
}

Status pt2::read(const JsonPlace &place, bool &out) {
  if (!place.value().isBoolean())
    return place.expected("a boolean");
  out = place.value().getBoolean();
  return Status::success();
}

Status pt2::read(const JsonPlace &place, double &out) {
  if (place.value().isNumber()) {
    out = place.value().getNumber();
    return Status::success();
  }
  if (place.value().isString()) {
    std::string_view text = place.value().getText();
    if (text == "Infinity" || text == "-Infinity") {
      out = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
      return Status::success();
    }
    if (text == "NaN") {
      out = std::nan("");
      return Status::success();
    }
  }
  return place.expected("a number");
}

Status pt2::read(const JsonPlace &place, std::string &out) {
  if (!place.value().isString())
    return place.expected("a string");
  out = place.value().getText();
  return Status::success();
}
