#include "compiler/import/aten/Aliases.h"

using namespace mlir;

namespace lockstep::aten {

Value ViewStep::apply(Emitter &emit, Value parent) const {
  if (!parent)
    return {};
  switch (kind) {
  case Kind::Reshape:
    return emit.reshape(parent, a);
  case Kind::Transpose:
    return emit.transpose(parent, a);
  case Kind::Slice:
    return emit.slice(parent, a, b, c);
  case Kind::Broadcast:
    return emit.broadcastTo(parent, a);
  case Kind::StopGradient:
    return emit.stopGradient(parent);
  case Kind::Opaque:
    return emit.fail("a tensor is written while an overlapping view of it "
                     "(unfold, as_strided) is still used");
  }
  return {};
}

/// `view` spread to its places in a tensor of the shape of `parent`, `fill`
/// elsewhere.
static Value spread(Emitter &emit, Value parent, Value view,
                    const ViewStep &step, Value fill) {
  Shape low(step.a), high, interior;
  for (int64_t i = 0; i < rankOf(parent); ++i) {
    int64_t taken = shapeOf(view)[i];
    int64_t span = taken ? (taken - 1) * step.c[i] + 1 : 0;
    if (!taken)
      low[i] = 0;
    high.push_back(shapeOf(parent)[i] - low[i] - span);
    interior.push_back(taken ? step.c[i] - 1 : 0);
  }
  return emit.pad(view, fill, low, high, interior);
}

/// A slice is written by concatenation where it cuts one dimension densely,
/// else by a mask.
static Value invertSlice(Emitter &emit, Value parent, Value view,
                         const ViewStep &step) {
  Shape cut;
  bool dense = true;
  for (int64_t i = 0; i < rankOf(parent); ++i) {
    if (shapeOf(view)[i] != shapeOf(parent)[i])
      cut.push_back(i);
    dense &= step.c[i] == 1;
  }
  if (cut.empty())
    return view;
  if (!dense || cut.size() > 1) {
    Value value =
        spread(emit, parent, view, step, emit.scalar(elementOf(view), 0));
    Value ones = emit.constant(shapeOf(view), emit.i1(), 1);
    return emit.select(
        spread(emit, parent, ones, step, emit.scalar(emit.i1(), 0)), value,
        parent);
  }
  int64_t dim = cut.front(), size = shapeOf(parent)[dim];
  SmallVector<Value> parts;
  if (step.a[dim] > 0)
    parts.push_back(emit.sliceDim(parent, dim, 0, step.a[dim]));
  parts.push_back(view);
  if (step.b[dim] < size)
    parts.push_back(emit.sliceDim(parent, dim, step.b[dim], size));
  return emit.concat(parts, dim);
}

Value ViewStep::invert(Emitter &emit, Value parent, Value view) const {
  if (!parent || !view)
    return {};
  switch (kind) {
  case Kind::Reshape:
    return emit.reshape(view, shapeOf(parent));
  case Kind::Transpose: {
    Shape inverse(a.size());
    for (auto [i, dim] : llvm::enumerate(a))
      inverse[dim] = i;
    return emit.transpose(view, inverse);
  }
  case Kind::Slice:
    return invertSlice(emit, parent, view, *this);
  case Kind::Broadcast:
    if (countOf(shapeOf(parent)) != countOf(a))
      return emit.fail("a tensor is written through an expanded view, whose "
                       "elements share memory");
    return emit.reshape(view, shapeOf(parent));
  case Kind::StopGradient:
    return view;
  case Kind::Opaque:
    return emit.fail(
        "a tensor is written through an overlapping view (unfold, as_strided)");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// ViewChain
//===----------------------------------------------------------------------===//

static Shape concatenated(Dims prefix, Dims shape) {
  Shape all(prefix);
  llvm::append_range(all, shape);
  return all;
}

void ViewChain::reshape(Dims newShape) {
  steps.push_back(
      {ViewStep::Kind::Reshape, concatenated(prefix, newShape), {}, {}});
  shape = Shape(newShape);
}

void ViewChain::transpose(Dims permutation) {
  Shape full = range(prefix.size()), permuted;
  for (int64_t dim : permutation) {
    full.push_back(dim + prefix.size());
    permuted.push_back(shape[dim]);
  }
  steps.push_back({ViewStep::Kind::Transpose, full, {}, {}});
  shape = permuted;
}

void ViewChain::slice(int64_t dim, int64_t start, int64_t limit, int64_t step) {
  Shape limits = concatenated(prefix, shape), starts(limits.size(), 0),
        strides(limits.size(), 1);
  int64_t at = dim + prefix.size();
  starts[at] = start, limits[at] = limit, strides[at] = step;
  steps.push_back({ViewStep::Kind::Slice, starts, limits, strides});
  shape[dim] = (limit - start + step - 1) / step;
}

void ViewChain::broadcastTo(Dims newShape) {
  // New leading dimensions come after the prefix, so the tensor is given them
  // as ones first.
  if (newShape.size() > shape.size()) {
    Shape padded(newShape.size() - shape.size(), 1);
    llvm::append_range(padded, shape);
    reshape(padded);
  }
  steps.push_back(
      {ViewStep::Kind::Broadcast, concatenated(prefix, newShape), {}, {}});
  shape = Shape(newShape);
}

void ViewChain::unsqueeze(int64_t dim) {
  Shape newShape(shape);
  newShape.insert(newShape.begin() + dim, 1);
  reshape(newShape);
}

void ViewChain::squeeze(int64_t dim) {
  Shape newShape(shape);
  newShape.erase(newShape.begin() + dim);
  reshape(newShape);
}

void ViewChain::select(int64_t dim, int64_t index) {
  slice(dim, index, index + 1);
  squeeze(dim);
}

void ViewChain::stopGradient() {
  steps.push_back({ViewStep::Kind::StopGradient, {}, {}, {}});
}

//===----------------------------------------------------------------------===//
// TensorRef
//===----------------------------------------------------------------------===//

TensorRef TensorRef::fresh(Value value) {
  TensorRef ref;
  ref.storage = std::make_shared<Storage>();
  ref.storage->value = ref.cached = value;
  return ref;
}

Value TensorRef::read(Emitter &emit) {
  if (version == storage->version)
    return cached;
  Value value = storage->value;
  for (const ViewStep &step : chain)
    value = step.apply(emit, value);
  cached = value;
  version = storage->version;
  return value;
}

void TensorRef::write(Emitter &emit, Value value) {
  if (!value)
    return;
  if (storage->kind == Storage::Kind::Parameter) {
    emit.fail(
        "the parameter '" + storage->name +
        "' is written in forward; only the optimizer may write parameters");
    return;
  }
  SmallVector<Value> parents{storage->value};
  for (const ViewStep &step : chain)
    parents.push_back(step.apply(emit, parents.back()));
  Value updated = value;
  for (size_t i = chain.size(); i-- > 0;)
    updated = chain[i].invert(emit, parents[i], updated);
  if (!updated)
    return;
  storage->value = updated;
  cached = value;
  version = ++storage->version;
}

TensorRef TensorRef::view(Emitter &emit, ArrayRef<ViewStep> steps) {
  TensorRef result = *this;
  result.cached = read(emit);
  result.version = storage->version;
  for (const ViewStep &step : steps) {
    result.chain.push_back(step);
    result.cached = step.apply(emit, result.cached);
  }
  return result;
}

} // namespace lockstep::aten
