//===- JoinSliceGradients.cpp - Sums of padded parts as concatenations
//-----===//
#include "compiler/autodiff/Passes.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

namespace lockstep {
#define GEN_PASS_DEF_JOINSLICEGRADIENTSPASS
#include "compiler/autodiff/Passes.h.inc"
} // namespace lockstep

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

namespace {

/// A padded value: elements [begin, end) of the one dimension that is padded.
struct Part {
  PadOp pad;
  int64_t begin, end;
};

} // namespace

/// The dimension that a pad with zeros extends, if it is one and nothing is cut
/// or spread.
static std::optional<int64_t> getPaddedDim(PadOp pad) {
  if (!matchPattern(pad.getValue(), m_AnyZeroFloat()))
    return std::nullopt;
  std::optional<int64_t> padded;
  for (auto [i, low, high, interior] :
       llvm::enumerate(pad.getLow(), pad.getHigh(), pad.getInterior())) {
    if (low < 0 || high < 0 || interior != 0)
      return std::nullopt;
    if (low == 0 && high == 0)
      continue;
    if (padded)
      return std::nullopt;
    padded = i;
  }
  return padded;
}

/// The summands of a tree of additions that have no other use.
static void collectSummands(Value value, bool isRoot,
                            SmallVectorImpl<Value> &summands) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || (!isRoot && !value.hasOneUse()))
    return summands.push_back(value);
  collectSummands(add.getLhs(), false, summands);
  collectSummands(add.getRhs(), false, summands);
}

/// Sorts parts by position; false if two overlap.
static bool arrange(SmallVectorImpl<Part> &parts) {
  llvm::sort(parts,
             [](const Part &a, const Part &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].begin < parts[i - 1].end)
      return false;
  return true;
}

/// The parts side by side, with zeros in the gaps.
static Value join(TensorBuilder &b, ArrayRef<Part> parts, int64_t dim,
                  RankedTensorType type) {
  SmallVector<Value> pieces;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (i > 0 && parts[i - 1].end < part.begin) {
      SmallVector<int64_t> gap(type.getShape());
      gap[dim] = part.begin - parts[i - 1].end;
      pieces.push_back(b.constant(type.clone(gap), 0));
    }
    PadOp pad = part.pad;
    pieces.push_back(pad.getOperand());
  }
  Value joined = ConcatenateOp::create(b.getBuilder(), b.getLoc(), pieces, dim);
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0),
      interior(type.getRank(), 0);
  low[dim] = parts.front().begin;
  high[dim] = type.getDimSize(dim) - parts.back().end;
  if (low[dim] == 0 && high[dim] == 0)
    return joined;
  return PadOp::create(b.getBuilder(), b.getLoc(), joined,
                       b.scalar(type.getElementType(), 0), low, high, interior);
}

/// Replaces a sum that has at least two disjoint parts along one dimension.
static void joinSummands(AddOp root) {
  SmallVector<Value> summands, remaining;
  collectSummands(root.getResult(), true, summands);
  llvm::MapVector<int64_t, SmallVector<Part>> partsOfDim;
  for (Value summand : summands) {
    auto pad = summand.getDefiningOp<PadOp>();
    std::optional<int64_t> dim =
        pad && summand.hasOneUse() ? getPaddedDim(pad) : std::nullopt;
    if (!dim) {
      remaining.push_back(summand);
      continue;
    }
    int64_t begin = pad.getLow()[*dim];
    partsOfDim[*dim].push_back(
        {pad, begin, begin + getShape(pad.getOperand())[*dim]});
  }

  OpBuilder builder(root);
  TensorBuilder b(builder, root.getLoc());
  bool joinedAny = false;
  for (auto &[dim, parts] : partsOfDim) {
    if (parts.size() >= 2 && arrange(parts)) {
      remaining.push_back(join(b, parts, dim, getTensorType(root.getResult())));
      joinedAny = true;
    } else {
      llvm::append_range(remaining, llvm::map_range(parts, [](Part &part) {
                           return part.pad.getResult();
                         }));
    }
  }
  if (!joinedAny)
    return;
  Value sum = remaining.front();
  for (Value summand : ArrayRef<Value>(remaining).drop_front())
    sum = b.add(sum, summand);
  root.getResult().replaceAllUsesWith(sum);
}

namespace {

struct JoinSliceGradientsPass
    : lockstep::impl::JoinSliceGradientsPassBase<JoinSliceGradientsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AddOp> roots;
    getOperation().walk([&](AddOp add) {
      bool isInner = add->hasOneUse() && isa<AddOp>(*add->user_begin());
      if (!isInner && isa<FloatType>(getElementType(add.getResult())))
        roots.push_back(add);
    });
    // The replaced additions and pads have no uses; canonicalization removes
    // them.
    llvm::for_each(roots, joinSummands);
  }
};

} // namespace
