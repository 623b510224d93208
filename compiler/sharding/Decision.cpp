//===- Decision.cpp - How one operation is divided ------------------------===//
#include "compiler/sharding/Decision.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;
using namespace lockstep::train;

using FactorDims = SmallVector<SmallVector<int>>;

static int64_t getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
}

static bool isExpandable(Operation *op) {
  return isa<DecomposableOpInterface, ScatterOp>(op);
}

bool sharding::hasLocalStatistics(Operation *op) {
  if (auto norm = dyn_cast<BatchNormOp>(op))
    return norm.getLocalStatistics() && !norm.getInference();
  if (auto gradient = dyn_cast<BatchNormGradientOp>(op))
    return gradient.getLocalStatistics() && !gradient.getInference();
  return false;
}

namespace {

/// The axes over which each factor of a rule is divided.
class FactorAxes {
public:
  FactorAxes(const ShardingRule &rule, MeshOp mesh)
      : rule(rule), mesh(mesh), axes(rule.factors.size()) {}

  /// Takes over what the tensors' shardings propose; `weights` are the tensors'
  /// bytes.
  void merge(ArrayRef<FactorDims> tensors, ArrayRef<ShardingAttr> shardings,
             ArrayRef<int64_t> weights);
  /// Drops axes that cannot be; returns true if a Decompose factor remains
  /// divided.
  bool restrict(bool expandable);
  /// The sharding that the factors give a tensor.
  SmallVector<AxesAttr> getDims(const FactorDims &dims) const;
  /// Adds the axes of reductions that a result with these dimensions lacks.
  void addReductions(const FactorDims &dims, ReduceKind &kind,
                     AxisList &partial) const;
  bool uses(ArrayRef<AxisAttr> list) const {
    return llvm::any_of(
        axes, [&](const AxisList &own) { return overlaps(own, list); });
  }
  bool empty() const {
    return llvm::all_of(axes, [](const AxisList &own) { return own.empty(); });
  }

private:
  SmallVector<AxisList> project(const FactorDims &dims,
                                ShardingAttr sharding) const;
  bool dropUnsayable(ArrayRef<FactorDims> tensors);

  const ShardingRule &rule;
  MeshOp mesh;
  SmallVector<AxisList> axes;
};

} // namespace

SmallVector<AxisList> FactorAxes::project(const FactorDims &dims,
                                          ShardingAttr sharding) const {
  SmallVector<AxisList> proposed(rule.factors.size());
  for (auto [factors, dimAxes] : llvm::zip_equal(dims, sharding.getDims())) {
    AxisList queue(llvm::reverse(dimAxes.getAxes()));
    size_t k = 0;
    int64_t rest = factors.empty() ? 1 : rule.factors[factors[0]].size;
    while (!queue.empty() && k < factors.size()) {
      AxisAttr axis = queue.pop_back_val();
      int64_t size = getSize(axis, mesh);
      if (rest % size != 0) {
        if (rest <= 1 || size % rest != 0)
          break;
        auto [major, minor] = splitAxis(axis, rest, mesh);
        queue.push_back(minor);
        axis = major;
        size = rest;
      }
      proposed[factors[k]].push_back(axis);
      rest /= size;
      if (rest == 1 && ++k < factors.size())
        rest = rule.factors[factors[k]].size;
    }
  }
  return proposed;
}

void FactorAxes::merge(ArrayRef<FactorDims> tensors,
                       ArrayRef<ShardingAttr> shardings,
                       ArrayRef<int64_t> weights) {
  struct Candidate {
    AxisList axes;
    int64_t ranks = 1, weight = 0;
  };
  SmallVector<Candidate> best(rule.factors.size());
  for (auto [dims, sharding, weight] :
       llvm::zip_equal(tensors, shardings, weights))
    for (auto [factor, list] : llvm::enumerate(project(dims, sharding))) {
      int64_t ranks = getSize(list, mesh);
      Candidate &chosen = best[factor];
      if (!list.empty() && (ranks > chosen.ranks ||
                            (ranks == chosen.ranks && weight > chosen.weight)))
        chosen = {list, ranks, weight};
    }
  SmallVector<int> order = llvm::to_vector(llvm::seq<int>(0, best.size()));
  llvm::sort(order, [&](int a, int b) {
    return best[a].weight != best[b].weight ? best[a].weight > best[b].weight
                                            : a < b;
  });
  AxisList claimed;
  for (const AxisList &own : axes)
    llvm::append_range(claimed, own);
  for (int factor : order)
    for (AxisAttr axis : best[factor].axes) {
      if (overlaps(axis, claimed))
        break;
      axes[factor].push_back(axis);
      claimed.push_back(axis);
    }
}

bool FactorAxes::dropUnsayable(ArrayRef<FactorDims> tensors) {
  bool dropped = false;
  for (const FactorDims &dims : tensors)
    for (ArrayRef<int> factors : dims) {
      bool complete = true;
      for (int factor : factors) {
        if (!complete && !axes[factor].empty()) {
          axes[factor].clear();
          dropped = true;
        }
        complete &= getSize(axes[factor], mesh) == rule.factors[factor].size;
      }
    }
  return dropped;
}

bool FactorAxes::restrict(bool expandable) {
  std::optional<ReduceKind> kind;
  for (auto [factor, own] : llvm::zip_equal(rule.factors, axes)) {
    if (factor.kind == FactorKind::Replicate ||
        (factor.kind == FactorKind::Decompose && !expandable))
      own.clear();
    // One kind of partial value at a time.
    if (factor.kind == FactorKind::Reduction && !own.empty()) {
      if (kind && *kind != factor.reduction)
        own.clear();
      else
        kind = factor.reduction;
    }
  }
  bool dropped = true;
  while (dropped) {
    dropped = dropUnsayable(rule.operands);
    dropped |= dropUnsayable(rule.results);
  }
  return llvm::any_of(llvm::zip_equal(rule.factors, axes), [](auto entry) {
    return std::get<0>(entry).kind == FactorKind::Decompose &&
           !std::get<1>(entry).empty();
  });
}

SmallVector<AxesAttr> FactorAxes::getDims(const FactorDims &dims) const {
  return llvm::map_to_vector(dims, [&](ArrayRef<int> factors) {
    AxisList list;
    for (int factor : factors)
      llvm::append_range(list, axes[factor]);
    return joinAxes(list, mesh);
  });
}

void FactorAxes::addReductions(const FactorDims &dims, ReduceKind &kind,
                               AxisList &partial) const {
  for (auto [index, factor] : llvm::enumerate(rule.factors)) {
    int number = index;
    bool present = llvm::any_of(dims, [&](ArrayRef<int> factors) {
      return llvm::is_contained(factors, number);
    });
    if (factor.kind != FactorKind::Reduction || present || axes[index].empty())
      continue;
    kind = factor.reduction;
    llvm::append_range(partial, axes[index]);
  }
}

//===----------------------------------------------------------------------===//
// Partial operands
//===----------------------------------------------------------------------===//

static bool isZero(Value value) {
  return matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat());
}

/// From a floating-point type to one of more bits.
static bool isWidening(Operation *op) {
  if (!isa<ConvertOp>(op))
    return false;
  auto from = dyn_cast<FloatType>(getElementTypeOrSelf(op->getOperand(0))),
       to = dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  return from && to && from.getWidth() < to.getWidth();
}

/// The operation commutes with the reduction of its operands in `partial`
/// (numbers), all of one kind over the same axes.
static bool commutes(Operation *op, ArrayRef<unsigned> partial,
                     ReduceKind kind) {
  bool all = partial.size() == op->getNumOperands();
  // These only move elements, so they commute with every reduction.
  if (isa<ReshapeOp, TransposeOp, SliceOp, ReverseOp, BroadcastInDimOp,
          StopGradientOp>(op))
    return true;
  if (isa<ConcatenateOp>(op))
    return all;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == kind && kind != ReduceKind::Product;
  if (kind != ReduceKind::Sum)
    return false;
  auto isFloat = [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type));
  };
  // What is rounded is the whole sum, not its parts.
  if (isa<ConvertOp>(op))
    return isWidening(op);
  if (isa<NegateOp>(op))
    return true;
  if (isa<AddOp, SubtractOp>(op))
    return all;
  if (isa<MultiplyOp>(op))
    return partial.size() == 1;
  if (isa<DivideOp>(op))
    return partial.size() == 1 && partial[0] == 0 &&
           isFloat(op->getResult(0).getType());
  if (isa<SelectOp>(op))
    return llvm::all_of(llvm::seq<unsigned>(1, 3),
                        [&](unsigned i) {
                          return llvm::is_contained(partial, i) ||
                                 isZero(op->getOperand(i));
                        }) &&
           !llvm::is_contained(partial, 0u);
  return false;
}

/// Whether the partial operands are passed on: they agree, the operation
/// commutes, and it does not make more data to reduce, except that sums of
/// bf16 products are added in f32, as the weights are kept.
static bool passesPartial(Operation *op, ArrayRef<ShardingAttr> operands,
                          const FactorAxes &axes, ReduceKind kind,
                          const AxisList &reductions) {
  SmallVector<unsigned> partial;
  int64_t bytes = 0;
  for (auto [number, sharding] : llvm::enumerate(operands))
    if (sharding.isPartial()) {
      partial.push_back(number);
      bytes += getBytes(op->getOperand(number).getType());
    }
  ShardingAttr first = operands[partial[0]];
  for (unsigned number : partial)
    if (operands[number].getPartial() != first.getPartial() ||
        operands[number].getKind() != first.getKind())
      return false;
  int64_t resultBytes = 0;
  for (Type type : op->getResultTypes())
    resultBytes += getBytes(type);
  return (resultBytes <= bytes || isWidening(op)) &&
         !axes.uses(first.getPartial().getAxes()) &&
         (reductions.empty() || kind == first.getKind()) &&
         commutes(op, partial, first.getKind());
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

/// Statistics that stay local: each rank has its own mean and rstd; the running
/// statistics are averaged (over ranks), or carried on (from micro batch to
/// micro batch).
static void decideLocalStatistics(Operation *op, Decision &decision,
                                  ArrayRef<ShardingAttr> operands,
                                  bool temporal) {
  AxesAttr batch = decision.operands[0].getDims()[0];
  AxesAttr none = getNoAxes(op->getContext());
  if (batch.empty())
    return;
  if (isa<BatchNormOp>(op)) {
    for (unsigned i = 1; i < op->getNumResults(); ++i) {
      ShardingAttr &result = decision.results[i];
      bool averaged = i >= 3 && !temporal;
      result =
          ShardingAttr::get(op->getContext(), result.getDims(), ReduceKind::Sum,
                            averaged ? batch : none, averaged ? none : batch);
    }
    return;
  }
  for (unsigned i : {2u, 3u})
    if (operands[i].getVarying() == batch)
      decision.operands[i] =
          ShardingAttr::get(op->getContext(), decision.operands[i].getDims(),
                            ReduceKind::Sum, none, batch);
}

static Decision build(Operation *op, const ShardingRule &rule,
                      const FactorAxes &axes, ArrayRef<ShardingAttr> operands,
                      MeshOp mesh, bool temporal) {
  MLIRContext *context = op->getContext();
  AxesAttr none = getNoAxes(context);
  Decision decision;
  for (const FactorDims &dims : rule.operands)
    decision.operands.push_back(ShardingAttr::get(context, axes.getDims(dims),
                                                  ReduceKind::Sum, none, none));
  bool hasPartial =
      llvm::any_of(operands, [](ShardingAttr s) { return s.isPartial(); });
  for (const FactorDims &dims : rule.results) {
    ReduceKind kind = ReduceKind::Sum;
    AxisList partial;
    axes.addReductions(dims, kind, partial);
    if (hasPartial && passesPartial(op, operands, axes, kind, partial))
      for (auto [operand, required] :
           llvm::zip_equal(operands, decision.operands)) {
        if (!operand.isPartial())
          continue;
        required =
            ShardingAttr::get(context, required.getDims(), operand.getKind(),
                              operand.getPartial(), none);
        kind = operand.getKind();
        for (AxisAttr axis : operand.getPartial())
          if (!overlaps(axis, partial))
            partial.push_back(axis);
      }
    decision.results.push_back(ShardingAttr::get(
        context, axes.getDims(dims), kind, joinAxes(partial, mesh), none));
  }
  if (hasLocalStatistics(op))
    decideLocalStatistics(op, decision, operands, temporal);
  return decision;
}

/// A tensor that is whole everywhere; often some operand has that sharding.
static ShardingAttr getWhole(Type type, ArrayRef<ShardingAttr> operands) {
  int64_t rank = cast<RankedTensorType>(type).getRank();
  for (ShardingAttr sharding : operands)
    if (sharding.isReplicated() && sharding.getKind() == ReduceKind::Sum &&
        static_cast<int64_t>(sharding.getDims().size()) == rank)
      return sharding;
  return ShardingAttr::getReplicated(type.getContext(), rank);
}

Decision sharding::decide(Operation *op, ArrayRef<ShardingAttr> operands,
                          MeshOp mesh, bool temporal) {
  Decision decision;
  auto partitionable = dyn_cast<PartitionableOpInterface>(op);
  if (!partitionable || llvm::all_of(operands, [](ShardingAttr sharding) {
        return sharding.isReplicated();
      })) {
    // Nothing is known, or nothing is divided: everything whole.
    for (Type type : op->getOperandTypes())
      decision.operands.push_back(getWhole(type, operands));
    for (Type type : op->getResultTypes())
      decision.results.push_back(getWhole(type, operands));
    return decision;
  }
  ShardingRule rule = partitionable.getShardingRule();
  FactorAxes axes(rule, mesh);
  SmallVector<int64_t> weights = llvm::map_to_vector(
      op->getOperandTypes(), [](Type type) { return getBytes(type); });
  axes.merge(rule.operands, operands, weights);
  if (axes.restrict(isExpandable(op))) {
    decision.expand = true;
    return decision;
  }
  return build(op, rule, axes, operands, mesh, temporal);
}

std::optional<Decision> sharding::decideForResult(Operation *op,
                                                  const Decision &current,
                                                  ShardingAttr wanted,
                                                  MeshOp mesh) {
  auto partitionable = dyn_cast<PartitionableOpInterface>(op);
  if (!partitionable || op->getNumResults() != 1)
    return std::nullopt;
  ShardingRule rule = partitionable.getShardingRule();
  FactorAxes axes(rule, mesh);
  axes.merge(rule.results, {wanted}, {0});
  axes.merge(rule.operands, current.operands,
             SmallVector<int64_t>(op->getNumOperands(), 0));
  if (axes.restrict(/*expandable=*/true))
    return std::nullopt;
  Decision decision =
      build(op, rule, axes, current.operands, mesh, /*temporal=*/false);
  // What operands are divided over, or partial, stays: no new communication.
  auto isKept = [](ShardingAttr before, ShardingAttr after) {
    return before.getPartial() == after.getPartial() &&
           llvm::all_of(llvm::zip_equal(before.getDims(), after.getDims()),
                        [](auto dim) {
                          return std::get<0>(dim).empty() ||
                                 std::get<0>(dim) == std::get<1>(dim);
                        });
  };
  bool allKept = llvm::all_of(
      llvm::zip_equal(current.operands, decision.operands),
      [&](auto pair) { return isKept(std::get<0>(pair), std::get<1>(pair)); });
  if (decision.results[0] != wanted || !allKept)
    return std::nullopt;
  return decision;
}

//===----------------------------------------------------------------------===//
// Expansion
//===----------------------------------------------------------------------===//

/// scatter(base, updates) = base (+ or *) scatter(neutral, updates).
static Value expandScatter(ScatterOp op, OpBuilder &builder) {
  TensorBuilder b(builder, op.getLoc());
  bool multiply = op.getKind() == ScatterKind::Multiply;
  auto inner = cast<ScatterOp>(builder.clone(*op));
  builder.setInsertionPoint(inner);
  inner.getOperandMutable().assign(
      b.constantLike(op.getOperand(), multiply ? 1 : 0));
  builder.setInsertionPointAfter(inner);
  return multiply ? b.multiply(op.getOperand(), inner.getResult())
                  : b.add(op.getOperand(), inner.getResult());
}

void sharding::expandOp(Operation *op) {
  OpBuilder builder(op);
  SmallVector<Value> values;
  if (auto scatter = dyn_cast<ScatterOp>(op))
    values.push_back(expandScatter(scatter, builder));
  else
    values = cast<DecomposableOpInterface>(op).decompose(builder);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), values))
    if (value)
      result.replaceAllUsesWith(value);
  op->erase();
}
