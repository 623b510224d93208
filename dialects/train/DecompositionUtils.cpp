//===- DecompositionUtils.cpp - Short ways to build train operations
//----------------===//
#include "dialects/train/DecompositionUtils.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace lockstep::train {

Type getComputeType(Type type) {
  return type.isF16() || type.isBF16()
             ? Type(Float32Type::get(type.getContext()))
             : type;
}

RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}
ArrayRef<int64_t> getShape(Value value) {
  return getTensorType(value).getShape();
}
Type getElementType(Value value) {
  return getTensorType(value).getElementType();
}

SmallVector<int64_t> getOtherDims(int64_t rank, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> result;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(dims, i))
      result.push_back(i);
  return result;
}

SmallVector<int64_t> getDimRange(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq<int64_t>(begin, end));
}

//===--- Constants ---===//

Value TensorBuilder::constant(RankedTensorType type, double splat) {
  return ConstantOp::create(builder, loc, type, splat);
}
Value TensorBuilder::constantLike(Value like, double splat) {
  return constant(getTensorType(like), splat);
}
Value TensorBuilder::scalar(Type elementType, double value) {
  return constant(RankedTensorType::get({}, elementType), value);
}
Value TensorBuilder::iota(ArrayRef<int64_t> shape, Type elementType,
                          int64_t dimension) {
  return IotaOp::create(builder, loc, RankedTensorType::get(shape, elementType),
                        dimension);
}

//===--- Pointwise ---===//

Value TensorBuilder::add(Value a, Value b) {
  return AddOp::create(builder, loc, a.getType(), a, b);
}
Value TensorBuilder::subtract(Value a, Value b) {
  return SubtractOp::create(builder, loc, a.getType(), a, b);
}
Value TensorBuilder::multiply(Value a, Value b) {
  return MultiplyOp::create(builder, loc, a.getType(), a, b);
}
Value TensorBuilder::divide(Value a, Value b) {
  return DivideOp::create(builder, loc, a.getType(), a, b);
}
Value TensorBuilder::negate(Value a) {
  return NegateOp::create(builder, loc, a.getType(), a);
}
Value TensorBuilder::exponential(Value a) {
  return ExponentialOp::create(builder, loc, a.getType(), a);
}
Value TensorBuilder::log(Value a) {
  return LogOp::create(builder, loc, a.getType(), a);
}
Value TensorBuilder::sqrt(Value a) {
  return SqrtOp::create(builder, loc, a.getType(), a);
}
Value TensorBuilder::rsqrt(Value a) {
  return RsqrtOp::create(builder, loc, a.getType(), a);
}
Value TensorBuilder::logicalAnd(Value a, Value b) {
  return AndOp::create(builder, loc, a.getType(), a, b);
}
Value TensorBuilder::compare(CompareDirection direction, Value a, Value b) {
  return CompareOp::create(builder, loc,
                           getTensorType(a).clone(builder.getI1Type()),
                           direction, a, b);
}
Value TensorBuilder::select(Value pred, Value onTrue, Value onFalse) {
  return SelectOp::create(builder, loc, onTrue.getType(), pred, onTrue,
                          onFalse);
}
Value TensorBuilder::convert(Value a, Type elementType) {
  if (getElementType(a) == elementType)
    return a;
  return ConvertOp::create(builder, loc, getTensorType(a).clone(elementType),
                           a);
}

//===--- Shape ---===//

Value TensorBuilder::reshape(Value a, ArrayRef<int64_t> shape) {
  if (getShape(a) == shape)
    return a;
  return ReshapeOp::create(builder, loc,
                           RankedTensorType::get(shape, getElementType(a)), a);
}

Value TensorBuilder::transpose(Value a, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape = llvm::map_to_vector(
      permutation, [&](int64_t i) { return getShape(a)[i]; });
  return TransposeOp::create(builder, loc,
                             RankedTensorType::get(shape, getElementType(a)), a,
                             permutation);
}

Value TensorBuilder::slice(Value a, ArrayRef<int64_t> starts,
                           ArrayRef<int64_t> limits,
                           ArrayRef<int64_t> strides) {
  SmallVector<int64_t> shape;
  for (auto [start, limit, stride] : llvm::zip_equal(starts, limits, strides))
    shape.push_back((limit - start + stride - 1) / stride);
  return SliceOp::create(builder, loc,
                         RankedTensorType::get(shape, getElementType(a)), a,
                         starts, limits, strides);
}

Value TensorBuilder::broadcast(Value a, ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> dims) {
  if (getShape(a) == shape)
    return a;
  return BroadcastInDimOp::create(
      builder, loc, RankedTensorType::get(shape, getElementType(a)), a, dims);
}

Value TensorBuilder::broadcastScalar(Value a, ArrayRef<int64_t> shape) {
  return broadcast(a, shape, {});
}

Value TensorBuilder::broadcastRows(Value a, ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> reducedDims) {
  return broadcast(a, shape, getOtherDims(shape.size(), reducedDims));
}

Value TensorBuilder::broadcastTrailing(Value a, ArrayRef<int64_t> shape) {
  int64_t rank = shape.size();
  return broadcast(a, shape,
                   getDimRange(rank - getTensorType(a).getRank(), rank));
}

Value TensorBuilder::broadcastTo(Value a, ArrayRef<int64_t> shape) {
  return broadcastTrailing(a, shape);
}

Value TensorBuilder::sumTo(Value a, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = getShape(a);
  if (from == shape)
    return a;
  int64_t leading = from.size() - shape.size();
  SmallVector<int64_t> dims;
  for (int64_t i = 0, e = from.size(); i < e; ++i)
    if (i < leading || (shape[i - leading] == 1 && from[i] != 1))
      dims.push_back(i);
  // Dimensions of size 1 that were new vanish in the reduction as well.
  return reshape(sum(a, dims), shape);
}

//===--- Reductions ---===//

Value TensorBuilder::reduce(ReduceKind kind, Value a, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return a;
  SmallVector<int64_t> shape =
      llvm::map_to_vector(getOtherDims(getTensorType(a).getRank(), dims),
                          [&](int64_t i) { return getShape(a)[i]; });
  return ReduceOp::create(builder, loc,
                          RankedTensorType::get(shape, getElementType(a)), kind,
                          a, dims);
}

Value TensorBuilder::reduceKeepDims(ReduceKind kind, Value a,
                                    ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape(getShape(a));
  for (int64_t i : dims)
    shape[i] = 1;
  return reshape(reduce(kind, a, dims), shape);
}

Value TensorBuilder::sum(Value a, ArrayRef<int64_t> dims) {
  return reduce(ReduceKind::Sum, a, dims);
}
Value TensorBuilder::sumAll(Value a) {
  return sum(a, getDimRange(0, getTensorType(a).getRank()));
}
Value TensorBuilder::max(Value a, ArrayRef<int64_t> dims) {
  return reduce(ReduceKind::Max, a, dims);
}

Value TensorBuilder::mean(Value a, ArrayRef<int64_t> dims) {
  double count = 1;
  for (int64_t i : dims)
    count *= getShape(a)[i];
  return divide(sum(a, dims), count);
}

//===--- Products ---===//

Value TensorBuilder::dotGeneral(Value lhs, Value rhs,
                                ArrayRef<int64_t> lhsBatch,
                                ArrayRef<int64_t> rhsBatch,
                                ArrayRef<int64_t> lhsContract,
                                ArrayRef<int64_t> rhsContract) {
  SmallVector<int64_t> shape;
  auto appendFree = [&](Value v, ArrayRef<int64_t> batch,
                        ArrayRef<int64_t> contract) {
    for (auto [i, size] : llvm::enumerate(getShape(v)))
      if (!llvm::is_contained(batch, int64_t(i)) &&
          !llvm::is_contained(contract, int64_t(i)))
        shape.push_back(size);
  };
  for (int64_t i : lhsBatch)
    shape.push_back(getShape(lhs)[i]);
  appendFree(lhs, lhsBatch, lhsContract);
  appendFree(rhs, rhsBatch, rhsContract);
  return DotGeneralOp::create(
      builder, loc, RankedTensorType::get(shape, getElementType(lhs)), lhs, rhs,
      lhsBatch, rhsBatch, lhsContract, rhsContract);
}

} // namespace lockstep::train
