//===- ElementEmitter.h - Scalar code for elements of a region -*- C++ -*-===//
//
// Emits the code that computes one element of a value of a kernel's region, by
// recursion over the operations that define it: views change the index
// (Index.h), pointwise operations compute, arguments load. Code is placed at
// the outermost loop level at which its index is known and kept there, so that
// what belongs to a row is computed once per row.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_LOOPS_ELEMENTEMITTER_H
#define LOCKSTEP_COMPILER_EMIT_LOOPS_ELEMENTEMITTER_H

#include "compiler/emit/loops/Index.h"
#include "compiler/emit/math/ScalarBuilder.h"
#include "dialects/train/Train.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace lockstep::emit {

/// Sizes of loops, outer first. Planning splits them; `group` says which
/// original loop each piece belongs to.
struct LoopShape {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<int> group;

  /// One loop per size, each a group.
  static LoopShape get(llvm::ArrayRef<int64_t> sizes);
  llvm::SmallVector<int> positionsOf(int group) const;
};

/// All loop shapes of a kernel, kept between the passes of planning and
/// emission.
struct LoopShapes {
  std::vector<LoopShape> list;
  std::map<std::string, int>
      ofReduce; ///< reduces that are not among the kernel's stages

  /// Applies splits, (shape, position) -> size of the inner part. False if
  /// there are none.
  bool refine(const std::map<std::pair<int, int>, int64_t> &splits);
};

/// Neighbouring dimensions that a reduce treats alike.
struct Run {
  int64_t size;
  bool reduced;
};
llvm::SmallVector<Run> getRuns(train::ReduceOp op);

/// A buffer in memory: `pointer` to row-major elements of a tensor type.
struct Buffer {
  mlir::Value pointer;
  mlir::Type element;
};

/// Width of index arithmetic. 32 bits serve where every tensor of the kernel
/// has fewer than 2^31 elements, and are what a GPU divides fast.
enum class IndexWidth { I32 = 32, I64 = 64 };

/// What code for scalars may use on a target.
struct ScalarModel {
  IndexWidth indexWidth = IndexWidth::I64;
  Hardware hardware;
};

class ElementEmitter {
public:
  using Value = mlir::Value;
  /// Called with the digits of the loops and the carried values; returns the
  /// new carried values.
  using Body = llvm::function_ref<llvm::SmallVector<Value>(
      llvm::ArrayRef<Digit>, llvm::ArrayRef<Value>)>;

  /// `builder` stands in the entry block of the kernel's function, before its
  /// terminator, or is null while planning.
  ElementEmitter(mlir::OpBuilder *builder, mlir::Location loc,
                 LoopShapes &shapes, const ScalarModel &model = {});

  bool isPlanning() const { return !builder; }

  /// The element of `value` at `index`, in the type of computation
  /// (getComputeType).
  Value emit(Value value, llvm::ArrayRef<Digit> index);
  /// Stores an element of type of computation into a buffer.
  void store(const Buffer &buffer, Value element, llvm::ArrayRef<Digit> index);
  Value load(const Buffer &buffer, llvm::ArrayRef<Digit> index);
  /// The same with elements as they lie in memory (getStorageType), for copies
  /// between buffers of one type.
  void storeStored(const Buffer &buffer, Value stored,
                   llvm::ArrayRef<Digit> index);
  Value loadStored(const Buffer &buffer, llvm::ArrayRef<Digit> index);

  /// Where an argument lies.
  void bind(Value argument, Buffer buffer) { buffers[argument] = buffer; }
  Buffer bufferOf(Value argument) const { return buffers.lookup(argument); }
  /// Elements of `value` are asked of `provider` first, which may have none
  /// (and while planning gives null ones).
  using Provider = std::function<std::optional<Value>(llvm::ArrayRef<Digit>)>;
  void provide(Value value, Provider provider) {
    providers[value] = std::move(provider);
  }
  /// Makes `element` known as the element of `value` at `index`, at the index's
  /// level.
  void remember(Value value, llvm::ArrayRef<Digit> index, Value element);

  // ---- Loops and levels. Bodies are emitted at new, inner levels.
  /// One loop from `lower` to `upper` (numbers) in steps of `step`, 1 if null.
  /// `parallel`: iterations do not depend on one another through memory.
  llvm::SmallVector<Value> loop(
      Value lower, Value upper, llvm::ArrayRef<Value> init,
      llvm::function_ref<llvm::SmallVector<Value>(Value, llvm::ArrayRef<Value>)>
          body,
      bool parallel = true, Value step = {});
  /// Without carried values.
  void loop(Value lower, Value upper, llvm::function_ref<void(Value)> body,
            bool parallel = true);
  /// Nested loops over the positions `positions` of a shape.
  llvm::SmallVector<Value> loops(int shape, llvm::ArrayRef<int> positions,
                                 llvm::ArrayRef<Value> init, Body body);
  /// `then` under a condition, else `otherwise`; each gives one value of
  /// `type`.
  Value branch(Value condition, mlir::Type type,
               llvm::function_ref<Value()> then,
               llvm::function_ref<Value()> otherwise);
  void branch(Value condition, llvm::function_ref<void()> then);

  unsigned currentLevel() const { return levels.size() - 1; }
  /// Runs `body` with code placed at `level` (not deeper levels).
  void atLevel(unsigned level, llvm::function_ref<void()> body);
  ScalarBuilder &scalars() { return *scalar; }

  // ---- Numbers: values of the type of index arithmetic; null while planning.
  mlir::Type getIndexType() const { return indexType; }
  Value number(int64_t value);
  /// A signless integer as a number, and a number as an i64.
  Value toNumber(Value integer);
  Value toI64(Value number);

  // ---- Digits.
  Digit makeDigit(Value value, int64_t size, int shape = -1, int position = 0);
  /// Cuts an index into groups whose sizes are given, major first.
  llvm::SmallVector<Index> splitGroups(llvm::ArrayRef<Digit> index,
                                       llvm::ArrayRef<int64_t> sizes);
  /// The digits (at least one) as one number.
  Digit merge(llvm::ArrayRef<Digit> digits);
  /// The value 0, of size 1.
  Digit zeroDigit() { return constantDigit(0, 1); }
  /// A constant in [0, size).
  Digit constantDigit(int64_t value, int64_t size);
  /// digit * scale + offset, in [0, size). With `guarded` only under the
  /// present branch, so that nothing that follows from it is hoisted out.
  Digit affine(Digit digit, int64_t scale, int64_t offset, int64_t size,
               bool guarded = false);
  /// The number of the element, at the current level: the sum of digits times
  /// strides.
  Value linear(llvm::ArrayRef<Digit> index);

  /// The level at which all digits are known.
  static unsigned levelOf(llvm::ArrayRef<Digit> index);

  /// Splits that this pass of planning asked for: (shape, position) -> size of
  /// the inner part.
  std::map<std::pair<int, int>, int64_t> wantedSplits;
  LoopShapes &shapes;

  /// Memory of the function for `count` elements of the type of computation.
  Value stackBuffer(mlir::Type element, int64_t count);

private:
  struct Level {
    mlir::Block *block = nullptr;
    mlir::Block::iterator point;
    mlir::Attribute accessGroup;
    bool isBranch = false;
    std::map<std::pair<void *, std::vector<int64_t>>, Value> elements;
    std::map<std::vector<int64_t>, Digit> digits;
  };

  Value compute(Value value, llvm::ArrayRef<Digit> index);
  Value computeReduce(train::ReduceOp op, llvm::ArrayRef<Digit> index);
  Value computePad(train::PadOp op, llvm::ArrayRef<Digit> index);
  Value computeConcatenate(train::ConcatenateOp op,
                           llvm::ArrayRef<Digit> index);
  Value computeGather(train::GatherOp op, llvm::ArrayRef<Digit> index);
  std::optional<Value> computeSharedQuotient(train::DivideOp op,
                                             llvm::ArrayRef<Digit> index);
  std::optional<Value> computeIotaCompare(train::CompareOp op,
                                          llvm::ArrayRef<Digit> index);
  std::optional<Value> computeShiftedExponential(train::ExponentialOp op,
                                                 llvm::ArrayRef<Digit> index);
  Value computeIota(train::IotaOp op, llvm::ArrayRef<Digit> index);
  Value computeConstant(mlir::DenseElementsAttr table,
                        llvm::ArrayRef<Digit> index);
  Value computeDropout(train::DropoutOp op, llvm::ArrayRef<Digit> index);
  /// The operand's index for operations that only renumber.
  Index viewIndex(mlir::Operation *op, llvm::ArrayRef<Digit> index);

  /// The level at whose block `value` is computed.
  unsigned definingLevel(Value value);

  /// A digit computed by `body` once per level; `key` identifies it.
  Digit derive(std::vector<int64_t> key, unsigned level, int64_t size,
               llvm::function_ref<Value()> body);
  std::pair<Digit, Digit> split(Digit digit, int64_t inner);
  void pushLevel(mlir::Block *block, mlir::Attribute accessGroup,
                 bool isBranch);
  unsigned guardLevel() const;
  void placeAtTop();
  Value address(const Buffer &buffer, llvm::ArrayRef<Digit> index);

  mlir::OpBuilder *builder;
  mlir::Location loc;
  std::unique_ptr<ScalarBuilder> scalar;
  ScalarModel model;
  mlir::Type indexType;
  std::vector<std::unique_ptr<Level>> levels;
  llvm::DenseMap<Value, Buffer> buffers;
  llvm::DenseMap<Value, Provider> providers;
  int64_t nextId = 1;
};

} // namespace lockstep::emit

#endif
