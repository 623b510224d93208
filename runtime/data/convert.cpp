#include "runtime/data/convert.h"
#include "runtime/artifact/types.h"
#include "runtime/support/half.h"

#include <cstring>
#include <limits>

namespace lockstep::runtime {

namespace {

bool isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 ||
         dtype == DType::BF16;
}
bool isInteger(DType dtype) {
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
  case DType::I8:
  case DType::I16:
  case DType::U16:
  case DType::I32:
  case DType::U32:
  case DType::I64:
    return true;
  default:
    return false;
  }
}

template <typename T> T load(const std::byte *source, int64_t index) {
  T value;
  std::memcpy(&value, source + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

int64_t loadInteger(const std::byte *source, DType from, int64_t i) {
  switch (from) {
  case DType::I8:
    return load<int8_t>(source, i);
  case DType::I16:
    return load<int16_t>(source, i);
  case DType::U16:
    return load<uint16_t>(source, i);
  case DType::I32:
    return load<int32_t>(source, i);
  case DType::U32:
    return load<uint32_t>(source, i);
  case DType::I64:
    return load<int64_t>(source, i);
  default:
    return load<uint8_t>(source, i);
  }
}

double loadFloat(const std::byte *source, DType from, int64_t i) {
  switch (from) {
  case DType::F64:
    return load<double>(source, i);
  case DType::F16:
    return double(float16ToFloat(load<uint16_t>(source, i)));
  case DType::BF16:
    return double(bfloat16ToFloat(load<uint16_t>(source, i)));
  default:
    return double(load<float>(source, i));
  }
}

template <typename T>
bool storeInteger(std::byte *target, int64_t i, int64_t v) {
  T value = T(v);
  std::memcpy(target + i * int64_t(sizeof(T)), &value, sizeof(T));
  return int64_t(value) == v;
}

/// False: the value does not fit the type.
bool storeAs(DType to, std::byte *target, int64_t i, int64_t value) {
  switch (to) {
  case DType::Bool:
    return storeInteger<uint8_t>(target, i, value != 0);
  case DType::U8:
    return storeInteger<uint8_t>(target, i, value);
  case DType::I8:
    return storeInteger<int8_t>(target, i, value);
  case DType::I16:
    return storeInteger<int16_t>(target, i, value);
  case DType::U16:
    return storeInteger<uint16_t>(target, i, value);
  case DType::I32:
    return storeInteger<int32_t>(target, i, value);
  case DType::U32:
    return storeInteger<uint32_t>(target, i, value);
  default:
    return storeInteger<int64_t>(target, i, value);
  }
}

void storeFloat(DType to, std::byte *target, int64_t i, double value) {
  float narrow = float(value);
  uint16_t half;
  switch (to) {
  case DType::F64:
    std::memcpy(target + i * 8, &value, 8);
    return;
  case DType::F16:
    half = floatToFloat16(narrow);
    std::memcpy(target + i * 2, &half, 2);
    return;
  case DType::BF16:
    half = floatToBfloat16(narrow);
    std::memcpy(target + i * 2, &half, 2);
    return;
  default:
    std::memcpy(target + i * 4, &narrow, 4);
  }
}

} // namespace

bool convertible(DType from, DType to) {
  if (isFloat(from) || isFloat(to))
    return isFloat(from) && isFloat(to);
  if (to == DType::Bool)
    return from == DType::Bool || from == DType::U8;
  return isInteger(from) && isInteger(to);
}

Status convertElements(const std::byte *source, DType from,
                       const artifact::InputT &input, std::byte *target,
                       int64_t count) {
  DType to = toDType(input.dtype);
  if (isFloat(to)) {
    if (from == to)
      std::memcpy(target, source, size_t(count) * dtypeSize(to));
    else
      for (int64_t i = 0; i < count; ++i)
        storeFloat(to, target, i, loadFloat(source, from, i));
    return Status::success();
  }
  int64_t vocabulary = input.vocabulary > 0
                           ? input.vocabulary
                           : std::numeric_limits<int64_t>::max();
  bool checked = input.vocabulary > 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = loadInteger(source, from, i);
    bool inside = !checked || (value >= input.least && value < vocabulary) ||
                  (input.is_labels && value == input.ignore_index);
    if (!inside)
      return inputError("value " + std::to_string(value) + " of '" +
                        input.name + "' at index " + std::to_string(i) +
                        " of its row is outside the vocabulary of " +
                        std::to_string(input.vocabulary))
          .remedy("prepare the data with the model's own tokenizer or classes");
    if (!storeAs(to, target, i, value))
      return inputError("value " + std::to_string(value) + " of '" +
                        input.name + "' does not fit " + nameOf(input.dtype));
  }
  return Status::success();
}

} // namespace lockstep::runtime
