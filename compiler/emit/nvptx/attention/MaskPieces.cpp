//===- MaskPieces.cpp - A mask over queries and keys ----------------------===//
#include "compiler/emit/nvptx/attention/MaskPieces.h"
#include "compiler/emit/nvptx/attention/KeyBias.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

/// A thread's sums in 64 columns.
static constexpr int sumsOfPiece = 32;

static int32_t getBit(int i) { return uint32_t(1) << i; }

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Value MaskPieceReader::getPiece(Value batch, Value head, Value row,
                                Value column) {
  if (mask == TensorMask::None)
    return {};
  Value piece = b.multiply(b.shiftRight(row, 6), arguments.row);
  piece = b.add(piece, b.multiply(head, arguments.head));
  piece = b.add(piece, b.multiply(batch, arguments.batch));
  return b.add(piece, b.shiftRight(column, 6));
}

Value MaskPieceReader::getPointer(Value piece, int threadBytes) {
  Value bytes = LLVM::MulOp::create(b, b.extend(piece),
                                    b.constant64(getMaskPieceBytes(mask)));
  bytes = LLVM::AddOp::create(b, bytes,
                              b.extend(b.multiply(self.thread, threadBytes)));
  return b.element(arguments.pieces, bytes, b.getI8Type());
}

Values MaskPieceReader::loadAhead(Value piece, size_t scores) {
  Values words;
  if (mask != TensorMask::Boolean)
    return words;
  Value pointer = getPointer(piece, 4);
  for (size_t i = 0; i < scores / sumsOfPiece; ++i)
    words.push_back(
        b.load(b.element(pointer, maskPieceThreads * i, b.getI32Type()),
               b.getI32Type(), 4, /*invariant=*/true));
  return words;
}

Values MaskPieceReader::applyBits(ArrayRef<Value> scores,
                                  ArrayRef<Value> words) {
  Value hidden = b.constantF32(-INFINITY);
  Values masked;
  for (auto [i, score] : llvm::enumerate(scores)) {
    Value bit = b.bitAnd(words[i / sumsOfPiece], getBit(i % sumsOfPiece));
    masked.push_back(b.select(b.equal(bit, int64_t(0)), hidden, score));
  }
  return masked;
}

Values MaskPieceReader::apply(ArrayRef<Value> scores, Value piece,
                              ArrayRef<Value> ahead) {
  if (mask == TensorMask::None)
    return Values(scores);
  if (mask == TensorMask::Boolean)
    return applyBits(scores, ahead);
  auto four = VectorType::get(4, b.getF32Type());
  Value pointer = getPointer(piece, 16);
  Values masked;
  for (size_t i = 0; i < scores.size(); i += 4) {
    Value added = b.load(
        b.element(pointer, 4 * maskPieceThreads * (i / 4), b.getF32Type()),
        four, 16, /*invariant=*/true);
    for (int j = 0; j < 4; ++j)
      masked.push_back(b.addF32(scores[i + j], b.extractElement(added, j)));
  }
  return masked;
}

//===----------------------------------------------------------------------===//
// From a tensor
//===----------------------------------------------------------------------===//

namespace {
/// The kernel's arguments, in order.
struct PassArguments {
  Value mask, pieces;
  Value rows, columns, pieceRows, pieceColumns, heads;
  Value rowStride, columnStride, headStride, batchStride;
  Value scale;
};

/// One element, as the kernels take it.
class MaskElements {
public:
  MaskElements(AttentionBuilder &b, const PassArguments &arguments,
               MaskElement kind)
      : b(b), arguments(arguments), kind(kind) {}

  /// i1, whether the key is seen; f32, to be added to the scores.
  Value load(Value ofHead, Value row, Value column);

private:
  Value multiply64(Value number, Value stride) {
    return LLVM::MulOp::create(b, b.extend(number), stride);
  }

  AttentionBuilder &b;
  const PassArguments &arguments;
  MaskElement kind;
};
} // namespace

Value MaskElements::load(Value ofHead, Value row, Value column) {
  Value isInside = b.both(b.lessThan(row, arguments.rows),
                          b.lessThan(column, arguments.columns));
  Value index = LLVM::AddOp::create(b, multiply64(row, arguments.rowStride),
                                    multiply64(column, arguments.columnStride));
  index = LLVM::AddOp::create(b, index, ofHead);
  // Outside, the first element of all is read, and counts for nothing.
  index = b.select(isInside, index, b.constant64(0));
  Value element =
      loadMaskElement(b, kind, arguments.mask, index, arguments.scale);
  if (kind == MaskElement::Boolean)
    return b.both(isInside, element);
  return b.select(isInside, element, b.constantF32(-INFINITY));
}

/// What a thread holds of a piece.
static Values loadPiece(AttentionBuilder &b, const PassArguments &arguments,
                        MaskElement kind, Value piece, Value thread) {
  Value pieceRow = b.divideUnsigned(piece, arguments.pieceColumns);
  Value column =
      b.subtract(piece, b.multiply(pieceRow, arguments.pieceColumns));
  Value head = b.divideUnsigned(pieceRow, arguments.pieceRows);
  Value row = b.subtract(pieceRow, b.multiply(head, arguments.pieceRows));
  Value batch = b.divideUnsigned(head, arguments.heads);
  head = b.subtract(head, b.multiply(batch, arguments.heads));
  Value ofHead = LLVM::AddOp::create(
      b, LLVM::MulOp::create(b, b.extend(batch), arguments.batchStride),
      LLVM::MulOp::create(b, b.extend(head), arguments.headStride));
  // As in Consumer: rows of a warp's 16, columns of each 8.
  row = b.add(b.multiply(row, maskPiece),
              b.multiply(b.shiftRight(thread, 5), 16));
  row = b.add(row, b.bitAnd(b.shiftRight(thread, 2), 7));
  column =
      b.add(b.multiply(column, maskPiece), b.multiply(b.bitAnd(thread, 3), 2));
  MaskElements elements(b, arguments, kind);
  Values values;
  for (int i = 0; i < sumsOfPiece; ++i)
    values.push_back(elements.load(ofHead, b.add(row, i / 2 % 2 * 8),
                                   b.add(column, i / 4 * 8 + i % 2)));
  return values;
}

static void storeBits(AttentionBuilder &b, Value pieces, Value piece,
                      Value thread, ArrayRef<Value> seen) {
  Value word = b.constant(0);
  for (auto [i, each] : llvm::enumerate(seen))
    word = b.add(word, b.select(each, b.constant(getBit(i)), b.constant(0)));
  Value index = b.add(b.multiply(piece, maskPieceThreads), thread);
  b.store(word, b.element(pieces, b.extend(index), b.getI32Type()), 4);
}

static void storeAdded(AttentionBuilder &b, Value pieces, Value piece,
                       Value thread, ArrayRef<Value> values) {
  auto four = VectorType::get(4, b.getF32Type());
  Value index = LLVM::MulOp::create(
      b, b.extend(piece), b.constant64(sumsOfPiece / 4 * maskPieceThreads));
  index = LLVM::AddOp::create(b, index, b.extend(thread));
  Value pointer = b.element(pieces, index, four);
  for (int i = 0; i < sumsOfPiece; i += 4) {
    Value vector = b.undefined(four);
    for (int j = 0; j < 4; ++j)
      vector = LLVM::InsertElementOp::create(b, vector, values[i + j],
                                             b.constant(j));
    b.store(vector, b.element(pointer, i / 4 * maskPieceThreads, four), 16);
  }
}

LogicalResult attention::buildMaskPiecesKernel(ModuleOp module,
                                               MaskElement element,
                                               llvm::StringRef symbol) {
  AttentionBuilder b(module.getLoc(), module.getContext());
  PassArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::ReadOnly, &a.mask},
                {ArgumentKind::Memory, &a.pieces},
                {ArgumentKind::Number, &a.rows},
                {ArgumentKind::Number, &a.columns},
                {ArgumentKind::Number, &a.pieceRows},
                {ArgumentKind::Number, &a.pieceColumns},
                {ArgumentKind::Number, &a.heads},
                {ArgumentKind::Wide, &a.rowStride},
                {ArgumentKind::Wide, &a.columnStride},
                {ArgumentKind::Wide, &a.headStride},
                {ArgumentKind::Wide, &a.batchStride},
                {ArgumentKind::Scalar, &a.scale}},
               maskPieceThreads);
  Type i32 = b.getI32Type();
  Value piece = NVVM::BlockIdXOp::create(b, i32);
  Value thread = NVVM::ThreadIdXOp::create(b, i32);
  Values values = loadPiece(b, a, element, piece, thread);
  if (element == MaskElement::Boolean)
    storeBits(b, a.pieces, piece, thread, values);
  else
    storeAdded(b, a.pieces, piece, thread, values);
  LLVM::ReturnOp::create(b, ValueRange());
  return success();
}
