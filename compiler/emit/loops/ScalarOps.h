//===- ScalarOps.h - Pointwise operations on scalars -----------*- C++ -*-===//
//
// Types. A tensor's element is stored as its storage type (i1 as a byte, bf16
// as its bits) and computed in its type of computation: f32 for f16 and bf16,
// whose results are rounded after every operation as the type says; i8 for ui8,
// whose operations are unsigned; else its own.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_SCALAROPS_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_SCALAROPS_H

#include "compiler/emit/math/ScalarBuilder.h"
#include "dialects/train/Train.h"

namespace lockstep::emit {

mlir::Type getComputeType(mlir::Type element);
mlir::Type getStorageType(mlir::Type element);
mlir::Value fromStorage(ScalarBuilder &b, mlir::Value stored,
                        mlir::Type element);
mlir::Value toStorage(ScalarBuilder &b, mlir::Value value, mlir::Type element);
/// Rounds an f32 to f16 or bf16 and back; other types stay.
mlir::Value roundTo(ScalarBuilder &b, mlir::Value value, mlir::Type element);
/// A constant of the type of computation.
mlir::Value getScalarConstant(ScalarBuilder &b, mlir::Attribute value,
                              mlir::Type element);

/// Conversion between element types, as train.convert says.
mlir::Value convertScalar(ScalarBuilder &b, mlir::Value value, mlir::Type from,
                          mlir::Type to);
/// True for operations that emitPointwise knows.
bool isScalarOp(mlir::Operation *op);
/// A pointwise operation on scalars of the types of computation; the result is
/// rounded.
mlir::Value emitPointwise(ScalarBuilder &b, mlir::Operation *op,
                          llvm::ArrayRef<mlir::Value> operands);

mlir::Value emitCompareInt(ScalarBuilder &b, train::CompareDirection direction,
                           mlir::Value x, mlir::Value y, bool isUnsigned);

/// Combines two elements of a reduction. `reassociate`: sums may be taken in
/// any order.
mlir::Value combine(ScalarBuilder &b, train::ReduceKind kind, mlir::Value x,
                    mlir::Value y, mlir::Type element, bool reassociate);
/// What a reduction starts from.
mlir::Value getNeutral(ScalarBuilder &b, train::ReduceKind kind,
                       mlir::Type element);

/// x clamped to [0, size - 1] as i64.
mlir::Value clampIndex(ScalarBuilder &b, mlir::Value x, mlir::Type element,
                       int64_t size);

/// Whether dropout keeps the element with this global index (i64): the Philox
/// word of (seed, id; step, index), compiler/reference/Philox.h, is at least
/// rate * 2^32.
mlir::Value emitKeep(ScalarBuilder &b, mlir::Value seed, mlir::Value step,
                     int64_t id, mlir::Value index, double rate);

} // namespace lockstep::emit

#endif
