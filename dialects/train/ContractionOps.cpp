//===- ContractionOps.cpp - Reductions, products, windows -----------------===//
#include "dialects/train/Inference.h"
#include "dialects/train/Train.h"

using namespace mlir;
using namespace lockstep::train;

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  if (!areIncreasingDims(adaptor.getDimensions(), type.getRank()))
    return emitOptionalError(
        loc, "(C1) expected strictly increasing dimensions below ",
        type.getRank());
  types.push_back(
      RankedTensorType::get(dropDims(type.getShape(), adaptor.getDimensions()),
                            type.getElementType()));
  return success();
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDimensions().empty() ? OpFoldResult(getOperand()) : OpFoldResult();
}

LogicalResult ArgReduceOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getOperand());
  int64_t dim = adaptor.getDimension();
  ReduceKind kind = adaptor.getKind();
  if (dim < 0 || dim >= type.getRank() ||
      (kind != ReduceKind::Max && kind != ReduceKind::Min))
    return emitOptionalError(
        loc, "(C1) expected max or min and a dimension below ", type.getRank());
  types.push_back(RankedTensorType::get(dropDims(type.getShape(), {dim}),
                                        IntegerType::get(context, 64)));
  return success();
}

//===----------------------------------------------------------------------===//
// dot_general
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> batch,
                                     ArrayRef<int64_t> contract) {
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(batch, i) && !llvm::is_contained(contract, i))
      dims.push_back(i);
  return dims;
}

SmallVector<int64_t> DotGeneralOp::getLhsFree() {
  return freeDims(tensorType(getLhs()).getRank(), getLhsBatch(),
                  getLhsContract());
}
SmallVector<int64_t> DotGeneralOp::getRhsFree() {
  return freeDims(tensorType(getRhs()).getRank(), getRhsBatch(),
                  getRhsContract());
}

LogicalResult DotGeneralOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> loc,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  auto lhs = tensorType(adaptor.getLhs()), rhs = tensorType(adaptor.getRhs());
  auto distinct = [](ArrayRef<int64_t> batch, ArrayRef<int64_t> contract,
                     int64_t rank) {
    SmallVector<int64_t> all(batch);
    all.append(contract.begin(), contract.end());
    return areDistinctDims(all, rank);
  };
  auto paired = [&](ArrayRef<int64_t> l, ArrayRef<int64_t> r) {
    return l.size() == r.size() &&
           llvm::all_of(llvm::zip_equal(l, r), [&](auto pair) {
             return lhs.getDimSize(std::get<0>(pair)) ==
                    rhs.getDimSize(std::get<1>(pair));
           });
  };
  if (!distinct(adaptor.getLhsBatch(), adaptor.getLhsContract(),
                lhs.getRank()) ||
      !distinct(adaptor.getRhsBatch(), adaptor.getRhsContract(),
                rhs.getRank()) ||
      !paired(adaptor.getLhsBatch(), adaptor.getRhsBatch()) ||
      !paired(adaptor.getLhsContract(), adaptor.getRhsContract()))
    return emitOptionalError(loc,
                             "(C1) expected distinct batching and contracting "
                             "dimensions of pairwise equal size, but got ",
                             lhs, " and ", rhs);
  if (lhs.getElementType() != rhs.getElementType())
    return emitOptionalError(loc, "(C2) expected one element type, but got ",
                             lhs.getElementType(), " and ",
                             rhs.getElementType());
  SmallVector<int64_t> shape;
  for (int64_t dim : adaptor.getLhsBatch())
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim :
       freeDims(lhs.getRank(), adaptor.getLhsBatch(), adaptor.getLhsContract()))
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim :
       freeDims(rhs.getRank(), adaptor.getRhsBatch(), adaptor.getRhsContract()))
    shape.push_back(rhs.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Attributes that all sliding windows share.
struct WindowAttributes {
  ArrayRef<int64_t> strides, low, high, dilation;
  bool isValid(size_t dims) const {
    auto atLeastOne = [](int64_t i) { return i >= 1; };
    return strides.size() == dims && low.size() == dims &&
           high.size() == dims && dilation.size() == dims &&
           llvm::all_of(strides, atLeastOne) &&
           llvm::all_of(dilation, atLeastOne);
  }
};

/// The type of a convolution, or null with a message at `loc`.
static RankedTensorType convolutionType(std::optional<Location> loc,
                                        RankedTensorType input,
                                        RankedTensorType filter,
                                        WindowAttributes window,
                                        int64_t groups) {
  int64_t spatial = input.getRank() - 2;
  if (spatial < 1 || spatial > 3 || !window.isValid(spatial)) {
    (void)emitOptionalError(
        loc, "(C1) expected one to three spatial dimensions, and as many "
             "strides, paddings and dilations of at least 1");
    return {};
  }
  if (filter.getRank() != input.getRank() || groups < 1 ||
      filter.getDimSize(1) * groups != input.getDimSize(1) ||
      filter.getDimSize(0) % groups != 0 ||
      filter.getElementType() != input.getElementType()) {
    (void)emitOptionalError(loc, "(C2) input ", input, " and filter ", filter,
                            " do not match with ", groups, " groups");
    return {};
  }
  SmallVector<int64_t> shape = {input.getDimSize(0), filter.getDimSize(0)};
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t count = windowCount(
        input.getDimSize(i + 2), filter.getDimSize(i + 2), window.strides[i],
        window.low[i], window.high[i], window.dilation[i]);
    if (count < 0) {
      (void)emitOptionalError(loc, "(C2) the filter ", filter,
                              " is larger than the padded input ", input);
      return {};
    }
    shape.push_back(count);
  }
  return RankedTensorType::get(shape, input.getElementType());
}

LogicalResult ConvolutionOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> loc,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  auto type = convolutionType(loc, tensorType(adaptor.getInput()),
                              tensorType(adaptor.getFilter()),
                              {adaptor.getStrides(), adaptor.getPaddingLow(),
                               adaptor.getPaddingHigh(), adaptor.getDilation()},
                              adaptor.getGroups());
  if (!type)
    return failure();
  types.push_back(type);
  return success();
}

/// (C1) of both gradients: the convolution of `input` and `filter` has the
/// cotangent's type.
template <typename Op>
static LogicalResult verifyConvolutionGradient(Op op, RankedTensorType input,
                                               RankedTensorType filter) {
  auto type = convolutionType(op.getLoc(), input, filter,
                              {op.getStrides(), op.getPaddingLow(),
                               op.getPaddingHigh(), op.getDilation()},
                              op.getGroups());
  if (!type)
    return failure();
  if (type != op.getCotangent().getType())
    return op.emitOpError("(C1) expected a cotangent of type ")
           << type << ", but got " << op.getCotangent().getType();
  return success();
}

LogicalResult ConvolutionInputGradientOp::verify() {
  return verifyConvolutionGradient(*this, cast<RankedTensorType>(getType()),
                                   tensorType(getFilter()));
}
LogicalResult ConvolutionFilterGradientOp::verify() {
  return verifyConvolutionGradient(*this, tensorType(getInput()),
                                   cast<RankedTensorType>(getType()));
}

/// The type of a reduce_window, or null with a message at `loc`.
static RankedTensorType windowType(std::optional<Location> loc, ReduceKind kind,
                                   RankedTensorType operand,
                                   ArrayRef<int64_t> sizes,
                                   WindowAttributes window) {
  size_t k = sizes.size();
  if ((kind != ReduceKind::Max && kind != ReduceKind::Sum) ||
      static_cast<int64_t>(k) > operand.getRank() || !window.isValid(k) ||
      llvm::any_of(sizes, [](int64_t i) { return i < 1; })) {
    (void)emitOptionalError(loc,
                            "(C1) expected max or sum, and as many strides, "
                            "paddings and dilations as window sizes");
    return {};
  }
  SmallVector<int64_t> shape(operand.getShape());
  int64_t first = operand.getRank() - k;
  for (size_t i = 0; i < k; ++i) {
    int64_t count =
        windowCount(operand.getDimSize(first + i), sizes[i], window.strides[i],
                    window.low[i], window.high[i], window.dilation[i]);
    if (count < 0) {
      (void)emitOptionalError(
          loc, "(C1) the window is larger than the padded operand ", operand);
      return {};
    }
    shape[first + i] = count;
  }
  return RankedTensorType::get(shape, operand.getElementType());
}

LogicalResult ReduceWindowOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> loc,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  auto type = windowType(loc, adaptor.getKind(),
                         tensorType(adaptor.getOperand()), adaptor.getWindow(),
                         {adaptor.getStrides(), adaptor.getPaddingLow(),
                          adaptor.getPaddingHigh(), adaptor.getDilation()});
  if (!type)
    return failure();
  types.push_back(type);
  return success();
}

LogicalResult ReduceWindowGradientOp::verify() {
  auto type = windowType(
      getLoc(), getKind(), tensorType(getOperand()), getWindow(),
      {getStrides(), getPaddingLow(), getPaddingHigh(), getDilation()});
  if (!type)
    return failure();
  if (type != getCotangent().getType())
    return emitOpError("(C1) expected a cotangent of type ")
           << type << ", but got " << getCotangent().getType();
  return success();
}
