//===- HostTensor.cpp - A tensor's value in memory
//------------------------------===//
#include "compiler/reference/HostTensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace lockstep {

//===--- Storage of one element type ---===//

namespace {

enum class Storage { F64, F32, F16, BF16, I64, I32, I16, I8, UI8, I1 };

/// 16-bit floats, read and written through exact conversions from and to
/// double.
template <int Mantissa, int MinExponent, int MaxExponent>
double roundToFormat(double value) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent = std::max(std::ilogb(value), MinExponent);
  // Scaling by a power of two is exact, so the only rounding is nearbyint's, to
  // even.
  double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, Mantissa - exponent)),
                 exponent - Mantissa);
  double limit = std::ldexp(2 - std::ldexp(1.0, -Mantissa), MaxExponent);
  return std::fabs(rounded) > limit
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : rounded;
}

double roundToHalf(double value) { return roundToFormat<10, -14, 15>(value); }
double roundToBfloat(double value) {
  return roundToFormat<7, -126, 127>(value);
}

struct Bfloat {
  uint16_t bits;
  static Bfloat from(double value) {
    float exact = float(roundToBfloat(value));
    uint32_t word;
    std::memcpy(&word, &exact, 4);
    if (std::isnan(exact))
      word |= 0x00400000; // Stays a NaN without its low half.
    return {uint16_t(word >> 16)};
  }
  double get() const {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

struct Half {
  uint16_t bits;
  static Half from(double value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value))
      return {uint16_t(sign | 0x7e00)};
    double magnitude = std::fabs(roundToHalf(value));
    if (std::isinf(magnitude))
      return {uint16_t(sign | 0x7c00)};
    int exponent = magnitude == 0 ? -15 : std::ilogb(magnitude);
    if (exponent < -14) // Zero and subnormals: multiples of 2^-24.
      return {uint16_t(sign | uint16_t(std::ldexp(magnitude, 24)))};
    uint16_t mantissa = uint16_t(std::ldexp(magnitude, 10 - exponent)) & 0x3ff;
    return {uint16_t(sign | (exponent + 15) << 10 | mantissa)};
  }
  double get() const {
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 0x3ff, magnitude;
    if (exponent == 31)
      magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                           : std::numeric_limits<double>::infinity();
    else
      magnitude = exponent ? std::ldexp(mantissa + 1024, exponent - 25)
                           : std::ldexp(mantissa, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
  }
};

/// i1, a byte that is 0 or 1.
struct Bit {
  uint8_t value;
};

template <typename To, typename T> To load(T v) { return To(v); }
template <typename To> To load(Bfloat v) { return To(v.get()); }
template <typename To> To load(Half v) { return To(v.get()); }
template <typename To> To load(Bit v) { return To(v.value != 0); }

/// Conversion out of range is undefined in C++; this gives what x86's
/// instruction gives.
int64_t truncateToInt(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? int64_t(v)
                                    : std::numeric_limits<int64_t>::min();
}

template <typename T, typename From> struct Store {
  static T apply(From v) {
    if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>)
      return T(truncateToInt(v));
    else
      return T(v);
  }
};
template <typename From> struct Store<Bfloat, From> {
  static Bfloat apply(From v) { return Bfloat::from(double(v)); }
};
template <typename From> struct Store<Half, From> {
  static Half apply(From v) { return Half::from(double(v)); }
};
template <typename From> struct Store<Bit, From> {
  static Bit apply(From v) { return {uint8_t(v != 0)}; }
};

} // namespace

static Storage getStorage(Type type) {
  if (type.isF64())
    return Storage::F64;
  if (type.isF32())
    return Storage::F32;
  if (type.isF16())
    return Storage::F16;
  if (type.isBF16())
    return Storage::BF16;
  auto integer = cast<IntegerType>(type);
  switch (integer.getWidth()) {
  case 1:
    return Storage::I1;
  case 8:
    return integer.isUnsigned() ? Storage::UI8 : Storage::I8;
  case 16:
    return Storage::I16;
  case 32:
    return Storage::I32;
  default:
    assert(integer.getWidth() == 64 &&
           "not an element type of the train dialect");
    return Storage::I64;
  }
}

/// Calls `f` with a null pointer to the C++ type that stores `type`.
template <typename F> static auto dispatch(Type type, F f) {
  switch (getStorage(type)) {
  case Storage::F64:
    return f(static_cast<double *>(nullptr));
  case Storage::F32:
    return f(static_cast<float *>(nullptr));
  case Storage::F16:
    return f(static_cast<Half *>(nullptr));
  case Storage::BF16:
    return f(static_cast<Bfloat *>(nullptr));
  case Storage::I64:
    return f(static_cast<int64_t *>(nullptr));
  case Storage::I32:
    return f(static_cast<int32_t *>(nullptr));
  case Storage::I16:
    return f(static_cast<int16_t *>(nullptr));
  case Storage::I8:
    return f(static_cast<int8_t *>(nullptr));
  case Storage::UI8:
    return f(static_cast<uint8_t *>(nullptr));
  case Storage::I1:
    return f(static_cast<Bit *>(nullptr));
  }
  llvm_unreachable("all storages are handled");
}

static std::shared_ptr<char> allocate(int64_t bytes) {
  return std::shared_ptr<char>(
      static_cast<char *>(std::malloc(std::max<int64_t>(bytes, 1))), std::free);
}

/// Elements of `type` from numbers.
template <typename From>
static std::shared_ptr<const char> encode(Type type, ArrayRef<From> values) {
  std::shared_ptr<char> bytes =
      allocate(values.size() * HostTensor::getElementBytes(type));
  dispatch(type, [&](auto *null) {
    using T = std::remove_pointer_t<decltype(null)>;
    T *out = reinterpret_cast<T *>(bytes.get());
    for (size_t i = 0, e = values.size(); i < e; ++i)
      out[i] = Store<T, From>::apply(values[i]);
  });
  return bytes;
}

template <typename To>
static To decodeOne(Type type, const char *data, int64_t i) {
  return dispatch(type, [&](auto *null) -> To {
    using T = std::remove_pointer_t<decltype(null)>;
    T element;
    std::memcpy(&element, data + i * int64_t(sizeof(T)), sizeof(T));
    if constexpr (std::is_same_v<To, int64_t> && !std::is_integral_v<T> &&
                  !std::is_same_v<T, Bit>)
      return truncateToInt(load<double>(element));
    else
      return load<To>(element);
  });
}

template <typename To>
static std::vector<To> decode(Type type, const char *data, int64_t count) {
  std::vector<To> result(count);
  dispatch(type, [&](auto *null) {
    using T = std::remove_pointer_t<decltype(null)>;
    for (int64_t i = 0; i < count; ++i) {
      T element; // Wrapped bytes of a file need not be aligned.
      std::memcpy(&element, data + i * int64_t(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<To, int64_t> && !std::is_integral_v<T> &&
                    !std::is_same_v<T, Bit>)
        result[i] = truncateToInt(load<double>(element));
      else
        result[i] = load<To>(element);
    }
  });
  return result;
}

//===--- HostTensor ---===//

int64_t HostTensor::getElementBytes(Type type) {
  return dispatch(type, [](auto *null) { return int64_t(sizeof(*null)); });
}

HostTensor::HostTensor(RankedTensorType type, std::shared_ptr<const char> bytes,
                       bool splatted)
    : elementType(type.getElementType()), shape(type.getShape()),
      bytes(std::move(bytes)), splatted(splatted) {}

HostTensor HostTensor::splat(RankedTensorType type, double value) {
  return HostTensor(type, encode(type.getElementType(), ArrayRef(value)),
                    /*splatted=*/true);
}

HostTensor HostTensor::copy(RankedTensorType type, ArrayRef<char> data) {
  std::shared_ptr<char> bytes = allocate(data.size());
  std::memcpy(bytes.get(), data.data(), data.size());
  HostTensor result(type, bytes, /*splatted=*/false);
  assert(result.getNumBytes() == int64_t(data.size()) &&
         "expected the tensor's bytes");
  return result;
}

HostTensor HostTensor::wrap(RankedTensorType type,
                            std::shared_ptr<const char> bytes) {
  return HostTensor(type, std::move(bytes), /*splatted=*/false);
}

HostTensor HostTensor::fromDoubles(RankedTensorType type,
                                   ArrayRef<double> values) {
  assert(int64_t(values.size()) == type.getNumElements() &&
         "expected one value per element");
  return HostTensor(type, encode(type.getElementType(), values),
                    /*splatted=*/false);
}

HostTensor HostTensor::fromInts(RankedTensorType type,
                                ArrayRef<int64_t> values) {
  assert(int64_t(values.size()) == type.getNumElements() &&
         "expected one value per element");
  return HostTensor(type, encode(type.getElementType(), values),
                    /*splatted=*/false);
}

FailureOr<HostTensor> HostTensor::fromAttr(ElementsAttr attr) {
  auto type = cast<RankedTensorType>(attr.getShapedType());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || blob->getData().size() !=
                     size_t(type.getNumElements() *
                            getElementBytes(type.getElementType())))
      return failure();
    return copy(type, blob->getData());
  }
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense)
    return failure();
  Type element = type.getElementType();
  if (dense.isSplat() && type.getNumElements() > 0) {
    if (isa<FloatType>(element))
      return splat(type, dense.getSplatValue<APFloat>().convertToDouble());
    APInt value = dense.getSplatValue<APInt>();
    int64_t number = element.isUnsignedInteger() || element.isInteger(1)
                         ? value.getZExtValue()
                         : value.getSExtValue();
    return HostTensor(type, encode(element, ArrayRef(number)),
                      /*splatted=*/true);
  }
  if (element.isInteger(1)) {
    SmallVector<int64_t> values = llvm::map_to_vector(
        dense.getValues<bool>(), [](bool v) { return int64_t(v); });
    return fromInts(type, values);
  }
  return copy(type, dense.getRawData());
}

int64_t HostTensor::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t HostTensor::getNumBytes() const {
  return getNumElements() * getElementBytes(elementType);
}

HostTensor HostTensor::expand() const {
  if (!splatted)
    return *this;
  int64_t size = getElementBytes(elementType), count = getNumElements();
  std::shared_ptr<char> all = allocate(size * count);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(all.get() + i * size, bytes.get(), size);
  return HostTensor(getType(), all, /*splatted=*/false);
}

HostTensor HostTensor::reshape(ArrayRef<int64_t> newShape) const {
  HostTensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  assert(result.getNumElements() == getNumElements() &&
         "expected as many elements");
  return result;
}

HostTensor HostTensor::resizeSplat(ArrayRef<int64_t> newShape) const {
  assert((splatted || getNumElements() == 1) && "expected one value");
  HostTensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  result.splatted = true;
  return result;
}

std::vector<double> HostTensor::toDoubles() const {
  if (splatted)
    return std::vector<double>(getNumElements(), getDouble(0));
  return decode<double>(elementType, bytes.get(), getNumElements());
}

std::vector<int64_t> HostTensor::toInts() const {
  if (splatted)
    return std::vector<int64_t>(getNumElements(), getInt(0));
  return decode<int64_t>(elementType, bytes.get(), getNumElements());
}

double HostTensor::getDouble(int64_t i) const {
  return decodeOne<double>(elementType, bytes.get(), splatted ? 0 : i);
}
int64_t HostTensor::getInt(int64_t i) const {
  return decodeOne<int64_t>(elementType, bytes.get(), splatted ? 0 : i);
}

DenseElementsAttr HostTensor::toAttr() const {
  RankedTensorType type = getType();
  if (elementType.isInteger(1)) {
    SmallVector<bool> values;
    for (int64_t i = 0, e = splatted ? 1 : getNumElements(); i < e; ++i)
      values.push_back(getInt(i) != 0);
    return DenseElementsAttr::get(type, values);
  }
  int64_t size = getElementBytes(elementType);
  return DenseElementsAttr::getFromRawBuffer(
      type, ArrayRef(bytes.get(), splatted ? size : size * getNumElements()));
}

double roundToFloatType(double value, Type type) {
  if (type.isF32())
    return float(value);
  if (type.isF16())
    return roundToHalf(value);
  return type.isBF16() ? roundToBfloat(value) : value;
}

SmallVector<int64_t> getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

} // namespace lockstep
