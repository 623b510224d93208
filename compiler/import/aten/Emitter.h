// The vocabulary in which ATen's operators are written down as `train`
// operations: numpy broadcasting, scalars as splats, negative-free dimensions,
// and creation that never aborts. A shape that does not fit (a damaged or
// unusual file) makes the emitter fail with the operation's own message; from
// then on it hands out null values, which every method accepts.
#ifndef LOCKSTEP_COMPILER_IMPORT_ATEN_EMITTER_H
#define LOCKSTEP_COMPILER_IMPORT_ATEN_EMITTER_H

#include "dialects/train/Train.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace lockstep::aten {

using Shape = llvm::SmallVector<int64_t>;
using Dims = llvm::ArrayRef<int64_t>;

mlir::RankedTensorType typeOf(mlir::Value value);
Dims shapeOf(mlir::Value value);
int64_t rankOf(mlir::Value value);
mlir::Type elementOf(mlir::Value value);
int64_t countOf(Dims shape);
bool isFloat(mlir::Value value);
/// 0, 1, ..., n - 1.
Shape range(int64_t n);
/// numpy's rule; false when the shapes do not fit.
bool broadcastShapes(Dims a, Dims b, Shape &result);
/// f32 for f16 and bf16: the type in which PyTorch's kernels compute.
mlir::Type computeType(mlir::Type type);

class Emitter {
public:
  explicit Emitter(mlir::OpBuilder &builder)
      : b(builder), loc(builder.getUnknownLoc()) {}

  mlir::OpBuilder &b;
  mlir::Location loc;

  //===-- Failure ---------------------------------------------------------===//
  bool failed() const { return !error.empty(); }
  /// Keeps the first message; returns null.
  mlir::Value fail(const llvm::Twine &message);
  std::string takeError() { return std::move(error); }

  //===-- Types and constants ---------------------------------------------===//
  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type i1() { return b.getI1Type(); }
  mlir::RankedTensorType type(Dims shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }
  mlir::Value constant(Dims shape, mlir::Type element, double value);
  mlir::Value constantInt(Dims shape, mlir::Type element, int64_t value);
  mlir::Value like(mlir::Value value, double splat);
  mlir::Value scalar(mlir::Type element, double value) {
    return constant({}, element, value);
  }
  /// A small table of i64.
  mlir::Value table(Dims values);
  mlir::Value table(Dims values, Dims shape);
  mlir::Value iota(Dims shape, mlir::Type element, int64_t dim);

  //===-- Pointwise -------------------------------------------------------===//
  template <typename OpTy> mlir::Value unary(mlir::Value a) {
    return a ? OpTy::create(b, loc, a).getResult() : mlir::Value();
  }
  /// Broadcasts; the element types must be equal.
  template <typename OpTy> mlir::Value binary(mlir::Value a, mlir::Value c) {
    return align(a, c) ? OpTy::create(b, loc, a, c).getResult() : mlir::Value();
  }
  template <typename OpTy> mlir::Value binary(mlir::Value a, double c) {
    return binary<OpTy>(a, like(a, c));
  }
  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value sub(mlir::Value a, mlir::Value c) {
    return binary<train::SubtractOp>(a, c);
  }
  mlir::Value mul(mlir::Value a, mlir::Value c);
  mlir::Value div(mlir::Value a, mlir::Value c) {
    return binary<train::DivideOp>(a, c);
  }
  mlir::Value max(mlir::Value a, mlir::Value c) {
    return binary<train::MaximumOp>(a, c);
  }
  mlir::Value min(mlir::Value a, mlir::Value c) {
    return binary<train::MinimumOp>(a, c);
  }
  mlir::Value add(mlir::Value a, double c) { return add(a, like(a, c)); }
  mlir::Value sub(mlir::Value a, double c) { return sub(a, like(a, c)); }
  mlir::Value sub(double a, mlir::Value c) { return sub(like(c, a), c); }
  mlir::Value mul(mlir::Value a, double c) { return mul(a, like(a, c)); }
  mlir::Value div(mlir::Value a, double c) { return div(a, like(a, c)); }
  mlir::Value div(double a, mlir::Value c) { return div(like(c, a), c); }
  mlir::Value max(mlir::Value a, double c) { return max(a, like(a, c)); }
  mlir::Value min(mlir::Value a, double c) { return min(a, like(a, c)); }
  mlir::Value neg(mlir::Value a) { return unary<train::NegateOp>(a); }
  mlir::Value abs(mlir::Value a) { return unary<train::AbsOp>(a); }
  mlir::Value exp(mlir::Value a) { return unary<train::ExponentialOp>(a); }
  mlir::Value expm1(mlir::Value a) {
    return unary<train::ExponentialMinusOneOp>(a);
  }
  mlir::Value log(mlir::Value a) { return unary<train::LogOp>(a); }
  mlir::Value log1p(mlir::Value a) { return unary<train::LogPlusOneOp>(a); }
  mlir::Value sqrt(mlir::Value a) { return unary<train::SqrtOp>(a); }
  mlir::Value rsqrt(mlir::Value a) { return unary<train::RsqrtOp>(a); }
  mlir::Value tanh(mlir::Value a) { return unary<train::TanhOp>(a); }
  mlir::Value sigmoid(mlir::Value a) { return unary<train::LogisticOp>(a); }
  mlir::Value erf(mlir::Value a) { return unary<train::ErfOp>(a); }
  mlir::Value square(mlir::Value a) { return mul(a, a); }
  mlir::Value logicalNot(mlir::Value a) { return unary<train::NotOp>(a); }
  mlir::Value logicalAnd(mlir::Value a, mlir::Value c) {
    return binary<train::AndOp>(a, c);
  }
  mlir::Value logicalOr(mlir::Value a, mlir::Value c) {
    return binary<train::OrOp>(a, c);
  }
  mlir::Value compare(train::CompareDirection direction, mlir::Value a,
                      mlir::Value c);
  mlir::Value compare(train::CompareDirection direction, mlir::Value a,
                      double c) {
    return compare(direction, a, like(a, c));
  }
  mlir::Value lt(mlir::Value a, double c) {
    return compare(train::CompareDirection::LT, a, c);
  }
  mlir::Value gt(mlir::Value a, double c) {
    return compare(train::CompareDirection::GT, a, c);
  }
  mlir::Value le(mlir::Value a, double c) {
    return compare(train::CompareDirection::LE, a, c);
  }
  mlir::Value ge(mlir::Value a, double c) {
    return compare(train::CompareDirection::GE, a, c);
  }
  /// Broadcasts all three.
  mlir::Value select(mlir::Value pred, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value select(mlir::Value pred, mlir::Value onTrue, double onFalse) {
    return select(pred, onTrue, like(onTrue, onFalse));
  }
  mlir::Value select(mlir::Value pred, double onTrue, mlir::Value onFalse) {
    return select(pred, like(onFalse, onTrue), onFalse);
  }
  mlir::Value convert(mlir::Value a, mlir::Type element);
  mlir::Value toCompute(mlir::Value a) {
    return a ? convert(a, computeType(elementOf(a))) : a;
  }
  mlir::Value stopGradient(mlir::Value a) {
    return unary<train::StopGradientOp>(a);
  }

  //===-- Shape -----------------------------------------------------------===//
  mlir::Value reshape(mlir::Value a, Dims shape);
  mlir::Value transpose(mlir::Value a, Dims permutation);
  mlir::Value swapDims(mlir::Value a, int64_t dim0, int64_t dim1);
  mlir::Value slice(mlir::Value a, Dims starts, Dims limits, Dims strides);
  mlir::Value sliceDim(mlir::Value a, int64_t dim, int64_t start, int64_t limit,
                       int64_t step = 1);
  /// sliceDim of one element, without the dimension.
  mlir::Value at(mlir::Value a, int64_t dim, int64_t index);
  mlir::Value broadcast(mlir::Value a, Dims shape, Dims dims);
  mlir::Value broadcastTo(mlir::Value a, Dims shape);
  mlir::Value unsqueeze(mlir::Value a, int64_t dim);
  mlir::Value squeeze(mlir::Value a, int64_t dim);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> inputs, int64_t dim);
  mlir::Value pad(mlir::Value a, mlir::Value value, Dims low, Dims high,
                  Dims interior);
  mlir::Value padDim(mlir::Value a, int64_t dim, int64_t low, int64_t high,
                     double value);
  mlir::Value reverse(mlir::Value a, Dims dims);
  mlir::Value gather(mlir::Value a, llvm::ArrayRef<mlir::Value> indices,
                     Dims dims, int64_t batch);
  mlir::Value scatter(train::ScatterKind kind, mlir::Value base,
                      llvm::ArrayRef<mlir::Value> indices, mlir::Value updates,
                      Dims dims, int64_t batch);
  std::pair<mlir::Value, mlir::Value> sort(mlir::Value a, int64_t dim,
                                           bool descending);
  mlir::Value cumulative(train::ReduceKind kind, mlir::Value a, int64_t dim);

  //===-- Reductions and products -----------------------------------------===//
  mlir::Value reduce(train::ReduceKind kind, mlir::Value a, Dims dims,
                     bool keepDims = false);
  mlir::Value sum(mlir::Value a, Dims dims, bool keepDims = false) {
    return reduce(train::ReduceKind::Sum, a, dims, keepDims);
  }
  mlir::Value mean(mlir::Value a, Dims dims, bool keepDims = false);
  mlir::Value sumAll(mlir::Value a) { return a ? sum(a, range(rankOf(a))) : a; }
  mlir::Value argReduce(train::ReduceKind kind, mlir::Value a, int64_t dim);
  mlir::Value dot(mlir::Value lhs, mlir::Value rhs, Dims lhsBatch,
                  Dims rhsBatch, Dims lhsContract, Dims rhsContract);
  /// torch.matmul for all ranks.
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value softmax(mlir::Value a, int64_t dim, bool logarithm);

  /// Creates an operation with inferred result types; null, with the
  /// operation's message as error, when inference fails.
  template <typename OpTy>
  mlir::Operation *
  inferred(mlir::ValueRange operands,
           llvm::function_ref<void(typename OpTy::Properties &)> fill) {
    if (failed() || llvm::is_contained(operands, mlir::Value()))
      return nullptr;
    typename OpTy::Properties properties;
    fill(properties);
    llvm::SmallVector<mlir::Type> types;
    if (!infer(OpTy::getOperationName(), [&] {
          return OpTy::inferReturnTypes(b.getContext(), loc, operands, {},
                                        mlir::OpaqueProperties(&properties), {},
                                        types);
        }))
      return nullptr;
    mlir::OperationState state(loc, OpTy::getOperationName(), operands, types);
    state.getOrAddProperties<typename OpTy::Properties>() = properties;
    return b.create(state);
  }
  mlir::IntegerAttr integer(int64_t value) {
    return b.getI64IntegerAttr(value);
  }
  mlir::FloatAttr real(double value) { return b.getF64FloatAttr(value); }
  mlir::DenseI64ArrayAttr array(Dims values) {
    return b.getDenseI64ArrayAttr(values);
  }

private:
  /// Brings both to one shape.
  bool align(mlir::Value &a, mlir::Value &c);
  /// Runs an inference and turns its diagnostics into the error.
  bool infer(llvm::StringRef name,
             llvm::function_ref<mlir::LogicalResult()> inference);

  std::string error;
};

} // namespace lockstep::aten

#endif // LOCKSTEP_COMPILER_IMPORT_ATEN_EMITTER_H
