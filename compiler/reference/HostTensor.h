//===- HostTensor.h - A tensor's value in memory ------------------------*- C++
//-*-===//
//
// The value of a `train` tensor: element type, shape, and row-major bytes that
// copies share and nobody changes. It serves the interpreter, constant folding
// and mask recognition. A splat keeps one element, so that large constants cost
// nothing. i1 takes one byte (0 or 1), all other types what they take in
// safetensors. Weights can be wrapped where they lie.
//
// Evaluations read a tensor as doubles (floating point) or as int64_t
// (integers, i1 as 0 or 1, ui8 as 0 to 255) and round the results to the
// element type: exact for everything but sums of i64 beyond 2^53, which use
// int64_t throughout.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_REFERENCE_HOSTTENSOR_H
#define LOCKSTEP_COMPILER_REFERENCE_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include <memory>
#include <vector>

namespace lockstep {

class HostTensor {
public:
  HostTensor() = default;

  /// Every element is `value` (rounded to the element type).
  static HostTensor splat(mlir::RankedTensorType type, double value);
  /// From row-major bytes in the tensor's layout, which are copied; there must
  /// be getNumBytes of them.
  static HostTensor copy(mlir::RankedTensorType type,
                         llvm::ArrayRef<char> bytes);
  /// Refers to bytes that `owner` keeps alive.
  static HostTensor wrap(mlir::RankedTensorType type,
                         std::shared_ptr<const char> bytes);
  /// From elements as numbers; there must be getNumElements of them.
  static HostTensor fromDoubles(mlir::RankedTensorType type,
                                llvm::ArrayRef<double> values);
  static HostTensor fromInts(mlir::RankedTensorType type,
                             llvm::ArrayRef<int64_t> values);
  /// Fails for attributes without data (an unloaded resource).
  static mlir::FailureOr<HostTensor> fromAttr(mlir::ElementsAttr attr);

  explicit operator bool() const { return static_cast<bool>(elementType); }
  mlir::Type getElementType() const { return elementType; }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(elementType); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getRank() const { return shape.size(); }
  int64_t getDimSize(int64_t i) const { return shape[i]; }
  int64_t getNumElements() const;
  /// Bytes of the whole tensor; a splat holds fewer.
  int64_t getNumBytes() const;
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }
  /// True when one element is kept for all. (A tensor with equal elements need
  /// not be one.)
  bool isSplat() const { return splatted; }

  /// Row-major elements: all of them, or one if this is a splat.
  const char *getData() const { return bytes.get(); }
  /// The same value with every element in memory.
  HostTensor expand() const;
  /// The same elements under another shape with as many.
  HostTensor reshape(llvm::ArrayRef<int64_t> newShape) const;
  /// A splat of the same value with any shape; `this` must be a splat or have
  /// one element.
  HostTensor resizeSplat(llvm::ArrayRef<int64_t> newShape) const;

  /// All elements, a splat's too. Integers become doubles, floating point is
  /// truncated toward zero.
  std::vector<double> toDoubles() const;
  std::vector<int64_t> toInts() const;
  /// One element, by row-major position.
  double getDouble(int64_t i) const;
  int64_t getInt(int64_t i) const;
  /// A dense attribute of the tensor's type.
  mlir::DenseElementsAttr toAttr() const;

  /// Bytes that one element of `type` takes.
  static int64_t getElementBytes(mlir::Type type);

private:
  HostTensor(mlir::RankedTensorType type, std::shared_ptr<const char> bytes,
             bool splatted);

  mlir::Type elementType;
  llvm::SmallVector<int64_t, 4> shape;
  std::shared_ptr<const char> bytes;
  bool splatted = false;
};

/// `value` rounded to the floating-point type `type`, ties to even.
double roundToFloatType(double value, mlir::Type type);

/// Row-major strides, in elements.
llvm::SmallVector<int64_t> getRowMajorStrides(llvm::ArrayRef<int64_t> shape);

} // namespace lockstep

#endif
