//===- MmaStore.cpp - From sums to memory ---------------------------------===//
#include "compiler/emit/nvptx/gemm/Activation.h"
#include "compiler/emit/nvptx/gemm/mma/MmaParts.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// Two neighbouring elements of D.
using Pair = SmallVector<Value>;

static Pair unpack(KernelBuilder &b, Value packed) {
  return {b.unpackLow(packed), b.unpackHigh(packed)};
}

static Pair loadPacked(KernelBuilder &b, Value base, Value offset) {
  Value pointer = b.element(base, offset, b.getI16Type());
  return unpack(b, b.load(pointer, b.getI32Type(), 4));
}

static void storePacked(KernelBuilder &b, Value base, Value offset, Pair pair) {
  b.store(b.packBFloat16(pair[0], pair[1]),
          b.element(base, offset, b.getI16Type()), 4);
}

static void storeFloat32(KernelBuilder &b, Value base, Value offset, Pair pair,
                         bool accumulates) {
  auto two = VectorType::get(2, b.getF32Type());
  Value pointer = b.element(base, offset, b.getF32Type());
  if (accumulates) {
    Value old = b.load(pointer, two, 8);
    for (int i = 0; i < 2; ++i)
      pair[i] = b.addF32(pair[i], b.extractElement(old, i));
  }
  Value vector = LLVM::UndefOp::create(b, two);
  for (int i = 0; i < 2; ++i)
    vector = LLVM::InsertElementOp::create(b, vector, pair[i], b.constant(i));
  b.store(vector, pointer, 8);
}

/// The epilogue of two neighbours, as in GemmConfig.h.
static void storePair(KernelBuilder &b, const MmaConfig &config,
                      const MmaOutput &output, Value offset, Value column,
                      Pair pair) {
  if (config.output != Output::BFloat16)
    return storeFloat32(b, output.d, offset, pair,
                        config.output == Output::Float32Accumulate);
  auto add = [&](const Pair &other) {
    for (int i = 0; i < 2; ++i)
      pair[i] = b.addF32(pair[i], other[i]);
  };
  if (config.bias) {
    Value wide = LLVM::ZExtOp::create(b, b.getI64Type(), column);
    add(loadPacked(b, output.bias, wide));
  }
  if (config.side == Side::SavePreactivation)
    storePacked(b, output.side, offset, pair);
  if (config.side == Side::ActivationGradient) {
    Pair slopes = emitActivationGradient(b, config.activation,
                                         loadPacked(b, output.side, offset));
    for (int i = 0; i < 2; ++i)
      pair[i] = b.multiplyF32(pair[i], slopes[i]);
  } else {
    pair = emitActivation(b, config.activation, pair);
  }
  if (config.side == Side::AddResidual)
    add(loadPacked(b, output.side, offset));
  storePacked(b, output.d, offset, pair);
}

void gemm::storeProduct(KernelBuilder &b, const MmaConfig &config,
                        const MmaOutput &output, int row, int column,
                        ArrayRef<Value> sums) {
  Type i64 = b.getI64Type();
  Value laneColumn = b.shiftLeft(b.bitAnd(output.lane, 3), 1);
  Value at = b.add(b.add(output.firstColumn, column), laneColumn);
  Value line = b.add(b.add(output.firstRow, row), b.shiftRight(output.lane, 2));
  for (int half = 0; half < 2; ++half) {
    Value halfLine = b.add(line, 8 * half);
    // An odd last column's neighbour is padding: leading dimensions are even.
    Value isInside = b.both(b.lessThan(halfLine, output.rows),
                            b.lessThan(at, output.columns));
    b.ifThen(isInside, [&] {
      Value offset = LLVM::MulOp::create(
          b, LLVM::ZExtOp::create(b, i64, halfLine), output.leading);
      offset = LLVM::AddOp::create(b, offset, LLVM::ZExtOp::create(b, i64, at));
      storePair(b, config, output, offset, at,
                {sums[2 * half], sums[2 * half + 1]});
    });
  }
}
