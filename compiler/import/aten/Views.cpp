// Operators whose result shares memory with their argument, and those that copy
// only the value (clone, to, contiguous).
#include "compiler/import/aten/Lowering.h"

using namespace mlir;

namespace lockstep::aten {

using Build = llvm::function_ref<void(ViewChain &)>;

/// Result i is the view of "self" that `build` describes on the tensor's
/// logical shape.
static void bindView(OpCall &op, size_t i, Build build) {
  TensorRef *self = op.ref("self");
  if (!self || op.bad() || !self->cached)
    return;
  Dims all = shapeOf(self->cached);
  size_t hidden = self->levels.size();
  ViewChain chain(all.take_front(hidden), all.drop_front(hidden));
  build(chain);
  if (!op.bad())
    op.alias(i, "self", chain.steps);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// view, squeeze, unsqueeze, unflatten, ...: the file says what the shape
/// becomes.
static void lowerReshape(OpCall &op) {
  op.ignoreAll();
  Shape shape = op.resultShape();
  bindView(op, 0, [&](ViewChain &v) { v.reshape(shape); });
}

static void lowerViewDtype(OpCall &op) {
  if (op.overload == "dtype" && op.element("self") != op.resultElement())
    return op.unsupported("a view that reinterprets the bytes of its elements");
  lowerReshape(op);
}

static void lowerExpand(OpCall &op) {
  op.ignoreAll();
  Shape shape = op.resultShape();
  bindView(op, 0, [&](ViewChain &v) { v.broadcastTo(shape); });
}

/// torch's rule for when a reshape needs no copy: each run of merged dimensions
/// must lie densely.
static bool canView(Dims sizes, Dims strides, Dims shape) {
  if (llvm::is_contained(sizes, 0))
    return true;
  int64_t next = static_cast<int64_t>(shape.size()) - 1,
          chunk = sizes.empty() ? 1 : strides.back(), count = 1, viewed = 1;
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; --dim) {
    count *= sizes[dim];
    bool ends =
        dim == 0 || (sizes[dim - 1] != 1 && strides[dim - 1] != count * chunk);
    if (!ends)
      continue;
    while (next >= 0 && (viewed < count || shape[next] == 1))
      viewed *= shape[next--];
    if (viewed != count)
      return false;
    if (dim > 0)
      chunk = strides[dim - 1], count = viewed = 1;
  }
  return next == -1;
}

/// The strides that the file gives the argument.
static std::optional<Shape> stridesOf(OpCall &op) {
  const pt2::TensorMeta *meta =
      op.scope.graph->tensor(op.argument("self")->tensorName());
  Shape strides;
  if (!meta)
    return std::nullopt;
  for (const pt2::SymInt &stride : meta->strides) {
    StatusOr<int64_t> value = stride.evaluate(op.lowering.bindings);
    if (!value.ok())
      return std::nullopt;
    strides.push_back(*value);
  }
  return strides;
}

static void lowerReshapeOrCopy(OpCall &op) {
  op.ignoreAll();
  TensorRef *self = op.ref("self");
  Shape shape = op.resultShape();
  if (!self || op.bad())
    return;
  std::optional<Shape> strides = stridesOf(op);
  Shape sizes = op.shape("self");
  if (!self->levels.empty() || !strides || strides->size() != sizes.size() ||
      canView(sizes, *strides, shape))
    return bindView(op, 0, [&](ViewChain &v) { v.reshape(shape); });
  op.result(op.t.reshape(op.tensor("self"), shape));
}

static void lowerContiguous(OpCall &op) {
  TensorRef *self = op.ref("self");
  if (!self || op.bad())
    return;
  std::optional<Shape> strides = stridesOf(op);
  Shape sizes = op.shape("self");
  int64_t dense = 1;
  bool isDense = strides.has_value();
  for (size_t i = sizes.size(); isDense && i-- > 0;) {
    isDense = sizes[i] == 1 || (*strides)[i] == dense;
    dense *= sizes[i];
  }
  if (isDense || !self->levels.empty())
    return op.alias(0, "self");
  op.result(op.tensor("self"));
}

//===----------------------------------------------------------------------===//
// Order of dimensions
//===----------------------------------------------------------------------===//

static void lowerPermute(OpCall &op) {
  int64_t rank = op.shape("self").size();
  Shape permutation = op.integers("dims");
  for (int64_t &dim : permutation)
    dim = dim < 0 ? dim + rank : dim;
  Shape sorted(permutation);
  llvm::sort(sorted);
  if (sorted != range(rank))
    return void(op.t.fail("expected a permutation of the dimensions"));
  bindView(op, 0, [&](ViewChain &v) { v.transpose(permutation); });
}

static void transposeView(OpCall &op, int64_t dim0, int64_t dim1) {
  bindView(op, 0, [&](ViewChain &v) {
    Shape permutation = range(v.shape.size());
    if (dim0 != dim1)
      std::swap(permutation[dim0], permutation[dim1]);
    v.transpose(permutation);
  });
}

static void lowerTranspose(OpCall &op) {
  int64_t rank = op.shape("self").size();
  bool axes = op.base == "swapaxes";
  int64_t dim0 = op.dim(axes ? "axis0" : "dim0", rank),
          dim1 = op.dim(axes ? "axis1" : "dim1", rank);
  if (!op.bad())
    transposeView(op, dim0, dim1);
}

/// t, mT, numpy_T, adjoint: reverse the last two dimensions, or all.
static void lowerReverseDims(OpCall &op) {
  int64_t rank = op.shape("self").size();
  if (op.bad())
    return;
  if (op.base == "numpy_T")
    return bindView(op, 0, [&](ViewChain &v) {
      v.transpose(llvm::to_vector(llvm::reverse(range(rank))));
    });
  if (rank < 2)
    return op.alias(0, "self");
  transposeView(op, rank - 2, rank - 1);
}

static void lowerMoveDim(OpCall &op) {
  int64_t rank = op.shape("self").size();
  Shape from = op.integers("source"), to = op.integers("destination");
  if (op.bad() || from.size() != to.size())
    return void(op.t.fail("expected as many destinations as sources"));
  Shape permutation(rank, -1), rest = range(rank);
  for (auto [source, destination] : llvm::zip(from, to)) {
    source = source < 0 ? source + rank : source;
    destination = destination < 0 ? destination + rank : destination;
    if (source < 0 || source >= rank || destination < 0 ||
        destination >= rank || permutation[destination] != -1)
      return void(op.t.fail("expected distinct dimensions"));
    permutation[destination] = source;
    llvm::erase(rest, source);
  }
  size_t next = 0;
  for (int64_t &dim : permutation)
    if (dim == -1) {
      if (next == rest.size())
        return void(op.t.fail("expected distinct dimensions"));
      dim = rest[next++];
    }
  bindView(op, 0, [&](ViewChain &v) { v.transpose(permutation); });
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static void lowerSelect(OpCall &op) {
  Shape shape = op.shape("self");
  int64_t dim = op.dim("dim", shape.size()), index = op.integer("index");
  if (op.bad() || shape.empty())
    return;
  index = index < 0 ? index + shape[dim] : index;
  if (index < 0 || index >= shape[dim])
    return void(op.t.fail("index " + Twine(index) + " of a dimension of size " +
                          Twine(shape[dim])));
  bindView(op, 0, [&](ViewChain &v) { v.select(dim, index); });
}

static void lowerSlice(OpCall &op) {
  Shape shape = op.shape("self");
  int64_t dim = op.dim("dim", shape.size(), 0);
  bool narrow = op.base == "narrow";
  if (op.bad() || shape.empty())
    return;
  int64_t size = shape[dim], step = narrow ? 1 : op.integer("step", 1);
  int64_t start = op.integer("start", 0),
          end = narrow ? 0 : op.integer("end", INT64_MAX);
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  start = clamp(start);
  end = narrow ? clamp(start + op.integer("length"))
               : std::max(start, clamp(end));
  if (step < 1)
    return void(op.t.fail("expected a positive step"));
  if (!op.bad())
    bindView(op, 0, [&](ViewChain &v) { v.slice(dim, start, end, step); });
}

/// split, chunk, tensor_split: the file says how long the parts are.
static void lowerSplit(OpCall &op) {
  Shape shape = op.shape("self");
  int64_t dim = op.dim("dim", shape.size(), 0), start = 0;
  op.ignoreAll();
  for (size_t i = 0; i < op.resultCount() && !op.bad() && !shape.empty(); ++i) {
    Shape part = op.resultShape(i);
    int64_t size = static_cast<size_t>(dim) < part.size() ? part[dim] : 0;
    if (start + size > shape[dim])
      return void(op.t.fail("the parts are larger than the whole"));
    bindView(op, i, [&](ViewChain &v) { v.slice(dim, start, start + size); });
    start += size;
  }
}

static void lowerUnbind(OpCall &op) {
  Shape shape = op.shape("self");
  int64_t dim = op.dim("dim", shape.size(), 0);
  if (op.bad() || shape.empty() ||
      static_cast<int64_t>(op.resultCount()) != shape[dim])
    return void(
        op.t.fail("expected one result for each element of the dimension"));
  for (size_t i = 0; i < op.resultCount() && !op.bad(); ++i)
    bindView(op, i, [&](ViewChain &v) { v.select(dim, i); });
}

/// The diagonal of the last two dimensions is a strided slice of their product.
static void lowerDiagonal(OpCall &op) {
  int64_t rank = op.shape("self").size(), offset = op.integer("offset", 0);
  int64_t dim1 = op.dim("dim1", rank, 0), dim2 = op.dim("dim2", rank, 1);
  if (op.bad() || dim1 == dim2 || rank < 2)
    return void(op.t.fail("expected two dimensions"));
  bindView(op, 0, [&](ViewChain &v) {
    Shape permutation = range(rank);
    llvm::erase(permutation, dim1);
    llvm::erase(permutation, dim2);
    permutation.append({dim1, dim2});
    v.transpose(permutation);
    int64_t rows = v.shape[rank - 2], columns = v.shape[rank - 1];
    int64_t length =
        std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset)
                                         : std::min(rows + offset, columns));
    int64_t start = length == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
    Shape flat(Dims(v.shape).drop_back(2));
    flat.push_back(rows * columns);
    v.reshape(flat);
    v.slice(rank - 2, start,
            length == 0 ? start : start + (length - 1) * (columns + 1) + 1,
            columns + 1);
  });
}

/// Only where it means the dense tensor itself, or a part from its start.
static void lowerAsStrided(OpCall &op) {
  Shape sizes = op.integers("size"), strides = op.integers("stride");
  int64_t offset = op.integer("storage_offset", 0), dense = 1;
  if (op.bad() || sizes.size() != strides.size())
    return void(op.t.fail("expected as many strides as sizes"));
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != dense)
      return op.unsupported("as_strided with overlapping or permuted elements");
    dense *= sizes[i];
  }
  int64_t count = countOf(op.shape("self"));
  if (offset < 0 || offset + dense > count)
    return op.unsupported("as_strided beyond the tensor");
  bindView(op, 0, [&](ViewChain &v) {
    v.reshape({count});
    v.slice(0, offset, offset + dense);
    v.reshape(sizes);
  });
}

//===----------------------------------------------------------------------===//
// The same tensor, or a copy
//===----------------------------------------------------------------------===//

static void lowerAlias(OpCall &op) {
  op.ignoreAll();
  op.alias(0, "self");
}

static void lowerDetach(OpCall &op) {
  bindView(op, 0, [](ViewChain &v) { v.stopGradient(); });
}

static void lowerClone(OpCall &op) {
  op.ignoreAll();
  TensorRef *self = op.ref("self");
  if (!self || op.bad())
    return;
  op.levels = self->levels;
  op.result(self->read(op.t));
}

/// to, type_as, _to_copy: the tensor itself where nothing changes (unless a
/// copy is asked for).
static void lowerTo(OpCall &op) {
  bool copy = op.base == "_to_copy" || op.flag("copy");
  op.ignoreAll();
  if (!copy && op.element("self") == op.resultElement())
    return op.alias(0, "self");
  lowerClone(op);
}

static void lowerMeshgrid(OpCall &op) {
  op.ignore({"indexing"});
  SmallVector<Value> inputs = op.tensors("tensors");
  bool xy = op.string("indexing", "ij") == "xy";
  for (auto [i, input] : llvm::enumerate(inputs)) {
    Shape shape = op.resultShape(i);
    if (op.bad())
      return;
    size_t place = xy && i < 2 && inputs.size() > 1 ? 1 - i : i;
    Shape single(shape.size(), 1);
    if (place >= single.size())
      return void(op.t.fail("expected one dimension for each tensor"));
    single[place] = countOf(shapeOf(input));
    op.result(i, op.t.broadcastTo(op.t.reshape(input, single), shape));
  }
}

static void lowerBroadcastTensors(OpCall &op) {
  for (auto [i, input] : llvm::enumerate(op.tensors("tensors")))
    if (Shape shape = op.resultShape(i); !op.bad())
      op.result(i, op.t.broadcastTo(input, shape));
}

void addViews(OperatorTable &table) {
  constexpr Form view = Form::View;
  table.add("view", lowerViewDtype, view);
  table.add({"_unsafe_view", "view_as", "squeeze", "unsqueeze", "unflatten",
             "_reshape_alias", "atleast_1d", "atleast_2d"},
            lowerReshape, view);
  table.add({"reshape", "reshape_as", "flatten", "ravel"}, lowerReshapeOrCopy,
            view);
  table.add({"expand", "expand_as", "broadcast_to"}, lowerExpand, view);
  table.add("permute", lowerPermute, view);
  table.add({"transpose", "swapaxes", "swapdims"}, lowerTranspose, view);
  table.add({"t", "mT", "mH", "matrix_H", "adjoint", "numpy_T"},
            lowerReverseDims, view);
  table.add({"movedim", "moveaxis"}, lowerMoveDim, view);
  table.add("select", lowerSelect, view);
  table.add({"slice", "narrow"}, lowerSlice, view);
  table.add({"split", "split_with_sizes", "chunk", "tensor_split",
             "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"},
            lowerSplit, view);
  table.add("unbind", lowerUnbind, view);
  table.add("diagonal", lowerDiagonal, view);
  table.add("as_strided", lowerAsStrided, view);
  table.add({"alias", "lift", "lift_fresh", "_conj", "conj", "resolve_conj",
             "resolve_neg", "real", "requires_grad_"},
            lowerAlias, view);
  table.add("contiguous", lowerContiguous, view);
  table.add("detach", lowerDetach, view);
  table.add({"clone", "lift_fresh_copy"}, lowerClone);
  table.add({"to", "type_as", "_to_copy"}, lowerTo, view);
  table.add("meshgrid", lowerMeshgrid);
  table.add({"broadcast_tensors"}, lowerBroadcastTensors);
}

} // namespace lockstep::aten
