#include "compiler/import/WeightStore.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace lockstep;

uint64_t WeightEntry::elements() const {
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= static_cast<uint64_t>(size);
  return count;
}

const WeightEntry *WeightStore::find(std::string_view name) const {
  auto it = byName.find(std::string(name));
  return it == byName.end() ? nullptr : &list[it->second];
}

std::vector<std::string> WeightStore::tiedNames(size_t index) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size(); ++i)
    if (i != index && list[i].owner == list[index].owner)
      names.push_back(list[i].name);
  return names;
}

StatusOr<WeightBytes> WeightStore::load(const WeightEntry &entry) const {
  const WeightEntry &owner = list[entry.owner];
  if (!owner.read)
    return internalFault("tensor '" + entry.name + "' has no value to load");
  StatusOr<WeightBytes> value = owner.read();
  if (value.ok() && value->bytes != entry.bytes())
    return internalFault(
        "tensor '" + entry.name + "' has " + std::to_string(value->bytes) +
        " bytes, but expected " + std::to_string(entry.bytes()));
  return value;
}

Status WeightStore::add(WeightEntry entry) {
  if (!byName.emplace(entry.name, list.size()).second)
    return inputError("tensor '" + entry.name + "' is there twice");
  entry.owner = list.size();
  list.push_back(std::move(entry));
  return Status::success();
}

Status WeightStore::tie(const std::string &owner, const std::string &name) {
  for (const std::string &side : {owner, name})
    if (!byName.count(side) ||
        list[byName[side]].role != WeightEntry::Role::Parameter)
      return inputError("the model has no parameter '" + side + "'")
          .remedy("lockstep-inspect lists the parameters' names");
  size_t a = list[byName[owner]].owner, b = list[byName[name]].owner;
  if (a == b)
    return Status::success();
  if (list[a].dtype != list[b].dtype || list[a].shape != list[b].shape)
    return inputError("'" + owner + "' and '" + name +
                      "' cannot be tied: their shapes or dtypes differ");
  if (b < a)
    std::swap(a, b);
  for (WeightEntry &entry : list)
    if (entry.owner == b)
      entry.owner = a;
  return Status::success();
}

StatusOr<InitRule> lockstep::parseInitRule(const std::string &text) {
  size_t colon = text.find(':');
  std::string kind = text.substr(0, colon);
  std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  char *end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  bool isNumber =
      !number.empty() && *end == '\0' && std::isfinite(value) && value >= 0;
  if (kind == "normal" && isNumber)
    return InitRule{InitRule::Kind::Normal, 0, value};
  if (kind == "uniform" && isNumber)
    return InitRule{InitRule::Kind::Uniform, -value, value};
  return usageError("--init '" + text + "' is not understood; expected " +
                    "normal:STD or uniform:BOUND, such as normal:0.02");
}

//===-- Conversion --------------------------------------------------------===//

static float floatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
static uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float fromHalf(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = half >> 10 & 0x1f,
           mantissa = half & 0x3ff;
  if (exponent == 0) // zero or subnormal: mantissa * 2^-24
    return floatFromBits(bitsOfFloat(std::ldexp(float(mantissa), -24)) | sign);
  if (exponent == 31)
    return floatFromBits(sign | 0x7f800000 | mantissa << 13);
  return floatFromBits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Rounds to nearest, ties to even.
static uint16_t toHalf(float value) {
  uint32_t bits = bitsOfFloat(value), magnitude = bits & 0x7fffffff;
  uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  if (magnitude >= 0x7f800000)
    return sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 : 0);
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00;
  if (magnitude < 0x38800000) // below the smallest normal number
    return sign |
           uint16_t(std::nearbyint(std::ldexp(floatFromBits(magnitude), 24)));
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | uint16_t((rounded - 0x38000000) >> 13);
}

static uint16_t toBFloat16(float value) {
  uint32_t bits = bitsOfFloat(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T> static T loadAs(const std::byte *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

static double loadFloat(const std::byte *data, DType dtype) {
  switch (dtype) {
  case DType::F16:
    return fromHalf(loadAs<uint16_t>(data));
  case DType::BF16:
    return floatFromBits(uint32_t(loadAs<uint16_t>(data)) << 16);
  case DType::F32:
    return loadAs<float>(data);
  default:
    return loadAs<double>(data);
  }
}

static void storeFloat(std::byte *data, DType dtype, double value) {
  if (dtype == DType::F64) {
    std::memcpy(data, &value, sizeof(value));
  } else if (dtype == DType::F32) {
    float narrow = float(value);
    std::memcpy(data, &narrow, sizeof(narrow));
  } else {
    uint16_t bits =
        dtype == DType::F16 ? toHalf(float(value)) : toBFloat16(float(value));
    std::memcpy(data, &bits, sizeof(bits));
  }
}

std::optional<std::vector<std::byte>>
lockstep::convertFloats(const std::byte *data, uint64_t elements, DType from,
                        DType to) {
  auto isFloat = [](DType dtype) {
    return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 ||
           dtype == DType::F64;
  };
  if (!isFloat(from) || !isFloat(to))
    return std::nullopt;
  std::vector<std::byte> result(elements * dtypeSize(to));
  for (uint64_t i = 0; i < elements; ++i)
    storeFloat(result.data() + i * dtypeSize(to), to,
               loadFloat(data + i * dtypeSize(from), from));
  return result;
}
