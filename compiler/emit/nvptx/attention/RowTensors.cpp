//===- RowTensors.cpp - Rows of strided tensors ---------------------------===//
#include "compiler/emit/nvptx/attention/RowTensors.h"
#include "compiler/emit/nvptx/attention/AttentionConfig.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

Value attention::getRowPointer(AttentionBuilder &b, const RowTensor &tensor,
                               Value row, Value head, Value batch) {
  Value offset = LLVM::MulOp::create(b, b.extend(batch), tensor.batchStride);
  for (auto [index, stride] :
       {std::pair{head, tensor.headStride}, std::pair{row, tensor.rowStride}})
    offset = LLVM::AddOp::create(
        b, offset, LLVM::MulOp::create(b, b.extend(index), stride));
  return b.element(tensor.data, offset, b.getI16Type());
}

Value attention::addProducts(AttentionBuilder &b, Value sum, Value pointerA,
                             Value pointerB) {
  auto four = VectorType::get(4, b.getI32Type());
  Value a = b.load(pointerA, four, 16, /*invariant=*/true);
  Value other = b.load(pointerB, four, 16, /*invariant=*/true);
  for (int i = 0; i < 4; ++i) {
    Value x = b.extractElement(a, i), y = b.extractElement(other, i);
    sum = b.fusedF32(b.unpackLow(x), b.unpackLow(y), sum);
    sum = b.fusedF32(b.unpackHigh(x), b.unpackHigh(y), sum);
  }
  return sum;
}

void attention::storeVectors(AttentionBuilder &b, Value logSums, Value rowSums,
                             Value index, Value logSum, Value rowSum) {
  Type f32 = b.getF32Type();
  b.store(logSum, b.element(logSums, index, f32), 4);
  b.store(rowSum, b.element(rowSums, index, f32), 4);
}

Value attention::loadLogSum(AttentionBuilder &b, Value lse, Value index) {
  Value value =
      b.load(b.element(lse, index, b.getF32Type()), b.getF32Type(), 4);
  Value sawNothing = b.equalF32(value, b.constantF32(-INFINITY));
  return b.select(sawNothing, value,
                  b.multiplyF32(value, b.constantF32(-log2E)));
}
