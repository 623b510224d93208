//===- OperandTiles.cpp - Operands of an mma.sync kernel ------------------===//
#include "compiler/emit/nvptx/gemm/mma/MmaParts.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// 16-byte places in a line of a stage.
static int getChunksOfLine(Major major) {
  return major == Major::K ? mmaTileK / 8 : mmaTile / 8;
}

/// Byte offset of a place in a stage.
Value OperandTiles::getPlace(Value line, Value chunk) {
  bool isK = operand.major == Major::K;
  // Two lines of 64 bytes share the 128 bytes of all banks.
  Value exchange = isK ? b.bitAnd(b.shiftRight(line, 1), 3) : b.bitAnd(line, 7);
  Value place = b.bitXor(chunk, exchange);
  return b.add(b.shiftLeft(line, isK ? 6 : 8), b.shiftLeft(place, 4));
}

void OperandTiles::copyChunk(int index, Value k, Value target) {
  int chunks = getChunksOfLine(operand.major);
  Value number = b.add(thread, index * mmaThreads);
  Value line = b.divide(number, chunks), chunk = b.bitAnd(number, chunks - 1);
  bool isK = operand.major == Major::K;
  Value inner = b.add(isK ? k : operand.first, b.shiftLeft(chunk, 3));
  Value outer = b.add(isK ? operand.first : k, line);
  Value innerExtent = isK ? operand.extentK : operand.extent;
  Value outerExtent = isK ? operand.extent : operand.extentK;
  // Bytes that are inside: 0 to 16.
  Value zero = b.constant(0);
  Value left = b.minimum(b.subtract(innerExtent, inner), b.constant(8));
  Value isInside =
      b.both(b.lessThan(zero, left), b.lessThan(outer, outerExtent));
  Value bytes = b.select(isInside, b.shiftLeft(left, 1), zero);
  Type i64 = b.getI64Type();
  Value offset = LLVM::MulOp::create(b, LLVM::SExtOp::create(b, i64, outer),
                                     operand.leading);
  offset = LLVM::AddOp::create(b, offset, LLVM::SExtOp::create(b, i64, inner));
  // Nothing is read where no byte is inside; the address is one that exists.
  offset = b.select(isInside, offset, b.constant64(0));
  Value source = b.element(operand.pointer, offset, b.getI16Type());
  NVVM::CpAsyncOp::create(b, b.shared(b.add(target, getPlace(line, chunk))),
                          source, 16, NVVM::LoadCacheModifierKind::CG, bytes);
}

void OperandTiles::copy(Value k, Value target) {
  for (int i = 0; i < mmaOperandBytes / 16 / mmaThreads; ++i)
    copyChunk(i, k, target);
}

/// Lane l gives the address of line l % 8 of matrix l / 8. The matrices differ
/// in the rows (of m or n) and in k: of A the rows change first, of B k does.
/// Lines along m or n come transposed.
SmallVector<Value> OperandTiles::loadFragment(Value stage, Value row, int k,
                                              bool isA) {
  Value lane = b.bitAnd(thread, 31);
  Value inMatrix = b.bitAnd(lane, 7);
  Value low = b.bitAnd(b.shiftRight(lane, 3), 1), high = b.shiftRight(lane, 4);
  Value rowHalf = isA ? low : high, kHalf = isA ? high : low;
  Value line, chunk;
  bool isK = operand.major == Major::K;
  if (isK) {
    line = b.add(b.add(row, b.shiftLeft(rowHalf, 3)), inMatrix);
    chunk = b.add(kHalf, k / 8);
  } else {
    line = b.add(b.add(inMatrix, b.shiftLeft(kHalf, 3)), k);
    chunk = b.add(b.shiftRight(row, 3), rowHalf);
  }
  Type i32 = b.getI32Type();
  auto four =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {i32, i32, i32, i32});
  Value loaded = NVVM::LdMatrixOp::create(
      b, four, b.shared(b.add(stage, getPlace(line, chunk))), 4,
      isK ? NVVM::MMALayout::row : NVVM::MMALayout::col,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8),
      NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> fragment;
  for (int i = 0; i < 4; ++i)
    fragment.push_back(b.extractField(loaded, i));
  return fragment;
}
