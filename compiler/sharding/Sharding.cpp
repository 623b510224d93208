//===- Sharding.cpp - Arithmetic of axes and shardings --------------------===//
#include "compiler/sharding/Sharding.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;

int64_t sharding::getSize(ArrayRef<AxisAttr> axes, MeshOp mesh) {
  int64_t size = 1;
  for (AxisAttr axis : axes)
    size *= mesh.getSize(axis);
  return size;
}

bool sharding::overlaps(AxisAttr axis, ArrayRef<AxisAttr> axes) {
  return llvm::any_of(axes,
                      [&](AxisAttr other) { return axis.overlaps(other); });
}

bool sharding::overlaps(ArrayRef<AxisAttr> a, ArrayRef<AxisAttr> b) {
  return llvm::any_of(a, [&](AxisAttr axis) { return overlaps(axis, b); });
}

/// The whole axis as the sub-axis (1)size.
static AxisAttr asSubAxis(AxisAttr axis, MeshOp mesh) {
  return axis.isWhole() ? AxisAttr::get(axis.getContext(), axis.getName(), 1,
                                        mesh.getSize(axis))
                        : axis;
}

std::pair<AxisAttr, AxisAttr>
sharding::splitAxis(AxisAttr axis, int64_t majorSize, MeshOp mesh) {
  AxisAttr sub = asSubAxis(axis, mesh);
  MLIRContext *context = axis.getContext();
  return {AxisAttr::get(context, sub.getName(), sub.getPreSize(), majorSize),
          AxisAttr::get(context, sub.getName(), sub.getPreSize() * majorSize,
                        sub.getSize() / majorSize)};
}

AxesAttr sharding::joinAxes(ArrayRef<AxisAttr> axes, MeshOp mesh) {
  AxisList joined;
  MLIRContext *context = mesh.getContext();
  for (AxisAttr axis : axes) {
    if (!joined.empty() && !axis.isWhole() && !joined.back().isWhole() &&
        joined.back().getName() == axis.getName() &&
        joined.back().getPreSize() * joined.back().getSize() ==
            axis.getPreSize())
      joined.back() =
          AxisAttr::get(context, axis.getName(), joined.back().getPreSize(),
                        joined.back().getSize() * axis.getSize());
    else
      joined.push_back(axis);
  }
  for (AxisAttr &axis : joined)
    if (AxisAttr whole = AxisAttr::get(context, axis.getName());
        !axis.isWhole() && axis.getPreSize() == 1 &&
        axis.getSize() == mesh.getSize(whole))
      axis = whole;
  return AxesAttr::get(context, ArrayRef<AxisAttr>(joined));
}

size_t sharding::alignPrefix(AxisList &a, AxisList &b, MeshOp mesh) {
  size_t i = 0;
  for (; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i])
      continue;
    AxisAttr left = asSubAxis(a[i], mesh), right = asSubAxis(b[i], mesh);
    if (left.getName() != right.getName() ||
        left.getPreSize() != right.getPreSize())
      break;
    AxisList &larger = left.getSize() > right.getSize() ? a : b;
    int64_t shared = std::min(left.getSize(), right.getSize());
    if (mesh.getSize(larger[i]) % shared != 0)
      break;
    auto [major, minor] = splitAxis(larger[i], shared, mesh);
    larger[i] = minor;
    larger.insert(larger.begin() + i, major);
    AxisList &smaller = &larger == &a ? b : a;
    smaller[i] = major;
  }
  return i;
}

RankedTensorType sharding::getLocalType(RankedTensorType type,
                                        ShardingAttr sharding, MeshOp mesh) {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, axes] : llvm::zip_equal(shape, sharding.getDims())) {
    assert(size % mesh.getSize(axes) == 0 &&
           "propagation divides only what is divisible");
    size /= mesh.getSize(axes);
  }
  return RankedTensorType::get(shape, type.getElementType());
}

ShardingAttr sharding::withDims(ShardingAttr sharding,
                                ArrayRef<AxesAttr> dims) {
  return ShardingAttr::get(sharding.getContext(), dims, sharding.getKind(),
                           sharding.getPartial(), sharding.getVarying());
}

ShardingAttr sharding::withoutPartial(ShardingAttr sharding) {
  return ShardingAttr::get(
      sharding.getContext(), sharding.getDims(), train::ReduceKind::Sum,
      getNoAxes(sharding.getContext()), sharding.getVarying());
}

AxesAttr sharding::getNoAxes(MLIRContext *context) {
  return AxesAttr::get(context, ArrayRef<AxisAttr>());
}

DenseElementsAttr sharding::getCommonBlock(ElementsAttr value,
                                           ShardingAttr sharding, MeshOp mesh) {
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return {};
  auto type = cast<RankedTensorType>(dense.getType());
  RankedTensorType local = getLocalType(type, sharding, mesh);
  if (dense.isSplat())
    return dense.resizeSplat(local);
  // Element (i0, i1, ...) must equal element (i0 mod l0, i1 mod l1, ...) of the
  // first block.
  SmallVector<Attribute> all(dense.getValues<Attribute>().begin(),
                             dense.getValues<Attribute>().end());
  SmallVector<Attribute> block(local.getNumElements());
  ArrayRef<int64_t> shape = type.getShape(), localShape = local.getShape();
  for (auto [position, element] : llvm::enumerate(all)) {
    int64_t rest = position, target = 0, stride = 1;
    for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0;
         --dim) {
      target += rest % shape[dim] % localShape[dim] * stride;
      stride *= localShape[dim];
      rest /= shape[dim];
    }
    if (block[target] && block[target] != element)
      return {};
    block[target] = element;
  }
  return DenseElementsAttr::get(local, block);
}
