//===- Reshard.cpp - From one sharding to another -------------------------===//
#include "compiler/sharding/Reshard.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;

/// The value's type with one dimension multiplied and divided.
static RankedTensorType scaleDim(Value value, int64_t dim, int64_t times,
                                 int64_t by) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = shape[dim] * times / by;
  return RankedTensorType::get(shape, type.getElementType());
}

static AxesAttr getAxes(MeshOp mesh, ArrayRef<AxisAttr> axes) {
  return joinAxes(axes, mesh);
}

/// Users read these with --remarks-filter=lockstep-partition: data moves that a
/// better layout would spare.
static void remarkMove(Value value, StringRef collective, int64_t dim,
                       Operation *user) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t bytes = type.getNumElements() *
                  std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  remark::missed(
      user->getLoc(),
      remark::RemarkOpts::name(collective).category("lockstep-partition"))
      << remark::add("'{0}' needs dimension {1} whole",
                     user->getName().getStringRef(), dim)
      << remark::metric("Operation", user->getName().getStringRef())
      << remark::metric("Dimension", dim)
      << remark::metric("LocalBytes", bytes);
}

Value Resharder::reshard(Value value, ShardingAttr from, ShardingAttr to,
                         Operation *user) {
  if (from == to)
    return value;
  Value &cached = cache[{value, to}];
  if (cached)
    return cached;
  Value built = build(value, from, to, user);
  // `build` may have grown the cache: look the place up again.
  return cache[{value, to}] = built;
}

/// Partial sums first: reduce_scatter where some dimension is to be divided
/// over exactly these axes.
Value Resharder::reduce(OpBuilder &builder, Value value,
                        SmallVector<AxisList> &dims, ShardingAttr from,
                        ShardingAttr to) {
  StringRef name = mesh.getSymName();
  AxesAttr partial = from.getPartial();
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    AxisList divided = dims[dim];
    llvm::append_range(divided, partial.getAxes());
    if (joinAxes(divided, mesh) != to.getDims()[dim])
      continue;
    dims[dim] = divided;
    return dist::ReduceScatterOp::create(
               builder, value.getLoc(),
               TypeRange{scaleDim(value, dim, 1, mesh.getSize(partial))},
               from.getKind(), ValueRange{value}, dim, name, partial)
        .getResult(0);
  }
  return dist::AllReduceOp::create(builder, value.getLoc(),
                                   TypeRange{value.getType()}, from.getKind(),
                                   ValueRange{value}, name, partial)
      .getResult(0);
}

/// What a dimension has beyond the axes that it keeps is gathered, or moved to
/// a dimension that lacks just that.
Value Resharder::move(OpBuilder &builder, Value value,
                      SmallVector<AxisList> &dims, ShardingAttr to,
                      Operation *user) {
  StringRef name = mesh.getSymName();
  SmallVector<AxisList> target;
  SmallVector<size_t> kept;
  for (auto [own, axes] : llvm::zip_equal(dims, to.getDims())) {
    target.emplace_back(axes.getAxes());
    kept.push_back(alignPrefix(own, target.back(), mesh));
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    ArrayRef<AxisAttr> extra = ArrayRef(dims[dim]).drop_front(kept[dim]);
    if (extra.empty())
      continue;
    AxesAttr axes = getAxes(mesh, extra);
    int64_t ranks = mesh.getSize(axes);
    auto isDestination = [&](size_t other) {
      return other != dim && dims[other].size() == kept[other] &&
             getAxes(mesh, ArrayRef(target[other]).drop_front(kept[other])) ==
                 axes;
    };
    auto range = llvm::seq<size_t>(0, dims.size());
    auto destination = llvm::find_if(range, isDestination);
    if (destination != range.end()) {
      size_t split = *destination;
      remarkMove(value, "AllToAll", dim, user);
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[split] /= ranks;
      shape[dim] *= ranks;
      value = dist::AllToAllOp::create(
          builder, value.getLoc(),
          RankedTensorType::get(shape, type.getElementType()), value, split,
          dim, name, axes);
      dims[split] = target[split];
      kept[split] = dims[split].size();
    } else {
      remarkMove(value, "AllGather", dim, user);
      value =
          dist::AllGatherOp::create(builder, value.getLoc(),
                                    TypeRange{scaleDim(value, dim, ranks, 1)},
                                    ValueRange{value}, dim, name, axes)
              .getResult(0);
    }
    dims[dim].truncate(kept[dim]);
  }
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    ArrayRef<AxisAttr> missing = ArrayRef(target[dim]).drop_front(kept[dim]);
    if (missing.empty())
      continue;
    AxesAttr axes = getAxes(mesh, missing);
    value = dist::LocalSliceOp::create(
        builder, value.getLoc(), scaleDim(value, dim, 1, mesh.getSize(axes)),
        value, dim, name, axes);
  }
  return value;
}

Value Resharder::build(Value value, ShardingAttr from, ShardingAttr to,
                       Operation *user) {
  if (temporal) {
    StringRef reason = from.isPartial()   ? "a sum over the whole batch"
                       : from.isDivided() ? "the whole batch"
                                          : "its place in the batch";
    emitError(user->getLoc(), "gradient accumulation cannot be used: '")
        << user->getName() << "' needs " << reason
        << "; compile with --gradient-accumulation-steps 1";
    return {};
  }
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  SmallVector<AxisList> dims = llvm::map_to_vector(
      from.getDims(), [](AxesAttr axes) { return AxisList(axes.getAxes()); });
  if (from.isPartial() && from.getPartial() != to.getPartial())
    value = reduce(builder, value, dims, from, to);
  return move(builder, value, dims, to, user);
}
