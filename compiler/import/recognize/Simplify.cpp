// Folding of small constants, products with weights that were expanded over the
// batch, and reads at counted positions.
#include "compiler/import/recognize/AffineAnalysis.h"
#include "compiler/import/recognize/Matching.h"
#include "compiler/import/recognize/Recognize.h"
#include "compiler/reference/FoldConstants.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

/// Tables up to this size may be in the IR.
static constexpr int64_t kMaxTable = 4096;

namespace {
/// An operation on constants whose results are one number, or a small table of
/// integers.
struct FoldSmallConstants : RewritePattern {
  FoldSmallConstants(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<EvaluableOpInterface>(op) || isa<ConstantOp>(op) ||
        op->getNumOperands() == 0)
      return failure();
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp<ConstantOp>())
        return failure();
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) {});
    FailureOr<SmallVector<HostTensor>> values =
        evaluateOnConstants(op, kMaxTable);
    if (failed(values) || values->size() != op->getNumResults())
      return failure();
    SmallVector<Value> results;
    for (const HostTensor &value : *values)
      if (!value.isSplat() &&
          value.getNumElements() > (value.isFloat() ? 1 : kMaxTable))
        return failure();
    for (const HostTensor &value : *values)
      results.push_back(
          ConstantOp::create(rewriter, op->getLoc(), value.toAttr())
              .getResult());
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// A running sum or extreme of integers that comes out the same everywhere
/// (sequence numbers of a batch of whole sequences): every mask that is made of
/// it would compute it again.
struct UniformCumulative : OpRewritePattern<CumulativeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CumulativeOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    if (!isa<IntegerType>(type.getElementType()))
      return rewriter.notifyMatchFailure(op, "not of integers");
    std::optional<Affine> value = IndexAnalysis(op.getResult()).number();
    if (!value || !value->isConstant())
      return rewriter.notifyMatchFailure(op, "differs between positions");
    rewriter.replaceOpWithNewOp<ConstantOp>(
        op, type, static_cast<double>(value->constant));
    return success();
  }
};

/// x [b.., m, k] times a matrix expanded over b: the matrix itself, and b are
/// free dimensions of x.
struct ExpandedWeight : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override {
    auto broadcast = op.getRhs().getDefiningOp<BroadcastInDimOp>();
    size_t batch = op.getLhsBatch().size();
    if (!broadcast || batch == 0 ||
        !llvm::equal(op.getLhsBatch(), range(batch)))
      return rewriter.notifyMatchFailure(op, "no expanded operand");
    // Where each dimension of the expanded operand is in the matrix.
    Value matrix = broadcast.getOperand();
    Shape place(rankOf(op.getRhs()), -1);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions())) {
      bool repeats = shapeOf(matrix)[i] != shapeOf(op.getRhs())[dim];
      bool isBatch = llvm::is_contained(op.getRhsBatch(), dim);
      if (repeats != isBatch && shapeOf(matrix)[i] != 1)
        return rewriter.notifyMatchFailure(op, "the batch is not repeated");
      if (!isBatch)
        place[dim] = i;
    }
    for (int64_t dim = 0; dim < rankOf(op.getRhs()); ++dim)
      if (place[dim] < 0 && !llvm::is_contained(op.getRhsBatch(), dim))
        return rewriter.notifyMatchFailure(op,
                                           "a matrix dimension is repeated");
    Shape kept, shape;
    for (int64_t i = 0; i < rankOf(matrix); ++i)
      if (llvm::is_contained(place, i))
        kept.push_back(i), shape.push_back(shapeOf(matrix)[i]);
    if (countOf(shape) != countOf(shapeOf(matrix)))
      return rewriter.notifyMatchFailure(op, "the batch is not repeated");
    if (kept.size() != static_cast<size_t>(rankOf(matrix)))
      matrix = ReshapeOp::create(
          rewriter, op.getLoc(),
          RankedTensorType::get(shape, elementOf(matrix)), matrix);
    Shape contract;
    for (int64_t dim : op.getRhsContract())
      contract.push_back(llvm::find(kept, place[dim]) - kept.begin());
    rewriter.replaceOpWithNewOp<DotGeneralOp>(
        op, op.getLhs(), matrix, Dims(), Dims(), op.getLhsContract(), contract);
    return success();
  }
};

/// Batching dimensions of size 1 are none.
struct UnitBatch : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override {
    Shape left, right, leftBatch, rightBatch;
    for (auto [l, r] : llvm::zip_equal(op.getLhsBatch(), op.getRhsBatch()))
      if (shapeOf(op.getLhs())[l] == 1)
        left.push_back(l), right.push_back(r);
      else
        leftBatch.push_back(l), rightBatch.push_back(r);
    if (left.empty())
      return rewriter.notifyMatchFailure(op, "no batch of 1");
    auto drop = [&](Value v, Dims dims) {
      Shape shape;
      for (auto [i, size] : llvm::enumerate(shapeOf(v)))
        if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
          shape.push_back(size);
      return ReshapeOp::create(rewriter, op.getLoc(),
                               RankedTensorType::get(shape, elementOf(v)), v)
          .getResult();
    };
    auto renumber = [](Dims dims, Dims dropped) {
      Shape result;
      for (int64_t dim : dims)
        result.push_back(
            dim - llvm::count_if(dropped, [&](int64_t d) { return d < dim; }));
      return result;
    };
    Value product = DotGeneralOp::create(
        rewriter, op.getLoc(), drop(op.getLhs(), left),
        drop(op.getRhs(), right), renumber(leftBatch, left),
        renumber(rightBatch, right), renumber(op.getLhsContract(), left),
        renumber(op.getRhsContract(), right));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), product);
    return success();
  }
};

/// An index that counts along its own first dimension: that dimension becomes a
/// batch dimension.
struct CountedBatch : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    int64_t batch = op.getBatchDims();
    if (op.getIndices().size() < 2 || op.getDims()[0] != batch)
      return rewriter.notifyMatchFailure(
          op, "the first index is not of the first dimension");
    Value first = op.getIndices()[0];
    if (rankOf(first) <= batch ||
        shapeOf(first)[batch] != shapeOf(op.getOperand())[batch])
      return rewriter.notifyMatchFailure(op, "sizes differ");
    std::optional<Affine> index = IndexAnalysis(first).number();
    bool counts = index && index->constant == 0 &&
                  (index->singleCoordinate() == batch ||
                   (index->isConstant() && shapeOf(first)[batch] == 1));
    if (!counts)
      return rewriter.notifyMatchFailure(op, "the first index does not count");
    rewriter.replaceOpWithNewOp<GatherOp>(op, op.getType(), op.getOperand(),
                                          op.getIndices().drop_front(),
                                          op.getDims().drop_front(), batch + 1);
    return success();
  }
};

/// The last index counts from c along one of its dimensions: a slice, put in
/// place by reshape and broadcast.
struct CountedSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    int64_t batch = op.getBatchDims();
    if (op.getIndices().size() != 1 || op.getDims()[0] != batch)
      return rewriter.notifyMatchFailure(
          op, "not one index of the first dimension");
    Value index = op.getIndices()[0], x = op.getOperand();
    std::optional<Affine> found = IndexAnalysis(index).number();
    int64_t dim = found ? found->singleCoordinate() : -1;
    if (!found || (dim < batch && !found->isConstant()))
      return rewriter.notifyMatchFailure(op, "the index does not count");
    int64_t length = found->isConstant() ? 1 : shapeOf(index)[dim];
    if (found->constant < 0 || found->constant + length > shapeOf(x)[batch])
      return rewriter.notifyMatchFailure(op, "out of range");
    Shape starts(rankOf(x), 0), limits(shapeOf(x)), strides(rankOf(x), 1),
        dims = range(batch);
    starts[batch] = found->constant, limits[batch] = found->constant + length;
    Value part =
        SliceOp::create(rewriter, op.getLoc(), x, starts, limits, strides);
    if (found->isConstant()) {
      Shape shape(shapeOf(part));
      shape.erase(shape.begin() + batch);
      part =
          ReshapeOp::create(rewriter, op.getLoc(),
                            RankedTensorType::get(shape, elementOf(x)), part);
    } else {
      dims.push_back(dim);
    }
    for (int64_t i = rankOf(index); i < rankOf(op.getResult()); ++i)
      dims.push_back(i);
    rewriter.replaceOpWithNewOp<BroadcastInDimOp>(op, op.getType(), part, dims);
    return success();
  }
};

/// Positions 0, 1, 2, ...: the table's first rows.
struct CountedEmbedding : OpRewritePattern<EmbeddingOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EmbeddingOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getPaddingIdx())
      return rewriter.notifyMatchFailure(op, "has a padding row");
    Value ids = op.getIds();
    std::optional<Affine> found = IndexAnalysis(ids).number();
    if (!found || (found->singleCoordinate() < 0 && !found->isConstant()))
      return rewriter.notifyMatchFailure(op, "the ids do not count");
    rewriter.replaceOpWithNewOp<GatherOp>(op, op.getType(), op.getTable(),
                                          ValueRange(ids), Dims{0}, 0);
    return success();
  }
};
} // namespace

void addSimplifications(RewritePatternSet &patterns) {
  patterns.add<FoldSmallConstants, UniformCumulative, ExpandedWeight, UnitBatch,
               CountedBatch, CountedSlice, CountedEmbedding>(
      patterns.getContext());
}

} // namespace lockstep::recognize
