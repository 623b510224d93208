// Operators that hold subgraphs (gradient mode, autocast, checkpointing:
// inlined), vmap's markers, and what has no meaning for values: assertions and
// constraints.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;

namespace lockstep::aten {

/// Lowers the subgraph in place of the call. Operands are the arguments after
/// `firstOperand`.
static void inlineSubgraph(OpCall &op, const pt2::GraphArgument &subgraph,
                           size_t firstOperand, bool noGrad) {
  Scope inner;
  inner.graph = subgraph.graph.get();
  const pt2::Graph &graph = *inner.graph;
  size_t next = firstOperand;
  for (const pt2::Argument &input : graph.inputs) {
    if (next >= op.node.inputs.size())
      return void(op.t.fail("the subgraph has more inputs than operands"));
    const pt2::Argument &operand = op.node.inputs[next++].value;
    if (input.tensorName().empty())
      continue; // a size: subgraphs have its expression
    auto it = op.scope.tensors.find(operand.tensorName());
    if (it == op.scope.tensors.end())
      return void(op.t.fail("an operand of the subgraph has no value"));
    inner.tensors[input.tensorName()] = it->second;
  }
  op.lowering.noGradDepth += noGrad;
  std::optional<std::string> error = op.lowering.run(inner);
  op.lowering.noGradDepth -= noGrad;
  if (error)
    return void(op.t.fail(*error));
  // Operands may have been written inside; the storage is shared. Results keep
  // their aliases.
  size_t count = 0;
  for (const pt2::Argument &output : graph.outputs) {
    size_t i = count++;
    if (i >= op.node.outputs.size() || output.tensorName().empty())
      continue;
    std::string_view name = op.node.outputs[i].tensorName();
    auto it = inner.tensors.find(output.tensorName());
    if (name.empty() || it == inner.tensors.end())
      continue;
    ViewStep stop{ViewStep::Kind::StopGradient, {}, {}, {}};
    op.scope.tensors[name] = noGrad ? it->second.view(op.t, stop) : it->second;
  }
}

static const pt2::GraphArgument *findSubgraph(OpCall &op, size_t &position) {
  for (auto [i, input] : llvm::enumerate(op.node.inputs))
    if (auto *graph = input.value.getIf<pt2::GraphArgument>()) {
      position = i;
      return graph;
    }
  op.t.fail("expected a subgraph");
  return nullptr;
}

static void lowerSetGradEnabled(OpCall &op) {
  op.ignoreAll();
  size_t position;
  const pt2::GraphArgument *graph = findSubgraph(op, position);
  if (!graph)
    return;
  const bool *enabled = op.node.inputs.front().value.getIf<bool>();
  inlineSubgraph(op, *graph, position + 1, enabled && !*enabled);
}

static void lowerAutocast(OpCall &op) {
  op.ignoreAll();
  size_t position;
  const pt2::GraphArgument *graph = findSubgraph(op, position);
  if (!graph)
    return;
  // (device_type, dtype, enabled, cache_enabled, subgraph, operands...)
  const bool *enabled = op.node.inputs.size() > 2
                            ? op.node.inputs[2].value.getIf<bool>()
                            : nullptr;
  if (enabled && *enabled)
    return op.unsupported("an autocast region in the graph; export the model "
                          "in float32 and choose the precision when compiling");
  inlineSubgraph(op, *graph, position + 1, false);
}

static void lowerInline(OpCall &op) {
  op.ignoreAll();
  size_t position;
  if (const pt2::GraphArgument *graph = findSubgraph(op, position))
    inlineSubgraph(op, *graph, position + 1, false);
}

static void lowerNothing(OpCall &op) { op.ignoreAll(); }

//===----------------------------------------------------------------------===//
// vmap: a level is a hidden leading dimension
//===----------------------------------------------------------------------===//

static std::optional<int64_t> positional(OpCall &op, size_t i) {
  if (i >= op.node.inputs.size())
    return std::nullopt;
  const pt2::Argument &value = op.node.inputs[i].value;
  if (auto *integer = value.getIf<int64_t>())
    return *integer;
  if (auto *symbol = value.getIf<pt2::SymIntArgument>()) {
    if (symbol->isConstant())
      return symbol->value;
    auto it = op.scope.graph->symIntValues.find(symbol->name);
    if (it != op.scope.graph->symIntValues.end())
      if (StatusOr<int64_t> bound = it->second.evaluate(op.lowering.bindings);
          bound.ok())
        return *bound;
  }
  return std::nullopt;
}

static TensorRef *firstTensor(OpCall &op) {
  auto it =
      op.node.inputs.empty()
          ? op.scope.tensors.end()
          : op.scope.tensors.find(op.node.inputs.front().value.tensorName());
  if (it != op.scope.tensors.end() && it->second.cached)
    return &it->second;
  op.t.fail("expected a tensor as first argument");
  return nullptr;
}

static void lowerIncrement(OpCall &op) {
  op.ignoreAll();
  op.lowering.vmapSizes.push_back(positional(op, 0).value_or(0));
}

static void lowerDecrement(OpCall &op) {
  op.ignoreAll();
  if (!op.lowering.vmapSizes.empty())
    op.lowering.vmapSizes.pop_back();
}

static bool bindResult(OpCall &op, TensorRef ref) {
  if (op.node.outputs.empty() || !ref.cached)
    return false;
  op.scope.tensors[op.node.outputs.front().tensorName()] = std::move(ref);
  return true;
}

/// (x, dim, level): dimension `dim` becomes hidden.
static void lowerAddBatchDim(OpCall &op) {
  op.ignoreAll();
  TensorRef *self = firstTensor(op);
  std::optional<int64_t> dim = positional(op, 1), level = positional(op, 2);
  if (!self || !dim || !level)
    return void(op.t.fail("expected (tensor, dimension, level)"));
  int64_t hidden = self->levels.size(), rank = rankOf(self->cached) - hidden;
  *dim = *dim < 0 ? *dim + rank : *dim;
  if (*dim < 0 || *dim >= rank)
    return void(op.t.fail("dimension out of range"));
  Value value = self->read(op.t);
  SmallVector<int64_t> levels = self->levels;
  size_t place = llvm::lower_bound(levels, *level) - levels.begin();
  Shape permutation = range(rankOf(value));
  permutation.erase(permutation.begin() + hidden + *dim);
  permutation.insert(permutation.begin() + place, hidden + *dim);
  levels.insert(levels.begin() + place, *level);
  TensorRef result = TensorRef::fresh(op.t.transpose(value, permutation));
  result.levels = levels;
  bindResult(op, std::move(result));
}

/// (x, level, size, dim): the hidden dimension becomes dimension `dim`; a
/// tensor without it repeats.
static void lowerRemoveBatchDim(OpCall &op) {
  op.ignoreAll();
  TensorRef *self = firstTensor(op);
  std::optional<int64_t> level = positional(op, 1), size = positional(op, 2),
                         dim = positional(op, 3);
  if (!self || !level || !size || !dim)
    return void(op.t.fail("expected (tensor, level, size, dimension)"));
  Value value = self->read(op.t);
  SmallVector<int64_t> levels = self->levels;
  auto found = llvm::find(levels, *level);
  if (found == levels.end()) {
    Shape shape(shapeOf(value));
    shape.insert(shape.begin() + levels.size(), 1);
    value = op.t.reshape(value, shape);
    shape[levels.size()] = *size;
    value = op.t.broadcastTo(value, shape);
    levels.push_back(*level);
    found = levels.end() - 1;
  }
  int64_t from = found - levels.begin();
  levels.erase(found);
  int64_t rank = rankOf(value) - levels.size();
  *dim = *dim < 0 ? *dim + rank : *dim;
  if (*dim < 0 || *dim >= rank)
    return void(op.t.fail("dimension out of range"));
  Shape permutation = range(rankOf(value));
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + levels.size() + *dim, from);
  TensorRef result = TensorRef::fresh(op.t.transpose(value, permutation));
  result.levels = levels;
  bindResult(op, std::move(result));
}

static void lowerControlFlow(OpCall &op) {
  op.ignoreAll();
  op.unsupported("control flow on values (" + op.base +
                 "); write it with torch.where, or unroll the loop in Python");
}

void addHigherOrder(OperatorTable &table) {
  table.add("higher_order.wrap_with_set_grad_enabled", lowerSetGradEnabled);
  table.add("higher_order.wrap_with_autocast", lowerAutocast);
  table.add({"higher_order.wrap", "higher_order.tag_activation_checkpoint",
             "higher_order.wrap_activation_checkpoint",
             "higher_order.invoke_subgraph", "higher_order.strict_mode",
             "higher_order.hints_wrapper"},
            lowerInline);
  table.add({"higher_order.cond", "higher_order.scan",
             "higher_order.while_loop", "higher_order.associative_scan",
             "higher_order.map_impl"},
            lowerControlFlow);
  table.add({"_assert_async", "_assert_scalar", "_assert_tensor_metadata",
             "sym_constrain_range", "sym_constrain_range_for_size",
             "_make_dep_token", "_functional_assert_async",
             "_functional_assert_scalar", "sym_size", "sym_numel", "sym_stride",
             "sym_storage_offset", "symbolic", "manual_seed"},
            lowerNothing);
  table.add("functorch.lazy_load_decompositions", lowerNothing);
  table.add("functorch._vmap_increment_nesting", lowerIncrement);
  table.add("functorch._vmap_decrement_nesting", lowerDecrement);
  table.add("functorch._add_batch_dim", lowerAddBatchDim);
  table.add("functorch._remove_batch_dim", lowerRemoveBatchDim);
}

} // namespace lockstep::aten
