// Element types as stored in files and memory, shared by readers, artifact and
// runtime. The names are safetensors'; the numbers are our own and go into
// artifacts, so they never change.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_DTYPE_H
#define LOCKSTEP_RUNTIME_SUPPORT_DTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class DType : uint8_t {
  Bool = 0, ///< one byte, 0 or 1
  U8 = 1,
  I8 = 2,
  I16 = 3,
  U16 = 4,
  I32 = 5,
  U32 = 6,
  I64 = 7,
  U64 = 8,
  F16 = 9,
  BF16 = 10,
  F32 = 11,
  F64 = 12,
  F8E4M3 = 13, ///< e4m3fn
  F8E5M2 = 14,
  F8E8M0 = 15,
  C64 = 16, ///< two f32
};

namespace detail {
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  size_t bytes;
};
inline constexpr DTypeInfo dtypeTable[] = {
    {DType::Bool, "BOOL", 1},      {DType::U8, "U8", 1},
    {DType::I8, "I8", 1},          {DType::I16, "I16", 2},
    {DType::U16, "U16", 2},        {DType::I32, "I32", 4},
    {DType::U32, "U32", 4},        {DType::I64, "I64", 8},
    {DType::U64, "U64", 8},        {DType::F16, "F16", 2},
    {DType::BF16, "BF16", 2},      {DType::F32, "F32", 4},
    {DType::F64, "F64", 8},        {DType::F8E4M3, "F8_E4M3", 1},
    {DType::F8E5M2, "F8_E5M2", 1}, {DType::F8E8M0, "F8_E8M0", 1},
    {DType::C64, "C64", 8},
};
} // namespace detail

/// Bytes of one element.
constexpr size_t dtypeSize(DType dtype) {
  return detail::dtypeTable[static_cast<size_t>(dtype)].bytes;
}
/// The name in safetensors files: "F32", "BF16", "BOOL", ...
constexpr std::string_view dtypeName(DType dtype) {
  return detail::dtypeTable[static_cast<size_t>(dtype)].name;
}
inline std::optional<DType> dtypeFromName(std::string_view name) {
  for (const detail::DTypeInfo &info : detail::dtypeTable)
    if (info.name == name)
      return info.dtype;
  return std::nullopt;
}

} // namespace lockstep

#endif // LOCKSTEP_RUNTIME_SUPPORT_DTYPE_H
