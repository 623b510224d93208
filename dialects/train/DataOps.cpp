//===- DataOps.cpp - Constants and data movement --------------------------===//
#include "dialects/train/Inference.h"
#include "dialects/train/Train.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace lockstep::train;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location>,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(cast<ElementsAttr>(adaptor.getValue()).getShapedType());
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double splat) {
  Type element = type.getElementType();
  Attribute value;
  if (auto floatType = dyn_cast<FloatType>(element))
    value = builder.getFloatAttr(floatType, splat);
  else
    value = builder.getIntegerAttr(element, static_cast<int64_t>(splat));
  build(builder, state, type,
        cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
}

LogicalResult IotaOp::verify() {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  if (getDimension() >= static_cast<uint64_t>(rank))
    return emitOpError("(C1) expected a dimension below ")
           << rank << ", but got " << getDimension();
  return success();
}

//===----------------------------------------------------------------------===//
// Broadcast, reshape, transpose
//===----------------------------------------------------------------------===//

LogicalResult BroadcastInDimOp::verify() {
  auto from = tensorType(getOperand());
  auto to = cast<RankedTensorType>(getType());
  if (static_cast<int64_t>(getDimensions().size()) != from.getRank() ||
      !areIncreasingDims(getDimensions(), to.getRank()))
    return emitOpError("(C1) expected ")
           << from.getRank() << " strictly increasing dimensions below "
           << to.getRank();
  for (auto [i, dim] : llvm::enumerate(getDimensions()))
    if (from.getDimSize(i) != 1 && from.getDimSize(i) != to.getDimSize(dim))
      return emitOpError("(C2) expected operand dimension ")
             << i << " to be 1 or " << to.getDimSize(dim) << ", but got "
             << from.getDimSize(i);
  if (from.getElementType() != to.getElementType())
    return emitOpError("(C3) expected one element type");
  return success();
}

OpFoldResult BroadcastInDimOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

/// broadcast(broadcast(x)) is one broadcast.
static LogicalResult mergeBroadcasts(BroadcastInDimOp op,
                                     PatternRewriter &rewriter) {
  auto inner = op.getOperand().getDefiningOp<BroadcastInDimOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "operand is not a broadcast");
  SmallVector<int64_t> dims;
  for (int64_t dim : inner.getDimensions())
    dims.push_back(op.getDimensions()[dim]);
  rewriter.replaceOpWithNewOp<BroadcastInDimOp>(op, op.getType(),
                                                inner.getOperand(), dims);
  return success();
}

void BroadcastInDimOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                   MLIRContext *) {
  patterns.add(mergeBroadcasts);
}

LogicalResult ReshapeOp::verify() {
  auto from = tensorType(getOperand());
  auto to = cast<RankedTensorType>(getType());
  if (from.getNumElements() != to.getNumElements() ||
      from.getElementType() != to.getElementType())
    return emitOpError("(C1) expected ")
           << from.getNumElements() << " elements of " << from.getElementType()
           << ", but got " << to.getNumElements() << " of "
           << to.getElementType();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto elements = dyn_cast_or_null<DenseElementsAttr>(adaptor.getOperand()))
    return elements.reshape(cast<ShapedType>(getType()));
  return {};
}

/// reshape(reshape(x)) is one reshape.
static LogicalResult mergeReshapes(ReshapeOp op, PatternRewriter &rewriter) {
  auto inner = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "operand is not a reshape");
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getOperand());
  return success();
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *) {
  patterns.add(mergeReshapes);
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (static_cast<int64_t>(permutation.size()) != type.getRank() ||
      !areDistinctDims(permutation, type.getRank()))
    return emitOptionalError(loc, "(C1) expected a permutation of ",
                             type.getRank(), " dimensions");
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(type.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getOperand();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

/// transpose(transpose(x)) is one transpose.
static LogicalResult mergeTransposes(TransposeOp op,
                                     PatternRewriter &rewriter) {
  auto inner = op.getOperand().getDefiningOp<TransposeOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "operand is not a transpose");
  SmallVector<int64_t> permutation;
  for (int64_t dim : op.getPermutation())
    permutation.push_back(inner.getPermutation()[dim]);
  rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getOperand(), permutation);
  return success();
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *) {
  patterns.add(mergeTransposes);
}

//===----------------------------------------------------------------------===//
// Slice, pad, concatenate, reverse
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(),
                    strides = adaptor.getStrides();
  size_t rank = type.getRank();
  if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
    return emitOptionalError(loc, "(C1) expected ", rank,
                             " starts, limits and strides");
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) {
    if (starts[i] < 0 || starts[i] > limits[i] ||
        limits[i] > type.getDimSize(i) || strides[i] < 1)
      return emitOptionalError(
          loc, "(C2) expected 0 <= start <= limit <= ", type.getDimSize(i),
          " and stride >= 1 in dimension ", i, ", but got ", starts[i], ", ",
          limits[i], ", ", strides[i]);
    shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
  }
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh(),
                    interior = adaptor.getInterior();
  size_t rank = type.getRank();
  if (low.size() != rank || high.size() != rank || interior.size() != rank ||
      llvm::any_of(interior, [](int64_t i) { return i < 0; }))
    return emitOptionalError(loc, "(C1) expected ", rank,
                             " low, high and not negative interior paddings");
  auto value = tensorType(adaptor.getValue());
  if (value.getRank() != 0 || value.getElementType() != type.getElementType())
    return emitOptionalError(loc,
                             "(C2) expected a rank-0 padding value of type ",
                             type.getElementType());
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = type.getDimSize(i),
            padded = size + std::max<int64_t>(size - 1, 0) * interior[i] +
                     low[i] + high[i];
    if (padded < 0)
      return emitOptionalError(loc, "(C1) padding removes more than dimension ",
                               i, " has");
    shape.push_back(padded);
  }
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

LogicalResult ConcatenateOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> loc,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(loc, "(C1) expected at least one operand");
  auto first = tensorType(adaptor.getInputs().front());
  int64_t dim = adaptor.getDimension();
  if (dim < 0 || dim >= first.getRank())
    return emitOptionalError(loc, "(C1) expected a dimension below ",
                             first.getRank(), ", but got ", dim);
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    auto type = tensorType(input);
    if (type.getRank() != first.getRank() ||
        type.getElementType() != first.getElementType() ||
        dropDims(type.getShape(), {dim}) != dropDims(first.getShape(), {dim}))
      return emitOptionalError(loc, "(C1) expected operands like ", first,
                               ", but got ", type);
    shape[dim] += type.getDimSize(dim);
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

OpFoldResult ConcatenateOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front())
                                 : OpFoldResult();
}

LogicalResult ReverseOp::verify() {
  if (!areDistinctDims(getDimensions(), tensorType(getOperand()).getRank()))
    return emitOpError("(C1) expected distinct dimensions of the operand");
  return success();
}

//===----------------------------------------------------------------------===//
// Gather, scatter, sort, cumulative
//===----------------------------------------------------------------------===//

/// The shape that a gather has, or nothing when its constraints fail (reported
/// at `loc`).
static std::optional<SmallVector<int64_t>>
gatherShape(std::optional<Location> loc, RankedTensorType operand,
            ValueRange indices, ArrayRef<int64_t> dims, int64_t batchDims) {
  auto fail = [&](const char *message) -> std::optional<SmallVector<int64_t>> {
    (void)emitOptionalError(loc, message);
    return std::nullopt;
  };
  if (indices.empty() || dims.size() != indices.size() || batchDims < 0 ||
      !areIncreasingDims(dims, operand.getRank()) || dims.front() < batchDims)
    return fail("(C1) expected one strictly increasing dimension per index "
                "tensor, each at least the number of batch dimensions");
  ArrayRef<int64_t> indexShape = shapeOf(indices.front());
  if (static_cast<int64_t>(indexShape.size()) < batchDims)
    return fail("(C2) expected index tensors to have the batch dimensions");
  for (Value index : indices)
    if (shapeOf(index) != indexShape ||
        indexShape.take_front(batchDims) !=
            operand.getShape().take_front(batchDims))
      return fail("(C2) expected index tensors of one shape with the operand's "
                  "batch sizes");
  SmallVector<int64_t> shape(indexShape);
  for (int64_t i = batchDims; i < operand.getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      shape.push_back(operand.getDimSize(i));
  return shape;
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto operand = tensorType(adaptor.getOperand());
  auto shape = gatherShape(loc, operand, adaptor.getIndices(),
                           adaptor.getDims(), adaptor.getBatchDims());
  if (!shape)
    return failure();
  types.push_back(RankedTensorType::get(*shape, operand.getElementType()));
  return success();
}

LogicalResult ScatterOp::verify() {
  auto operand = tensorType(getOperand());
  auto shape =
      gatherShape(getLoc(), operand, getIndices(), getDims(), getBatchDims());
  if (!shape)
    return failure();
  if (shapeOf(getUpdates()) != ArrayRef<int64_t>(*shape) ||
      elementOf(getUpdates()) != operand.getElementType())
    return emitOpError("(C3) expected updates of type ")
           << RankedTensorType::get(*shape, operand.getElementType())
           << ", but got " << getUpdates().getType();
  return success();
}

LogicalResult SortOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  if (adaptor.getDimension() >= static_cast<uint64_t>(type.getRank()))
    return emitOptionalError(loc, "(C1) expected a dimension below ",
                             type.getRank(), ", but got ",
                             adaptor.getDimension());
  types.push_back(type);
  types.push_back(
      RankedTensorType::get(type.getShape(), IntegerType::get(context, 64)));
  return success();
}

LogicalResult CumulativeOp::verify() {
  int64_t rank = tensorType(getOperand()).getRank();
  if (getDimension() >= static_cast<uint64_t>(rank))
    return emitOpError("(C1) expected a dimension below ")
           << rank << ", but got " << getDimension();
  return success();
}
