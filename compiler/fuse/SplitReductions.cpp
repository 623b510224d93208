//===- SplitReductions.cpp - Large reductions in two steps ----------------===//
#include "compiler/fuse/Passes.h"
#include "dialects/train/DecompositionUtils.h"
#include <limits>

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSESPLITREDUCTIONSPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

/// A divisor of `elements` between `least` and `most`, the largest one; 0 if
/// there is none.
static int64_t findChunk(int64_t elements, int64_t least, int64_t most) {
  for (int64_t chunk = std::min(elements, most); chunk >= least; --chunk)
    if (elements % chunk == 0)
      return chunk;
  return 0;
}

/// `value` as [chunks, chunk size], zeros appended where no divisor serves as
/// chunk size (so only for sums).
static Value cutIntoChunks(train::TensorBuilder &b, Value value,
                           int64_t threshold) {
  int64_t elements = train::getTensorType(value).getNumElements();
  if (elements <= threshold)
    return b.reshape(value, {1, elements});
  if (int64_t chunk = findChunk(elements, threshold / 32, threshold))
    return b.reshape(value, {elements / chunk, chunk});
  int64_t chunk = threshold / 2, chunks = (elements + chunk - 1) / chunk;
  Value zero = b.scalar(train::getElementType(value), 0);
  Value padded = train::PadOp::create(
      b.getBuilder(), b.getLoc(), b.reshape(value, {elements}), zero,
      ArrayRef<int64_t>{0}, ArrayRef<int64_t>{chunks * chunk - elements},
      ArrayRef<int64_t>{0});
  return b.reshape(padded, {chunks, chunk});
}

/// sqrt of the sum of all partial sums; the partial sums of all operands lie
/// one behind the other.
static void splitGlobalNorm(train::GlobalNormOp op, int64_t threshold) {
  OpBuilder builder(op);
  train::TensorBuilder b(builder, op.getLoc());
  Type type = train::getElementType(op.getResult()),
       computeType = train::getComputeType(type);
  SmallVector<Value> partials;
  int64_t total = 0;
  for (Value operand : op.getOperands_()) {
    Value chunks = b.convert(cutIntoChunks(b, operand, threshold), computeType);
    partials.push_back(b.sum(b.square(chunks), {1}));
    total += train::getShape(partials.back())[0];
  }
  if (partials.empty())
    partials.push_back(b.constant(RankedTensorType::get({1}, computeType), 0)),
        total = 1;
  Value joined = partials.front();
  if (partials.size() > 1)
    joined = plan::JoinOp::create(builder, op.getLoc(),
                                  RankedTensorType::get({total}, computeType),
                                  partials);
  op.getResult().replaceAllUsesWith(
      b.convert(b.sqrt(b.sum(joined, {0})), type));
  op.erase();
}

static void splitReduce(train::ReduceOp op, int64_t threshold) {
  OpBuilder builder(op);
  train::TensorBuilder b(builder, op.getLoc());
  Value operand = op.getOperand();
  Type type = train::getElementType(operand);
  // Sums of short floats are carried in f32 between the steps, too.
  bool isSum = op.getKind() == train::ReduceKind::Sum;
  if (isSum)
    operand = b.convertToCompute(operand);
  Value partials =
      b.reduce(op.getKind(), cutIntoChunks(b, operand, threshold), {1});
  Value result = b.convert(b.reduce(op.getKind(), partials, {0}), type);
  op.getResult().replaceAllUsesWith(
      b.reshape(result, train::getShape(op.getResult())));
  op.erase();
}

/// Columns that one block of a GPU's threads takes (emit/nvptx/ColumnGrid.cpp).
static constexpr int64_t kColumnsPerBlock = 128;
/// Rows that are worth a block.
static constexpr int64_t kLeastRows = 128;

/// Rows of one piece of the columns of `op`, a divisor of them all; 0 where the
/// columns stay whole.
static int64_t findRowsPerPiece(train::ReduceOp op, int64_t columnBlocks) {
  auto shape = train::getShape(op.getOperand());
  auto dims = op.getDimensions();
  if (dims.empty() || dims.size() == shape.size())
    return 0;
  int64_t rows = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim != static_cast<int64_t>(i))
      return 0;
    rows *= shape[dim];
  }
  int64_t columns = train::getTensorType(op.getResult()).getNumElements();
  int64_t blocks = llvm::divideCeil(columns, kColumnsPerBlock);
  int64_t pieces = llvm::divideCeil(columnBlocks, blocks);
  if (pieces < 2 || rows < 2 * kLeastRows)
    return 0;
  int64_t wanted = std::max(kLeastRows, rows / pieces);
  return findChunk(rows, wanted / 4, wanted);
}

/// The rows in pieces of `rows`, each reduced, then the pieces.
static void splitColumns(train::ReduceOp op, int64_t rows) {
  OpBuilder builder(op);
  train::TensorBuilder b(builder, op.getLoc());
  Value operand = op.getOperand();
  Type type = train::getElementType(operand);
  if (op.getKind() == train::ReduceKind::Sum)
    operand = b.convertToCompute(operand);
  auto kept = train::getShape(op.getResult());
  int64_t all = train::getTensorType(operand).getNumElements() /
                train::getTensorType(op.getResult()).getNumElements();
  SmallVector<int64_t> shape{all / rows, rows};
  llvm::append_range(shape, kept);
  Value partials = b.reduce(op.getKind(), b.reshape(operand, shape), {1});
  Value result = b.convert(b.reduce(op.getKind(), partials, {0}), type);
  op.getResult().replaceAllUsesWith(result);
  op.erase();
}

namespace {

struct FuseSplitReductions
    : fuse::impl::FuseSplitReductionsPassBase<FuseSplitReductions> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<train::GlobalNormOp> norms;
    getOperation().walk([&](train::GlobalNormOp op) { norms.push_back(op); });
    for (train::GlobalNormOp op : norms)
      splitGlobalNorm(op, threshold);
    SmallVector<train::ReduceOp> reduces;
    getOperation().walk([&](train::ReduceOp op) {
      int64_t elements = train::getTensorType(op.getOperand()).getNumElements();
      bool canPad = op.getKind() == train::ReduceKind::Sum;
      if (train::getTensorType(op.getResult()).getNumElements() == 1 &&
          elements > threshold &&
          (canPad || findChunk(elements, threshold / 32, threshold)))
        reduces.push_back(op);
    });
    for (train::ReduceOp op : reduces)
      splitReduce(op, threshold);
    if (columnBlocks == 0)
      return;
    SmallVector<std::pair<train::ReduceOp, int64_t>> columns;
    getOperation().walk([&](train::ReduceOp op) {
      if (int64_t rows = findRowsPerPiece(op, columnBlocks))
        columns.push_back({op, rows});
    });
    for (auto [op, rows] : columns)
      splitColumns(op, rows);
  }
};

} // namespace
