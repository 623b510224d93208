//===- KeyBias.cpp - What is added to the scores of a key -----------------===//
#include "compiler/emit/nvptx/attention/KeyBias.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

// Probabilities are exp2(fma(s, scale, -(max scale))), where the second product
// is rounded: with numbers so much larger than 2^27 that the rounding is more
// than 127, they would be infinite.
static Value getUnscaled(AttentionBuilder &b, Value added, Value scale) {
  Value least = b.constantF32(-0x1p27);
  Value hides = b.equalF32(added, b.constantF32(-INFINITY));
  Value bounded = b.select(b.lessF32(added, least), least, added);
  return LLVM::FDivOp::create(b, b.select(hides, added, bounded), scale);
}

Value attention::loadMaskElement(AttentionBuilder &b, MaskElement element,
                                 Value mask, Value index, Value scale) {
  auto load = [&](Type type, unsigned bytes) {
    return b.load(b.element(mask, index, type), type, bytes,
                  /*invariant=*/true);
  };
  auto widen = [&](Value narrow) {
    return LLVM::ZExtOp::create(b, b.getI32Type(), narrow);
  };
  switch (element) {
  case MaskElement::Boolean:
    return b.lessThan(b.constant(0), widen(load(b.getI8Type(), 1)));
  case MaskElement::F32:
    return getUnscaled(b, load(b.getF32Type(), 4), scale);
  case MaskElement::BFloat16:
    return getUnscaled(b, b.unpackLow(widen(load(b.getI16Type(), 2))), scale);
  }
  llvm_unreachable("a mask of no element");
}

Value attention::getKeyBias(AttentionBuilder &b, Value keyBias, Value batch,
                            Value keys, Value key) {
  Value padded = b.bitAnd(b.add(keys, keyPadding - 1), -keyPadding);
  return b.element(keyBias, b.add(b.multiply(batch, padded), key),
                   b.getF32Type());
}

void attention::copyKeyBias(AttentionBuilder &b, Value source, Value target,
                            int bytes, Value barrier) {
  b.copyBytes(target, source, bytes, barrier);
}

Values attention::addKeyBias(BlockFrame &frame, const Consumer &self,
                             ArrayRef<Value> scores, Value bias) {
  AttentionBuilder &b = frame.b;
  Value column = b.add(bias, b.shiftLeft(self.column, 2));
  Values sums;
  for (size_t i = 0; i < scores.size(); i += 4) {
    Values pair = b.loadSharedPair(b.add(column, int64_t(8) * i));
    for (int j = 0; j < 4; ++j)
      sums.push_back(b.addF32(scores[i + j], pair[j % 2]));
  }
  return sums;
}

//===----------------------------------------------------------------------===//
// From a mask
//===----------------------------------------------------------------------===//

namespace {
/// The kernel's arguments, in order.
struct KeyBiasArguments {
  Value mask, keyBias, rows, keys, paddedKeys, batchStride, scale;
};
} // namespace

/// The bias of a key that is there.
static Value loadBias(AttentionBuilder &b, const KeyBiasArguments &arguments,
                      MaskElement element, Value batch, Value key) {
  Value index = LLVM::MulOp::create(b, b.extend(batch), arguments.batchStride);
  index = LLVM::AddOp::create(b, index, b.extend(key));
  Value loaded =
      loadMaskElement(b, element, arguments.mask, index, arguments.scale);
  if (element != MaskElement::Boolean)
    return loaded;
  return b.select(loaded, b.constantF32(0), b.constantF32(-INFINITY));
}

LogicalResult attention::buildKeyBiasKernel(ModuleOp module,
                                            MaskElement element,
                                            llvm::StringRef symbol) {
  AttentionBuilder b(module.getLoc(), module.getContext());
  KeyBiasArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::ReadOnly, &a.mask},
                {ArgumentKind::Memory, &a.keyBias},
                {ArgumentKind::Number, &a.rows},
                {ArgumentKind::Number, &a.keys},
                {ArgumentKind::Number, &a.paddedKeys},
                {ArgumentKind::Wide, &a.batchStride},
                {ArgumentKind::Scalar, &a.scale}},
               keyBiasThreads);
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Value block = NVVM::BlockIdXOp::create(b, i32);
  Value row = b.add(b.multiply(block, keyBiasThreads),
                    NVVM::ThreadIdXOp::create(b, i32));
  b.ifThen(b.lessThan(row, a.rows), [&] {
    Value batch = b.divideUnsigned(row, a.paddedKeys);
    Value key = b.subtract(row, b.multiply(batch, a.paddedKeys));
    Value bias = b.ifThenElse(
        b.lessThan(key, a.keys), f32,
        [&]() -> Values { return {loadBias(b, a, element, batch, key)}; },
        [&]() -> Values { return {b.constantF32(-INFINITY)}; })[0];
    b.store(bias, b.element(a.keyBias, row, f32), 4);
  });
  LLVM::ReturnOp::create(b, ValueRange());
  return success();
}
