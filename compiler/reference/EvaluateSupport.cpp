//===- EvaluateSupport.cpp - Shared pieces of the reference evaluation
//----------===//
#include "compiler/reference/EvaluateSupport.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep {

namespace {

/// An element of 2^k bytes that is only moved.
template <int bytes> struct Opaque {
  char data[bytes];
};

} // namespace

template <typename T>
static void copyStrided(const char *source, char *target,
                        ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  if (shape.empty()) {
    std::memcpy(target, source, sizeof(T));
    return;
  }
  // All but the last dimension by index, the last by a plain loop.
  int64_t count = shape.back(), step = strides.back() * int64_t(sizeof(T));
  forEachIndex(shape.drop_back(), [&](int64_t row, ArrayRef<int64_t> index) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i)
      offset += index[i] * strides[i];
    const char *from = source + offset * int64_t(sizeof(T));
    char *to = target + row * count * int64_t(sizeof(T));
    for (int64_t i = 0; i < count; ++i, from += step, to += sizeof(T))
      std::memcpy(to, from, sizeof(T));
  });
}

HostTensor readStrided(const HostTensor &source, ArrayRef<int64_t> shape,
                       int64_t offset, ArrayRef<int64_t> strides) {
  auto type = RankedTensorType::get(shape, source.getElementType());
  if (source.isSplat())
    return source.resizeSplat(shape);
  int64_t size = HostTensor::getElementBytes(source.getElementType());
  std::vector<char> bytes(type.getNumElements() * size);
  const char *from = source.getData() + offset * size;
  switch (size) {
  case 1:
    copyStrided<Opaque<1>>(from, bytes.data(), shape, strides);
    break;
  case 2:
    copyStrided<Opaque<2>>(from, bytes.data(), shape, strides);
    break;
  case 4:
    copyStrided<Opaque<4>>(from, bytes.data(), shape, strides);
    break;
  default:
    copyStrided<Opaque<8>>(from, bytes.data(), shape, strides);
  }
  return HostTensor::copy(type, bytes);
}

HostTensor transpose(const HostTensor &source, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> from = getRowMajorStrides(source.getShape()), shape,
                       strides;
  for (int64_t i : permutation) {
    shape.push_back(source.getDimSize(i));
    strides.push_back(from[i]);
  }
  return readStrided(source, shape, 0, strides);
}

HostTensor concatenate(ArrayRef<HostTensor> parts, int64_t dim) {
  SmallVector<int64_t> shape(parts.front().getShape());
  for (const HostTensor &part : parts.drop_front())
    shape[dim] += part.getDimSize(dim);
  auto type = RankedTensorType::get(shape, parts.front().getElementType());
  AroundDimension to(shape, dim);
  int64_t size = HostTensor::getElementBytes(type.getElementType()), start = 0;
  std::vector<char> bytes(type.getNumElements() * size);
  for (const HostTensor &maybeSplat : parts) {
    HostTensor part = maybeSplat.expand();
    AroundDimension from(part.getShape(), dim);
    int64_t block = from.size * from.inner * size;
    for (int64_t o = 0; o < from.outer && block; ++o)
      std::memcpy(&bytes[to.at(o, 0, start) * size], part.getData() + o * block,
                  block);
    start += from.size;
  }
  return HostTensor::copy(type, bytes);
}

HostTensor getBlock(const HostTensor &tensor, int64_t dim, int64_t place,
                    int64_t count) {
  SmallVector<int64_t> shape(tensor.getShape()),
      strides = getRowMajorStrides(shape);
  shape[dim] /= count;
  return readStrided(tensor, shape, place * shape[dim] * strides[dim], strides);
}

double getNeutralDouble(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Product:
    return 1;
  case ReduceKind::Max:
    return -std::numeric_limits<double>::infinity();
  case ReduceKind::Min:
    return std::numeric_limits<double>::infinity();
  default:
    return 0;
  }
}

int64_t getNeutralInt(ReduceKind kind, Type type) {
  auto integer = cast<IntegerType>(type);
  // i1 and ui8 are read as unsigned numbers.
  bool isUnsigned = integer.isUnsigned() || integer.getWidth() == 1;
  unsigned width = integer.getWidth();
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Or:
    return 0;
  case ReduceKind::Product:
    return 1;
  case ReduceKind::And:
    return width == 1 ? 1 : -1;
  case ReduceKind::Max:
    return isUnsigned ? 0 : APInt::getSignedMinValue(width).getSExtValue();
  case ReduceKind::Min:
    return isUnsigned ? APInt::getMaxValue(width).getZExtValue()
                      : APInt::getSignedMaxValue(width).getSExtValue();
  }
  llvm_unreachable("all kinds are handled");
}

double combine(ReduceKind kind, double a, double b) {
  switch (kind) {
  case ReduceKind::Sum:
    return a + b;
  case ReduceKind::Product:
    return a * b;
  case ReduceKind::Max:
    return std::isnan(a) || a > b ? a : b;
  case ReduceKind::Min:
    return std::isnan(a) || a < b ? a : b;
  case ReduceKind::And:
    return a != 0 && b != 0;
  case ReduceKind::Or:
    return a != 0 || b != 0;
  }
  llvm_unreachable("all kinds are handled");
}

int64_t combine(ReduceKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ReduceKind::Sum:
    return int64_t(uint64_t(a) + uint64_t(b));
  case ReduceKind::Product:
    return int64_t(uint64_t(a) * uint64_t(b));
  case ReduceKind::Max:
    return std::max(a, b);
  case ReduceKind::Min:
    return std::min(a, b);
  case ReduceKind::And:
    return a & b;
  case ReduceKind::Or:
    return a | b;
  }
  llvm_unreachable("all kinds are handled");
}

} // namespace lockstep
