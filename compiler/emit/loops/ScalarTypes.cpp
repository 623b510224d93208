//===- ScalarTypes.cpp - Storage, conversion, indices, random numbers -----===//
#include "compiler/emit/loops/ScalarOps.h"
#include <cmath>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using FP = arith::CmpFPredicate;
using IP = arith::CmpIPredicate;

Type emit::getComputeType(Type element) {
  if (element.isF16() || element.isBF16())
    return Float32Type::get(element.getContext());
  if (auto integer = dyn_cast<IntegerType>(element))
    return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

Type emit::getStorageType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  return element.isF16() ? element : getComputeType(element);
}

/// The f32 with these bits of bf16. By shifts where the processor may lack the
/// conversion, for which LLVM would call a library.
static Value fromBF16Bits(ScalarBuilder &b, Value bits) {
  if (b.hardware.roundsToBF16)
    return b.create<arith::ExtFOp>(b.builder.getF32Type(),
                                   b.fromBits(bits, b.builder.getBF16Type()));
  Value wide = b.create<arith::ExtUIOp>(b.builder.getI32Type(), bits);
  return b.fromBits(b.shiftLeft(wide, 16), b.builder.getF32Type());
}

static Value toBF16Bits(ScalarBuilder &b, Value value) {
  if (b.hardware.roundsToBF16)
    return b.bits(b.create<arith::TruncFOp>(b.builder.getBF16Type(), value));
  Type i32 = b.builder.getI32Type(), i16 = b.builder.getI16Type();
  Value bits = b.bits(value);
  Value odd = b.create<arith::AndIOp>(
      b.create<arith::ShRUIOp>(bits, b.integer(i32, 16)), b.integer(i32, 1));
  Value rounded = b.addInt(b.addInt(bits, b.integer(i32, 0x7FFF)), odd);
  // NaN must not round to infinity.
  Value quiet = b.create<arith::OrIOp>(bits, b.integer(i32, 0x400000));
  Value chosen = b.select(b.isNaN(value), quiet, rounded);
  return b.create<arith::TruncIOp>(
      i16, b.create<arith::ShRUIOp>(chosen, b.integer(i32, 16)));
}

Value emit::fromStorage(ScalarBuilder &b, Value stored, Type element) {
  if (element.isInteger(1))
    return b.compare(IP::ne, stored, b.integer(stored.getType(), 0));
  if (element.isBF16())
    return fromBF16Bits(b, stored);
  return element.isF16()
             ? b.create<arith::ExtFOp>(b.builder.getF32Type(), stored)
             : stored;
}

Value emit::toStorage(ScalarBuilder &b, Value value, Type element) {
  if (element.isInteger(1))
    return b.create<arith::ExtUIOp>(b.builder.getI8Type(), value);
  if (element.isBF16())
    return toBF16Bits(b, value);
  return element.isF16() ? b.create<arith::TruncFOp>(element, value) : value;
}

Value emit::roundTo(ScalarBuilder &b, Value value, Type element) {
  if (!element.isF16() && !element.isBF16())
    return value;
  return fromStorage(b, toStorage(b, value, element), element);
}

Value emit::getScalarConstant(ScalarBuilder &b, Attribute value, Type element) {
  Type type = getComputeType(element);
  if (auto number = dyn_cast<FloatAttr>(value))
    return b.constant(type, number.getValueAsDouble());
  APInt bits = cast<IntegerAttr>(value).getValue();
  return b.create<arith::ConstantOp>(IntegerAttr::get(type, bits));
}

static bool isUnsigned(Type element) {
  return element.isUnsignedInteger() || element.isInteger(1);
}

Value emit::convertScalar(ScalarBuilder &b, Value value, Type from, Type to) {
  Type type = getComputeType(to);
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (to.isInteger(1)) {
    if (from.isInteger(1))
      return value;
    return fromFloat ? b.compare(FP::UNE, value, 0.0)
                     : b.compare(IP::ne, value, b.integer(value.getType(), 0));
  }
  if (fromFloat && toFloat) {
    unsigned before = value.getType().getIntOrFloatBitWidth(),
             after = type.getIntOrFloatBitWidth();
    if (before < after)
      value = b.create<arith::ExtFOp>(type, value);
    else if (before > after)
      value = b.create<arith::TruncFOp>(type, value);
    return roundTo(b, value, to);
  }
  if (toFloat) {
    value = isUnsigned(from) ? b.create<arith::UIToFPOp>(type, value)
                             : b.create<arith::SIToFPOp>(type, value);
    return roundTo(b, value, to);
  }
  if (fromFloat)
    return isUnsigned(to) ? b.create<arith::FPToUIOp>(type, value)
                          : b.create<arith::FPToSIOp>(type, value);
  unsigned before = value.getType().getIntOrFloatBitWidth(),
           after = type.getIntOrFloatBitWidth();
  if (before == after)
    return value;
  if (before > after)
    return b.create<arith::TruncIOp>(type, value);
  return isUnsigned(from) ? b.create<arith::ExtUIOp>(type, value)
                          : b.create<arith::ExtSIOp>(type, value);
}

Value emit::clampIndex(ScalarBuilder &b, Value x, Type element, int64_t size) {
  Value wide = convertScalar(b, x, element, b.builder.getI64Type());
  return b.create<arith::MinSIOp>(b.create<arith::MaxSIOp>(wide, b.i64(0)),
                                  b.i64(size - 1));
}

Value emit::emitKeep(ScalarBuilder &b, Value seed, Value step, int64_t id,
                     Value index, double rate) {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  auto low = [&](Value v) { return b.create<arith::TruncIOp>(i32, v); };
  auto high = [&](Value v) {
    return b.create<arith::TruncIOp>(i32,
                                     b.create<arith::ShRUIOp>(v, b.i64(32)));
  };
  auto exclusiveOr = [&](Value x, Value y) {
    return b.create<arith::XOrIOp>(x, y);
  };
  auto product = [&](uint32_t factor, Value x) {
    return b.create<arith::MulIOp>(b.create<arith::ExtUIOp>(i64, x),
                                   b.i64(factor));
  };
  Value block = b.create<arith::ShRUIOp>(index, b.i64(2));
  Value c0 = low(block), c1 = high(block), c2 = low(step), c3 = high(step);
  Value key0 = low(seed),
        key1 = exclusiveOr(high(seed), b.integer(i32, int64_t(uint32_t(id))));
  for (uint32_t round = 0; round < 10; ++round) {
    Value x = product(0xD2511F53, c0), y = product(0xCD9E8D57, c2);
    Value k0 =
        b.addInt(key0, b.integer(i32, int64_t(uint32_t(0x9E3779B9 * round))));
    Value k1 =
        b.addInt(key1, b.integer(i32, int64_t(uint32_t(0xBB67AE85 * round))));
    c0 = exclusiveOr(exclusiveOr(high(y), c1), k0);
    Value next2 = exclusiveOr(exclusiveOr(high(x), c3), k1);
    c1 = low(y);
    c2 = next2;
    c3 = low(x);
  }
  Value word = low(index);
  auto bit = [&](int64_t mask) {
    return b.compare(IP::ne,
                     b.create<arith::AndIOp>(word, b.integer(i32, mask)),
                     b.integer(i32, 0));
  };
  Value odd = bit(1), upper = bit(2);
  Value chosen = b.select(upper, b.select(odd, c3, c2), b.select(odd, c1, c0));
  // word * 2^-32 >= rate, exactly. rate < 1, so the threshold fits unless
  // rounding makes it 2^32, which keeps nothing.
  double threshold = std::ceil(rate * 0x1p32);
  if (threshold >= 0x1p32)
    return b.create<arith::ConstantOp>(b.builder.getBoolAttr(false));
  return b.compare(IP::uge, chosen, b.integer(i32, int64_t(threshold)));
}
