// One node of the graph as its lowering sees it: arguments by schema name with
// their defaults, operands as values, PyTorch's type promotion, and where the
// results go. A wrong or missing argument makes the emitter fail; lowerings
// read all their arguments first and may then return early on `bad()`.
#ifndef LOCKSTEP_COMPILER_IMPORT_ATEN_OPCALL_H
#define LOCKSTEP_COMPILER_IMPORT_ATEN_OPCALL_H

#include "compiler/import/aten/Aliases.h"
#include "compiler/import/pt2/ExportedProgram.h"
#include <optional>
#include <string_view>

namespace lockstep::aten {

class Lowering;
struct Scope;

/// A Python number.
struct Scalar {
  double real = 0;
  int64_t integer = 0;
  enum class Kind { Bool, Int, Float } kind = Kind::Int;
};

class OpCall {
public:
  OpCall(Lowering &lowering, Scope &scope, const pt2::Node &node,
         bool alignsLevels);

  Lowering &lowering;
  Scope &scope;
  const pt2::Node &node;
  Emitter &t;
  /// "add" and "Tensor" of torch.ops.aten.add.Tensor.
  llvm::StringRef base, overload;
  /// Of in-place and `out=` forms: the argument that result 0 is written to.
  llvm::StringRef written;
  /// vmap levels that the results have.
  llvm::SmallVector<int64_t> levels;

  bool bad() const { return t.failed(); }
  void unsupported(const llvm::Twine &what) { t.fail("unsupported: " + what); }

  //===-- Arguments -------------------------------------------------------===//
  const pt2::Argument *argument(llvm::StringRef name);
  /// Present and not None.
  bool has(llvm::StringRef name);
  bool isTensor(llvm::StringRef name);
  /// Arguments that make no difference to values.
  void ignore(std::initializer_list<llvm::StringRef> names);
  void ignoreAll() { llvm::fill(seen, true); }

  mlir::Value tensor(llvm::StringRef name);
  mlir::Value optionalTensor(llvm::StringRef name);
  /// A list of tensors; null for None.
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name);
  TensorRef *ref(llvm::StringRef name);
  /// The tensor's logical shape and element type, without reading its value.
  Shape shape(llvm::StringRef name);
  mlir::Type element(llvm::StringRef name);

  int64_t integer(llvm::StringRef name,
                  std::optional<int64_t> fallback = std::nullopt);
  std::optional<int64_t> optionalInteger(llvm::StringRef name);
  Shape integers(llvm::StringRef name,
                 std::optional<Shape> fallback = std::nullopt);
  double real(llvm::StringRef name,
              std::optional<double> fallback = std::nullopt);
  std::optional<double> optionalReal(llvm::StringRef name);
  bool flag(llvm::StringRef name, bool fallback = false);
  std::string string(llvm::StringRef name, llvm::StringRef fallback);
  std::optional<mlir::Type> dtype(llvm::StringRef name = "dtype");
  Scalar number(llvm::StringRef name);
  /// A dimension, counted from the end when negative. Rank 0 counts as rank 1.
  int64_t dim(llvm::StringRef name, int64_t rank,
              std::optional<int64_t> fallback = std::nullopt);
  /// Distinct dimensions; all of them when absent, None or (as reductions have
  /// it) empty.
  Shape dims(llvm::StringRef name, int64_t rank);

  //===-- Promotion -------------------------------------------------------===//
  /// PyTorch's result_type of the named arguments (tensors and numbers).
  mlir::Type promote(llvm::ArrayRef<llvm::StringRef> names);
  /// A tensor or a number as a tensor of that element type.
  mlir::Value operand(llvm::StringRef name, mlir::Type element);

  //===-- Results ---------------------------------------------------------===//
  size_t resultCount() const { return names.size(); }
  bool isResultUsed(size_t i) const;
  Shape resultShape(size_t i = 0);
  mlir::Type resultElement(size_t i = 0);
  void result(mlir::Value value) { result(0, value); }
  /// Checks the shape against the file's, converts to its element type.
  void result(size_t i, mlir::Value value);
  void results(llvm::ArrayRef<mlir::Value> values);
  /// The result is the tensor that the argument names, or a view of it.
  void alias(size_t i, llvm::StringRef name,
             llvm::ArrayRef<ViewStep> steps = {});
  /// The named argument gets a new value in place.
  void write(llvm::StringRef name, mlir::Value value);

  /// Arguments that no lowering has looked at; non-empty means that something
  /// was not understood.
  std::string unreadArguments() const;

private:
  mlir::Value lift(TensorRef &ref, size_t logicalRank);
  TensorRef *refByName(std::string_view name);
  std::optional<int64_t> toInteger(const pt2::Argument &argument);
  std::optional<double> toReal(const pt2::Argument &argument);
  mlir::Value readTensor(std::string_view name);

  llvm::SmallVector<std::string_view>
      names; ///< of the results, lists flattened
  llvm::SmallVector<bool> seen;
  bool alignsLevels;
  size_t logicalRank = 0;
};

} // namespace lockstep::aten

#endif // LOCKSTEP_COMPILER_IMPORT_ATEN_OPCALL_H
