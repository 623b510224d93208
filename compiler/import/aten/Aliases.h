// Who shares memory with whom. PyTorch's training graphs write in place,
// through views and into buffers; `train` has values only. So every tensor of
// the graph is a Storage (the memory, with its present value) and a chain of
// view steps into it. Reading replays the chain when the storage has changed
// since; writing through a view puts the new elements back step by step until
// the storage has a new value, which every other view then sees.
#ifndef LOCKSTEP_COMPILER_IMPORT_ATEN_ALIASES_H
#define LOCKSTEP_COMPILER_IMPORT_ATEN_ALIASES_H

#include "compiler/import/aten/Emitter.h"
#include <memory>
#include <string>

namespace lockstep::aten {

/// One step from a tensor to a view of it.
struct ViewStep {
  enum class Kind {
    Reshape,      ///< a: shape
    Transpose,    ///< a: permutation
    Slice,        ///< a: starts, b: limits, c: strides
    Broadcast,    ///< a: shape (numpy's rule)
    StopGradient, ///< detach
    Opaque,       ///< a view that cannot be replayed (overlapping windows)
  };
  Kind kind;
  Shape a, b, c;

  mlir::Value apply(Emitter &emit, mlir::Value parent) const;
  /// The parent with the view's elements replaced.
  mlir::Value invert(Emitter &emit, mlir::Value parent, mlir::Value view) const;
};

/// Collects steps and follows the shape. `prefix` are hidden leading dimensions
/// (vmap's), which no step touches.
class ViewChain {
public:
  ViewChain(Dims prefix, Dims shape) : shape(shape), prefix(prefix) {}

  Shape shape;
  llvm::SmallVector<ViewStep> steps;

  void reshape(Dims newShape);
  void transpose(Dims permutation);
  void slice(int64_t dim, int64_t start, int64_t limit, int64_t step = 1);
  void broadcastTo(Dims newShape);
  void unsqueeze(int64_t dim);
  void squeeze(int64_t dim);
  void select(int64_t dim, int64_t index);
  void stopGradient();

private:
  Shape prefix;
};

struct Storage {
  enum class Kind { Temporary, Parameter, Buffer, Input, Constant };
  Kind kind = Kind::Temporary;
  std::string name;
  mlir::Value value;
  unsigned version = 0;
};

/// A tensor of the graph: a view of a storage.
struct TensorRef {
  std::shared_ptr<Storage> storage;
  llvm::SmallVector<ViewStep> chain;
  /// The view's value when the storage had `version`.
  mlir::Value cached;
  unsigned version = 0;
  /// vmap levels of the hidden leading dimensions, outermost first.
  llvm::SmallVector<int64_t> levels;

  static TensorRef fresh(mlir::Value value);
  mlir::Value read(Emitter &emit);
  /// Replaces the view's elements; fails for a parameter and for overlapping
  /// views.
  void write(Emitter &emit, mlir::Value value);
  TensorRef view(Emitter &emit, llvm::ArrayRef<ViewStep> steps);
};

} // namespace lockstep::aten

#endif // LOCKSTEP_COMPILER_IMPORT_ATEN_ALIASES_H
