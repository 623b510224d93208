#include "runtime/data/npy.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

namespace lockstep::runtime {

/// The text after "'key':" in the header's dictionary, without blanks.
static std::string_view valueOf(std::string_view header, const char *key) {
  size_t at = header.find(std::string("'") + key + "'");
  if (at == std::string_view::npos)
    return {};
  at = header.find(':', at);
  if (at == std::string_view::npos)
    return {};
  at = header.find_first_not_of(' ', at + 1);
  return at == std::string_view::npos ? std::string_view() : header.substr(at);
}

static bool parseShape(std::string_view text, std::vector<int64_t> &shape) {
  if (text.empty() || text[0] != '(')
    return false;
  size_t position = 1;
  while (position < text.size()) {
    position = text.find_first_not_of(", ", position);
    if (position == std::string_view::npos)
      return false;
    if (text[position] == ')')
      return true;
    int64_t size = 0;
    size_t digits = 0;
    for (; position < text.size() && isdigit(text[position]); ++position) {
      size = size * 10 + (text[position] - '0');
      if (++digits > 15)
        return false;
    }
    if (!digits)
      return false;
    shape.push_back(size);
  }
  return false;
}

static bool parseType(std::string_view text, DType &dtype) {
  static const std::map<std::string_view, DType> types = {
      {"'|b1'", DType::Bool}, {"'|u1'", DType::U8},  {"'|i1'", DType::I8},
      {"'<u2'", DType::U16},  {"'<i2'", DType::I16}, {"'<u4'", DType::U32},
      {"'<i4'", DType::I32},  {"'<i8'", DType::I64}, {"'<f2'", DType::F16},
      {"'<f4'", DType::F32},  {"'<f8'", DType::F64}};
  auto found = types.find(text.substr(0, 5));
  if (found == types.end())
    return false;
  dtype = found->second;
  return true;
}

StatusOr<NpyArray> openNpy(const std::string &path) {
  NpyArray array;
  LOCKSTEP_ASSIGN_OR_RETURN(array.file, MappedFile::open(path));
  auto refuse = [&](const std::string &what) {
    return inputError(what).at(path).remedy(
        "save it with numpy.save from a C-ordered array of numbers");
  };
  const auto *bytes = reinterpret_cast<const char *>(array.file->data());
  uint64_t size = array.file->size();
  if (size < 12 || std::memcmp(bytes, "\x93NUMPY", 6) != 0)
    return refuse("not a .npy file");
  uint64_t start = bytes[6] == 1 ? 10 : 12, length = 0;
  std::memcpy(&length, bytes + 8, bytes[6] == 1 ? 2 : 4);
  if (length > size - start)
    return refuse("the header is truncated");
  std::string_view header(bytes + start, length);
  if (valueOf(header, "fortran_order").substr(0, 5) != "False")
    return refuse("the array is column-major");
  if (!parseType(valueOf(header, "descr"), array.dtype))
    return refuse("elements of type " +
                  std::string(valueOf(header, "descr").substr(0, 6)) +
                  " cannot be read");
  if (!parseShape(valueOf(header, "shape"), array.shape))
    return refuse("the header has no shape");
  uint64_t needed = dtypeSize(array.dtype);
  for (int64_t dim : array.shape)
    if (__builtin_mul_overflow(needed, uint64_t(dim), &needed))
      return refuse("the shape is too large");
  if (needed > size - start - length)
    return refuse("the file is too short for its shape");
  array.data = array.file->data() + start + length;
  return array;
}

} // namespace lockstep::runtime
