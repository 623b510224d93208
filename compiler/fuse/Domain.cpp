//===- Domain.cpp - The iteration space of a loop kernel ------------------===//
#include "compiler/fuse/Domain.h"
#include "compiler/fuse/Operands.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// Fewer rows than this do not keep a processor busy through two passes.
static constexpr int64_t kLeastRows = 8;

Domain Domain::getReduction(ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> reducedDims) {
  Domain domain;
  domain.elements = 1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    domain.elements *= size;
    bool reduced = llvm::is_contained(reducedDims, static_cast<int64_t>(i));
    if (size == 1)
      continue;
    if (!domain.dims.empty() && domain.dims.back().reduced == reduced)
      domain.dims.back().size *= size;
    else
      domain.dims.push_back({size, reduced});
  }
  if (domain.dims.empty())
    domain.dims.push_back({1, true});
  return domain;
}

int64_t Domain::getRows() const {
  int64_t rows = 1;
  for (const Dim &dim : dims)
    if (!dim.reduced)
      rows *= dim.size;
  return rows;
}

bool Domain::allowsSecondPass() const {
  return dims.empty() ||
         (dims.back().reduced &&
          (getRows() >= kLeastRows || elements < kLeastRows * 4096));
}

std::optional<Domain> Domain::unite(const Domain &a, const Domain &b) {
  if (a.elements != b.elements ||
      (a.reduces() && b.reduces() && a.dims != b.dims))
    return std::nullopt;
  return a.reduces() ? a : b;
}

/// (size, stride) pairs without unit dimensions, neighbours merged.
static SmallVector<std::pair<int64_t, int64_t>>
collapse(ArrayRef<std::pair<int64_t, int64_t>> dims) {
  SmallVector<std::pair<int64_t, int64_t>> result;
  for (auto [size, stride] : dims) {
    if (size == 1)
      continue;
    if (!result.empty() && result.back().second == stride * size)
      result.back() = {result.back().first * size, stride};
    else
      result.push_back({size, stride});
  }
  return result;
}

static SmallVector<std::pair<int64_t, int64_t>>
collapse(const plan::StridedView &view) {
  return collapse(llvm::map_to_vector(
      llvm::zip_equal(view.shape, view.strides), [](auto pair) {
        return std::pair(std::get<0>(pair), std::get<1>(pair));
      }));
}

bool Domain::isRowBroadcast(const plan::StridedView &view) const {
  SmallVector<std::pair<int64_t, int64_t>> expected;
  int64_t stride = 1;
  for (const Dim &dim : llvm::reverse(dims)) {
    expected.push_back({dim.size, dim.reduced ? 0 : stride});
    if (!dim.reduced)
      stride *= dim.size;
  }
  std::reverse(expected.begin(), expected.end());
  return view.offset == 0 && getElements(view.base) == getRows() &&
         collapse(view) == collapse(expected);
}

bool fuse::isWhole(const plan::StridedView &view) {
  int64_t elements = 1;
  for (int64_t size : view.shape)
    elements *= size;
  return view.offset == 0 && view.isContiguous() &&
         getElements(view.base) == elements;
}
