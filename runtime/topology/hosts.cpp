// Host patterns: h[001-128].
#include "runtime/topology/topology.h"

#include <cctype>

namespace lockstep {

static constexpr size_t kMaxHosts = 1000000;

static bool isNumber(const std::string &text) {
  if (text.empty() || text.size() > 9)
    return false;
  for (char c : text)
    if (!std::isdigit(static_cast<unsigned char>(c)))
      return false;
  return true;
}

/// Appends "001", "002", "003" for "001-003".
static Status expandRange(const std::string &range,
                          std::vector<std::string> &numbers) {
  size_t dash = range.find('-');
  std::string first = range.substr(0, dash);
  std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  if (!isNumber(first) || !isNumber(last))
    return inputError("'" + range + "' is not a number or a range of numbers");
  long begin = std::stol(first), end = std::stol(last);
  if (begin > end)
    return inputError("range '" + range + "' runs backward");
  if (static_cast<size_t>(end - begin) + numbers.size() >= kMaxHosts)
    return inputError("range '" + range + "' has more than 1000000 hosts");
  for (long number = begin; number <= end; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size())
      digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(digits);
  }
  return Status::success();
}

static Status expandBrackets(const std::string &list,
                             std::vector<std::string> &numbers) {
  size_t begin = 0;
  while (begin <= list.size()) {
    size_t comma = std::min(list.find(',', begin), list.size());
    LOCKSTEP_RETURN_IF_ERROR(
        expandRange(list.substr(begin, comma - begin), numbers));
    begin = comma + 1;
  }
  return Status::success();
}

StatusOr<std::vector<std::string>> expandHosts(const std::string &pattern) {
  std::vector<std::string> names = {""};
  size_t position = 0;
  while (position < pattern.size()) {
    size_t open = std::min(pattern.find('[', position), pattern.size());
    std::string literal = pattern.substr(position, open - position);
    if (literal.find(']') != std::string::npos)
      return inputError("']' without '[' in '" + pattern + "'");
    std::vector<std::string> numbers = {""};
    position = open;
    if (open < pattern.size()) {
      size_t close = pattern.find(']', open);
      if (close == std::string::npos)
        return inputError("'[' without ']' in '" + pattern + "'");
      numbers.clear();
      LOCKSTEP_RETURN_IF_ERROR(
          expandBrackets(pattern.substr(open + 1, close - open - 1), numbers));
      position = close + 1;
    }
    if (names.size() * numbers.size() > kMaxHosts)
      return inputError("'" + pattern + "' has more than 1000000 hosts");
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string &name : names)
      for (const std::string &number : numbers)
        longer.push_back(name + literal + number);
    names = std::move(longer);
  }
  if (names.size() == 1 && names[0].empty())
    return inputError("an empty host name");
  return names;
}

} // namespace lockstep
