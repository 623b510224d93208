//===- KernelBuilder.h - Short words for kernels in NVVM -------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_KERNELBUILDER_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_KERNELBUILDER_H

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace lockstep::gemm {

/// An operation builder with the arithmetic, memory accesses and control flow
/// of a hand-made kernel. Integers are i32 unless a name says otherwise, and
/// folded where they are constant.
class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  using Value = mlir::Value;
  using Values = llvm::SmallVector<mlir::Value>;

  mlir::Type globalPointer() const;
  mlir::Type sharedPointer() const;

  Value constant(int64_t value);
  Value constant64(int64_t value);
  Value constantF32(double value);

  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return add(a, constant(b)); }
  Value subtract(Value a, Value b);
  Value multiply(Value a, Value b);
  Value multiply(Value a, int64_t b) { return multiply(a, constant(b)); }
  Value divide(Value a, int64_t b);
  Value bitAnd(Value a, int64_t b);
  Value bitXor(Value a, Value b);
  Value bitXor(Value a, int64_t b) { return bitXor(a, constant(b)); }
  Value shiftLeft(Value a, int64_t bits);
  Value shiftRight(Value a, int64_t bits);
  Value equal(Value a, Value b);
  Value equal(Value a, int64_t b) { return equal(a, constant(b)); }
  Value lessUnsigned(Value a, int64_t b);
  Value lessThan(Value a, Value b);
  Value lessOrEqual(Value a, Value b);
  Value minimum(Value a, Value b);
  Value both(Value a, Value b);
  Value select(Value condition, Value a, Value b);

  Value addF32(Value a, Value b);
  Value multiplyF32(Value a, Value b);
  Value negateF32(Value a);
  Value fusedF32(Value a, Value b, Value c);
  /// One instruction, with a relative error of 2^-11.
  Value tanhF32(Value a);
  /// Two f32 as bf16 in one i32, the first one in the low half.
  Value packBFloat16(Value low, Value high);
  /// The halves of an i32 as f32.
  Value unpackLow(Value packed);
  Value unpackHigh(Value packed);

  /// Declares a kernel's dynamic shared memory, under a name that no other
  /// kernel has: modules of PTX are joined.
  static std::string declareSharedMemory(mlir::ModuleOp module,
                                         llvm::StringRef kernel,
                                         unsigned alignment);
  /// Its 32-bit address.
  Value getSharedAddress(llvm::StringRef name);
  /// The shared memory at a 32-bit address.
  Value shared(Value address);
  /// base + index elements of a type, in global memory.
  Value element(Value base, Value index, mlir::Type type);
  Value element(Value base, int64_t index, mlir::Type type);
  Value load(Value pointer, mlir::Type type, unsigned alignment,
             bool invariant = false);
  void store(Value value, Value pointer, unsigned alignment);
  Value extractElement(Value vector, int index);
  Value extractField(Value structure, int index);

  void ifThen(Value condition, llvm::function_ref<void()> body);
  Values ifThenElse(Value condition, mlir::TypeRange types,
                    llvm::function_ref<Values()> thenBody,
                    llvm::function_ref<Values()> elseBody);
  Values loop(Value begin, Value end, Value step, mlir::ValueRange initial,
              llvm::function_ref<Values(Value, mlir::ValueRange)> body);

  /// Inline PTX with side effects; null result type for none.
  Value assembly(llvm::StringRef text, llvm::StringRef constraints,
                 mlir::ValueRange operands, mlir::Type result = nullptr);
  /// A named barrier of some of the block's threads.
  void barrier(Value id, int threads);
  void arriveAtBarrier(Value id, int threads);
  /// Waits until the phase of this parity has completed.
  void waitForPhase(Value address, Value parity);

private:
  template <typename Op> Value binary(Value a, Value b) {
    return createOrFold<Op>(a, b);
  }
};

} // namespace lockstep::gemm

#endif
