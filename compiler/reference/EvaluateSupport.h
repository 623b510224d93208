//===- EvaluateSupport.h - Shared pieces of the reference evaluation ----*- C++
//-*-===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_EVALUATESUPPORT_H
#define LOCKSTEP_COMPILER_REFERENCE_EVALUATESUPPORT_H

#include "compiler/reference/HostTensor.h"
#include "dialects/train/Train.h"

namespace lockstep {

using Operands = llvm::ArrayRef<HostTensor>;
using Results = llvm::SmallVectorImpl<HostTensor>;

/// EvaluableOpInterface of `Op`, answered by a function.
template <typename Op,
          mlir::LogicalResult (*evaluateOp)(Op, Operands, Results &)>
struct EvaluableModel
    : train::EvaluableOpInterface::ExternalModel<EvaluableModel<Op, evaluateOp>,
                                                 Op> {
  mlir::LogicalResult evaluate(mlir::Operation *op, Operands operands,
                               Results &results) const {
    return evaluateOp(llvm::cast<Op>(op), operands, results);
  }
};

template <typename Op,
          mlir::LogicalResult (*evaluateOp)(Op, Operands, Results &)>
void attachEvaluation(mlir::MLIRContext *context) {
  Op::template attachInterface<EvaluableModel<Op, evaluateOp>>(*context);
}

// One per file of evaluations; all are called by
// registerEvaluableExternalModels.
void attachPointwiseEvaluations(mlir::MLIRContext *context);
void attachDataEvaluations(mlir::MLIRContext *context);
void attachContractionEvaluations(mlir::MLIRContext *context);
void attachWindowEvaluations(mlir::MLIRContext *context);
void attachModelEvaluations(mlir::MLIRContext *context);
void attachAttentionEvaluations(mlir::MLIRContext *context);
void attachStepEvaluations(mlir::MLIRContext *context);

inline mlir::RankedTensorType getResultType(mlir::Operation *op,
                                            unsigned i = 0) {
  return llvm::cast<mlir::RankedTensorType>(op->getResult(i).getType());
}

/// The operand of an optional group: consumes it from `operands` if `present`.
inline const HostTensor *takeOptional(Operands &operands, bool present) {
  if (!present)
    return nullptr;
  const HostTensor *first = &operands.front();
  operands = operands.drop_front();
  return first;
}

/// A shape seen as [outer, size, inner] around one dimension.
struct AroundDimension {
  int64_t outer = 1, size, inner = 1;
  AroundDimension(llvm::ArrayRef<int64_t> shape, int64_t dimension)
      : size(shape[dimension]) {
    for (int64_t i = 0, e = shape.size(); i < e; ++i)
      (i < dimension ? outer : inner) *= i == dimension ? 1 : shape[i];
  }
  int64_t at(int64_t o, int64_t i, int64_t k) const {
    return (o * size + k) * inner + i;
  }
  /// Calls f(row number, offset of its first element); elements are `inner`
  /// apart.
  template <typename F> void forEachRow(F f) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        f(o * inner + i, at(o, i, 0));
  }
};

/// Calls f(linear row-major position, coordinates) for every element of a
/// shape.
template <typename F> void forEachIndex(llvm::ArrayRef<int64_t> shape, F f) {
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t position = 0; position < count; ++position) {
    f(position, llvm::ArrayRef<int64_t>(index));
    for (int64_t i = int64_t(shape.size()) - 1;
         i >= 0 && ++index[i] == shape[i]; --i)
      index[i] = 0;
  }
}

/// The tensor whose element at `index` is the source's at offset + sum of
/// index[i] * strides[i].
HostTensor readStrided(const HostTensor &source, llvm::ArrayRef<int64_t> shape,
                       int64_t offset, llvm::ArrayRef<int64_t> strides);
HostTensor transpose(const HostTensor &source,
                     llvm::ArrayRef<int64_t> permutation);

/// Joins tensors along a dimension, in which alone they may differ.
HostTensor concatenate(llvm::ArrayRef<HostTensor> parts, int64_t dim);
/// Block `place` of `count` equal blocks along `dim`.
HostTensor getBlock(const HostTensor &tensor, int64_t dim, int64_t place,
                    int64_t count);

/// The neutral element of a combination; for max and min the extreme value of
/// `type`.
double getNeutralDouble(train::ReduceKind kind);
int64_t getNeutralInt(train::ReduceKind kind, mlir::Type type);
/// NaN wins in max and min.
double combine(train::ReduceKind kind, double a, double b);
int64_t combine(train::ReduceKind kind, int64_t a, int64_t b);

} // namespace lockstep

#endif
