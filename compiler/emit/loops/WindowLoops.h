//===- WindowLoops.h - Loops over sliding windows --------------*- C++ -*-===//
//
// The arithmetic of windows that slide over some dimensions of a tensor, for
// pooling and convolution. Along each dimension, tap t of the window at output
// o lies at place o * stride - low + t * dilation of the operand; places
// outside are padding and left out.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_WINDOWLOOPS_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_WINDOWLOOPS_H

#include "compiler/emit/loops/ElementEmitter.h"

namespace lockstep::emit {

/// One entry per windowed dimension.
struct WindowLoops {
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;
  using Digits = llvm::ArrayRef<Digit>;

  ElementEmitter &e;
  llvm::ArrayRef<int64_t> in, out, window, strides, low, dilation;

  /// Of an operation with those attributes; `operand` and `windowed` have the
  /// windowed dimensions last.
  template <typename OpTy>
  static WindowLoops
  get(ElementEmitter &e, OpTy op, llvm::ArrayRef<int64_t> window,
      mlir::RankedTensorType operand, mlir::RankedTensorType windowed) {
    size_t count = window.size();
    return {e,
            operand.getShape().take_back(count),
            windowed.getShape().take_back(count),
            window,
            op.getStrides(),
            op.getPaddingLow(),
            op.getDilation()};
  }

  /// For the taps of the window at `at` that are not padding, in order: `body`
  /// has the taps and their places in the operand.
  Values forTaps(
      Digits at, llvm::ArrayRef<Value> init,
      llvm::function_ref<Values(Digits, Digits, llvm::ArrayRef<Value>)> body,
      bool parallel = true);

  /// Carries one value over the windows that hold the element at `place`, in
  /// the order of the outputs: `body` has the taps at which they hold it, and
  /// the outputs.
  Value forWindows(Digits place, Value init, mlir::Type type,
                   llvm::function_ref<Value(Digits, Digits, Value)> body);
};

/// A pooling: the windowed dimensions are the last ones, the leading ones make
/// up one number, the plane.
struct Pooling {
  using Value = mlir::Value;

  template <typename OpTy>
  Pooling(ElementEmitter &e, OpTy op, mlir::RankedTensorType operand,
          mlir::RankedTensorType windowed)
      : e(e), loops(WindowLoops::get(e, op, op.getWindow(), operand, windowed)),
        kind(op.getKind()), element(operand.getElementType()) {
    for (int64_t size : operand.getShape().drop_back(loops.in.size()))
      planes *= size;
  }

  /// The index of an element of a plane.
  static Index getIndex(Digit plane, llvm::ArrayRef<Digit> digits);
  /// Computes the window at `at` of `op` and makes it known as the element of
  /// the result at the index that it gives.
  Index emitWindow(train::ReduceWindowOp op, Digit plane,
                   llvm::ArrayRef<Digit> at);
  /// Of the window at `at`: the first largest element, or the first NaN, and
  /// its number in the plane of `operand`, -1 where all is padding.
  std::pair<Value, Value> findLargest(Value operand, Digit plane,
                                      llvm::ArrayRef<Digit> at);

  ElementEmitter &e;
  WindowLoops loops;
  train::ReduceKind kind;
  mlir::Type element;
  int64_t planes = 1;
};

} // namespace lockstep::emit

#endif
