//===- DecompositionUtils.h - Short ways to build train operations ------*- C++
//-*-===//
//
// A TensorBuilder is an OpBuilder with a location and the small vocabulary in
// which derivatives, decompositions and importers are written: constants of a
// tensor's type, broadcasts of scalars, rows and trailing dimensions,
// reductions that keep or drop dimensions. It creates only primitive `train`
// operations, at the builder's insertion point, and leaves out those that would
// do nothing (a conversion to the same type, a reshape to the same shape).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_DECOMPOSITIONUTILS_H
#define LOCKSTEP_DIALECTS_TRAIN_DECOMPOSITIONUTILS_H

#include "dialects/train/Train.h"

namespace lockstep::train {

/// The element type in which a composite computes: f32 for f16 and bf16, else
/// `type` itself.
mlir::Type getComputeType(mlir::Type type);

/// The ranked type of a tensor value; every value of a `train` program has one.
mlir::RankedTensorType getTensorType(mlir::Value value);
llvm::ArrayRef<int64_t> getShape(mlir::Value value);
mlir::Type getElementType(mlir::Value value);

/// Dimensions 0 .. rank-1 that are not in `dims` (which is increasing).
llvm::SmallVector<int64_t> getOtherDims(int64_t rank,
                                        llvm::ArrayRef<int64_t> dims);
/// begin, begin + 1, ..., end - 1.
llvm::SmallVector<int64_t> getDimRange(int64_t begin, int64_t end);

class TensorBuilder {
public:
  TensorBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() { return loc; }

  //===--- Constants ---===//
  mlir::Value constant(mlir::RankedTensorType type, double splat);
  /// A constant of the type of `like`.
  mlir::Value constantLike(mlir::Value like, double splat);
  /// A rank-0 constant.
  mlir::Value scalar(mlir::Type elementType, double value);
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, mlir::Type elementType,
                   int64_t dimension);

  //===--- Pointwise; a double operand becomes a splat constant of the other
  // operand's type ---===//
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, double b) {
    return add(a, constantLike(a, b));
  }
  mlir::Value subtract(mlir::Value a, mlir::Value b);
  mlir::Value subtract(mlir::Value a, double b) {
    return subtract(a, constantLike(a, b));
  }
  mlir::Value subtract(double a, mlir::Value b) {
    return subtract(constantLike(b, a), b);
  }
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, double b) {
    return multiply(a, constantLike(a, b));
  }
  mlir::Value divide(mlir::Value a, mlir::Value b);
  mlir::Value divide(mlir::Value a, double b) {
    return divide(a, constantLike(a, b));
  }
  mlir::Value divide(double a, mlir::Value b) {
    return divide(constantLike(b, a), b);
  }
  mlir::Value square(mlir::Value a) { return multiply(a, a); }
  mlir::Value negate(mlir::Value a);
  mlir::Value exponential(mlir::Value a);
  mlir::Value log(mlir::Value a);
  mlir::Value sqrt(mlir::Value a);
  mlir::Value rsqrt(mlir::Value a);
  mlir::Value logicalAnd(mlir::Value a, mlir::Value b);
  mlir::Value compare(CompareDirection direction, mlir::Value a, mlir::Value b);
  mlir::Value compare(CompareDirection direction, mlir::Value a, double b) {
    return compare(direction, a, constantLike(a, b));
  }
  mlir::Value select(mlir::Value pred, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value select(mlir::Value pred, mlir::Value onTrue, double onFalse) {
    return select(pred, onTrue, constantLike(onTrue, onFalse));
  }
  mlir::Value select(mlir::Value pred, double onTrue, mlir::Value onFalse) {
    return select(pred, constantLike(onFalse, onTrue), onFalse);
  }
  /// To another element type; `a` itself where it has that type.
  mlir::Value convert(mlir::Value a, mlir::Type elementType);
  /// To the compute type of its element type.
  mlir::Value convertToCompute(mlir::Value a) {
    return convert(a, getComputeType(getElementType(a)));
  }

  //===--- Shape ---===//
  /// `a` itself where it has that shape.
  mlir::Value reshape(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value a, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value a, llvm::ArrayRef<int64_t> starts,
                    llvm::ArrayRef<int64_t> limits,
                    llvm::ArrayRef<int64_t> strides);
  /// Operand dimension i becomes dimension dims[i] of `shape`.
  mlir::Value broadcast(mlir::Value a, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  /// A rank-0 value everywhere.
  mlir::Value broadcastScalar(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  /// The inverse of a reduction: `a` has the dimensions of `shape` without
  /// `reducedDims`.
  mlir::Value broadcastRows(mlir::Value a, llvm::ArrayRef<int64_t> shape,
                            llvm::ArrayRef<int64_t> reducedDims);
  /// `a` has the last dimensions of `shape` (as a weight has).
  mlir::Value broadcastTrailing(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  /// numpy's rule: aligned at the last dimension, sizes 1 repeat.
  mlir::Value broadcastTo(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  /// The adjoint of broadcastTo: sums over what broadcasting to the shape of
  /// `a` repeated.
  mlir::Value sumTo(mlir::Value a, llvm::ArrayRef<int64_t> shape);

  //===--- Reductions ---===//
  /// The reduced dimensions disappear. `a` itself where `dims` is empty.
  mlir::Value reduce(ReduceKind kind, mlir::Value a,
                     llvm::ArrayRef<int64_t> dims);
  /// The reduced dimensions become 1.
  mlir::Value reduceKeepDims(ReduceKind kind, mlir::Value a,
                             llvm::ArrayRef<int64_t> dims);
  mlir::Value sum(mlir::Value a, llvm::ArrayRef<int64_t> dims);
  /// Sum of all elements, rank 0.
  mlir::Value sumAll(mlir::Value a);
  mlir::Value max(mlir::Value a, llvm::ArrayRef<int64_t> dims);
  /// The mean drops the dimensions, too.
  mlir::Value mean(mlir::Value a, llvm::ArrayRef<int64_t> dims);

  //===--- Products ---===//
  mlir::Value dotGeneral(mlir::Value lhs, mlir::Value rhs,
                         llvm::ArrayRef<int64_t> lhsBatch,
                         llvm::ArrayRef<int64_t> rhsBatch,
                         llvm::ArrayRef<int64_t> lhsContract,
                         llvm::ArrayRef<int64_t> rhsContract);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace lockstep::train

#endif
