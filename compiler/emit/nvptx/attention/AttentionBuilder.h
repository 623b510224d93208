//===- AttentionBuilder.h - Instructions of attention kernels --*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONBUILDER_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONBUILDER_H

#include "compiler/emit/nvptx/gemm/KernelBuilder.h"

namespace lockstep::attention {

using mlir::Value;
using Values = llvm::SmallVector<Value>;

/// A matrix of bf16 in shared memory: columns of 64 lie together, rows of 128
/// bytes with the 128-byte swizzle; the next 64 columns follow all the rows.
struct Matrix {
  /// In units of 16 bytes.
  Value address;
  int rows;
};

/// What GEMM kernels say, and the words that only attention has. The sums of a
/// product are four f32 for each 8 columns: columns 2i and 2i+1 (i: lane modulo
/// 4) of the rows lane / 4 and lane / 4 + 8 of the warp's 16.
class AttentionBuilder : public gemm::KernelBuilder {
public:
  using gemm::KernelBuilder::KernelBuilder;

  Value undefined(mlir::Type type);
  Value undefinedF32() { return undefined(getF32Type()); }
  Value subtractF32(Value a, Value b);
  Value maximumF32(Value a, Value b);
  Value negateF32(Value a);
  Value equalF32(Value a, Value b);
  Value lessF32(Value a, Value b);
  /// One instruction each.
  Value exp2F32(Value a);
  Value log2F32(Value a);
  /// By a polynomial: relative error 7.5e-5.
  Value polynomialExp2F32(Value a);
  Value greaterThan(Value a, Value b) { return lessThan(b, a); }
  Value extend(Value a);
  Value maximum(Value a, Value b);
  Value divideUnsigned(Value a, Value b);

  /// From the lane whose number differs in some bits; from a lane.
  Value exchange(Value a, int bits);
  Value fromLane(Value a, Value lane);
  /// Inline PTX that may be moved and removed.
  Value pureAssembly(llvm::StringRef text, llvm::StringRef constraints,
                     mlir::ValueRange operands, mlir::Type result);
  /// The same number, but nothing computed from it is moved out of loops:
  /// hoisted addresses would take registers that the products need.
  Value hide(Value a);
  mlir::Type structOfF32(int count);
  Values extractAll(Value structure, int count);

  //===--------------------------------------------------------------------===//
  // Barriers and copies
  //===--------------------------------------------------------------------===//

  void synchronizeWarp();
  void arrive(Value barrier);
  /// Arrives, and makes the phase wait for so many bytes.
  void expectBytes(Value barrier, int bytes);
  void copyBox(Value map, Value target, mlir::ValueRange coordinates,
               Value barrier);
  /// Contiguous bytes of global memory.
  void copyBytes(Value target, Value source, int bytes, Value barrier);
  /// Two f32 of shared memory. With side effects, so that the load is not moved
  /// before the wait for the copy that brings them.
  Values loadSharedPair(Value address);
  void storeBox(Value map, Value source, mlir::ValueRange coordinates);
  void commitCopies();
  /// Until at most so many groups of copies still read shared memory, or still
  /// write global memory.
  void waitForReads(int groups);
  void waitForWrites(int groups);
  /// Makes this thread's stores to shared memory visible to copies and
  /// products.
  void fenceSharedStores();
  /// Four 8 x 8 matrices, a packed pair of each in each lane.
  void storeMatrices(Value address, mlir::ValueRange packed);
  /// Neighbouring sums as packed bf16: a warpgroup's rows as they are stored
  /// (storeMatrices) and as they are the first operand of a product.
  Values packSums(llvm::ArrayRef<Value> sums);

  //===--------------------------------------------------------------------===//
  // Products of a warpgroup (wgmma): 64 rows
  //===--------------------------------------------------------------------===//

  /// Before products whose registers ordinary instructions have written.
  void fenceProducts();
  /// Until at most so many groups of products run.
  void waitForProducts(int groups);
  /// The same, and the sums as they are then: nothing that reads the result is
  /// moved before the wait.
  Values settle(int groups, llvm::ArrayRef<Value> sums);
  /// a b^T over `depth` columns; b has `columns` rows. One group.
  Values multiplyRows(Matrix a, Matrix b, int columns, int depth);
  /// sums + p b: p from packSums, `depth` rows of b. With `keep`, an i32, the
  /// sums are replaced where it is 0. One group.
  Values accumulate(llvm::ArrayRef<Value> sums, llvm::ArrayRef<Value> packed,
                    Matrix b, int depth, Value keep = nullptr);
  /// a^T b: 64 columns of each, over `depth` rows. One group.
  Values multiplyColumns(Matrix a, Matrix b, int depth);

private:
  Value getDescriptor(Value address, int leadingBytes);
  Value multiply64(Value sums, mlir::Type type, Value a, Value b, int columns,
                   bool first, bool transposed);
  void commitProducts();
};

} // namespace lockstep::attention

#endif
