// Walks the nodes of an exported graph in order and lowers each to `train`
// operations. The state: which tensor each name stands for (Aliases.h), the
// bound symbols, the random generator's argument, and the table of operators.
#ifndef LOCKSTEP_COMPILER_IMPORT_ATEN_LOWERING_H
#define LOCKSTEP_COMPILER_IMPORT_ATEN_LOWERING_H

#include "compiler/import/aten/OpCall.h"
#include "llvm/ADT/StringMap.h"
#include <unordered_map>
#include <unordered_set>

namespace lockstep::aten {

using LowerFn = void (*)(OpCall &);

enum class Form {
  Plain,
  Pointwise, ///< hidden vmap dimensions are aligned like leading dimensions
  View,      ///< results share memory with the argument "self"
};

struct Operator {
  LowerFn lower = nullptr;
  Form form = Form::Plain;
  llvm::StringRef name; ///< the functional form's base name
};

/// The table: base name of an ATen operator ("add", for all overloads) → how it
/// is lowered.
class OperatorTable {
public:
  void add(llvm::StringRef name, LowerFn lower, Form form = Form::Plain) {
    auto &entry = *operators.try_emplace(name).first;
    entry.second = {lower, form, entry.first()};
  }
  void add(std::initializer_list<llvm::StringRef> names, LowerFn lower,
           Form form = Form::Plain) {
    for (llvm::StringRef name : names)
      add(name, lower, form);
  }
  const Operator *find(llvm::StringRef name) const {
    auto it = operators.find(name);
    return it == operators.end() ? nullptr : &it->second;
  }
  std::vector<std::string> names() const;

  static const OperatorTable &get();

private:
  llvm::StringMap<Operator> operators;
};

// One per file of lowerings.
void addPointwise(OperatorTable &table);
void addActivations(OperatorTable &table);
void addComparisons(OperatorTable &table);
void addViews(OperatorTable &table);
void addShuffles(OperatorTable &table);
void addCreation(OperatorTable &table);
void addReductions(OperatorTable &table);
void addOrdering(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addScatters(OperatorTable &table);
void addLinear(OperatorTable &table);
void addGroupedProducts(OperatorTable &table);
void addEinsum(OperatorTable &table);
void addConvolutions(OperatorTable &table);
void addPooling(OperatorTable &table);
void addComplexNumbers(OperatorTable &table);
void addDiagonals(OperatorTable &table);
void addGridSampling(OperatorTable &table);
void addMarginLosses(OperatorTable &table);
void addSpecialFunctions(OperatorTable &table);
void addResampling(OperatorTable &table);
void addNormalization(OperatorTable &table);
void addAttention(OperatorTable &table);
void addLosses(OperatorTable &table);
void addRecurrent(OperatorTable &table);
void addHigherOrder(OperatorTable &table);

/// Names of one graph; subgraphs of higher-order operators have their own.
struct Scope {
  const pt2::Graph *graph = nullptr;
  std::unordered_map<std::string_view, TensorRef> tensors;
  /// Real and imaginary parts of complex tensors, which are not in `tensors`.
  std::unordered_map<std::string_view, std::pair<TensorRef, TensorRef>>
      complexes;
  /// Names that a node or the graph's outputs read.
  std::unordered_set<std::string_view> used;
};

/// The tensors that a node reads or makes, lists taken apart.
using TensorNames = llvm::SmallVector<std::string_view>;
TensorNames inputNames(const pt2::Node &node);
TensorNames outputNames(const pt2::Node &node);

/// How a target is lowered: in place and `out=` forms are their functional
/// forms followed by a write.
struct ResolvedTarget {
  const Operator *op = nullptr;
  llvm::StringRef base, overload;
  bool inPlace = false, out = false;
};
ResolvedTarget resolveTarget(std::string_view target);

class Lowering {
public:
  Lowering(mlir::OpBuilder &builder, pt2::SymbolBindings &bindings)
      : emit(builder), bindings(bindings) {}

  Emitter emit;
  /// Sizes that depend on constant masks are bound when they are known.
  pt2::SymbolBindings &bindings;
  /// Positive inside no_grad: what is written there carries no gradient.
  int noGradDepth = 0;
  /// While one part of a complex tensor is lowered: its type is the part's.
  bool partsOfComplex = false;
  /// vmap sizes, by level; level 1 is the outermost.
  llvm::SmallVector<int64_t> vmapSizes;

  /// Lowers all nodes. On failure returns the message, which names the node and
  /// its source line.
  std::optional<std::string> run(Scope &scope);

  /// tensor<2xi64>: seed and step; an argument of the function, made on first
  /// use.
  mlir::Value rng();
  int64_t nextDropoutId() { return dropoutId++; }
  mlir::Value rngArgument;

  std::optional<mlir::Type> elementType(pt2::ScalarType type);
  /// The shape in which `meta` says a tensor is, symbols bound. Fails when it
  /// is too large or has an unbound symbol.
  std::optional<Shape> shapeOf(const pt2::TensorMeta &meta);
  mlir::Location location(const pt2::Node &node);

private:
  /// The results of `node` carry no gradient.
  void stopGradients(Scope &scope, const pt2::Node &node);
  /// Whether the node reads or makes complex tensors; its lowering.
  bool hasComplex(Scope &scope, const pt2::Node &node);
  bool lowerComplex(Scope &scope, const pt2::Node &node,
                    const ResolvedTarget &target);
  bool lowerNode(Scope &scope, const pt2::Node &node);
  int64_t dropoutId = 0;
};

} // namespace lockstep::aten

#endif // LOCKSTEP_COMPILER_IMPORT_ATEN_LOWERING_H
