//===- KernelModel.cpp - What the regions of kernels may hold -------------===//
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/ProductEpilogue.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

bool plan::isViewOp(Operation *op) {
  return isa<train::ReshapeOp, train::TransposeOp, train::SliceOp,
             train::BroadcastInDimOp>(op);
}

std::optional<KernelKind> plan::getAnchorKind(Operation *op) {
  return TypeSwitch<Operation *, std::optional<KernelKind>>(op)
      .Case<train::DotGeneralOp>([](auto) { return KernelKind::Contraction; })
      .Case<train::AttentionOp>([](auto) { return KernelKind::Attention; })
      .Case<train::AttentionGradientOp>(
          [](auto) { return KernelKind::AttentionGradient; })
      .Case<train::ConvolutionOp>([](auto) { return KernelKind::Convolution; })
      .Case<train::ConvolutionInputGradientOp>(
          [](auto) { return KernelKind::ConvolutionInputGradient; })
      .Case<train::ConvolutionFilterGradientOp>(
          [](auto) { return KernelKind::ConvolutionFilterGradient; })
      .Case<train::SortOp>([](auto) { return KernelKind::Sort; })
      .Case<train::ScatterOp>([](auto) { return KernelKind::Scatter; })
      .Case<train::CumulativeOp, train::ArgReduceOp>(
          [](auto) { return KernelKind::Scan; })
      .Case<train::ReduceWindowOp, train::ReduceWindowGradientOp>(
          [](auto) { return KernelKind::Window; })
      .Default([](auto) { return std::nullopt; });
}

/// True if element i (in row-major order) of every value computed from `value`
/// without a reduce depends on element i of it alone, and no operation reads
/// its elements in another order. Row-level values are behind a reduce, whose
/// loop is complete before any store.
static bool isReadInPlace(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return true;
  for (Operation *user : value.getUsers()) {
    if (isa<ReturnOp, train::ReduceOp>(user))
      continue;
    if (auto gather = dyn_cast<train::GatherOp>(user)) {
      if (gather.getOperand() == value)
        return false;
      // An index tensor is read in order where the gathered slices are single
      // elements.
      auto index = cast<RankedTensorType>(value.getType()),
           result = gather.getType();
      if (index.getNumElements() !=
          cast<RankedTensorType>(result).getNumElements())
        return false;
    } else if (auto dropout = dyn_cast<train::DropoutOp>(user)) {
      if (dropout.getRng() == value || dropout.getOffsets() == value)
        return false;
    } else if (!isa<train::ReshapeOp>(user) &&
               !user->hasTrait<train::Pointwise>()) {
      return false;
    }
    if (!isReadInPlace(user->getResult(0), seen))
      return false;
  }
  return true;
}

/// Loop kernels: safe if all full-size results are stored together, after the
/// loads.
static bool canLoopWriteOver(KernelOp kernel, BlockArgument argument,
                             unsigned result) {
  bool reduces = false;
  int64_t domain = 0, rows = 0;
  for (Operation &op : kernel.getBlock())
    if (auto reduce = dyn_cast<train::ReduceOp>(op)) {
      // Only rows: column sums visit the domain in blocks of columns. And only
      // one domain: other rows may be another thread's.
      auto type = cast<RankedTensorType>(reduce.getOperand().getType());
      auto dims = reduce.getDimensions();
      int64_t elements = type.getNumElements(),
              kept = reduce.getType().getNumElements();
      if (reduces && (elements != domain || kept != rows))
        return false;
      reduces = true;
      domain = elements;
      rows = kept;
      for (auto [i, dim] : llvm::enumerate(dims))
        if (dim != type.getRank() - static_cast<int64_t>(dims.size()) +
                       static_cast<int64_t>(i))
          return false;
    }
  int64_t elements =
      cast<RankedTensorType>(argument.getType()).getNumElements();
  int64_t fullSize = 0;
  for (Type type : kernel.getResultTypes()) {
    bool full = cast<RankedTensorType>(type).getNumElements() == elements;
    fullSize += full;
    // Without reduces every result belongs to the one loop nest over the
    // elements.
    if (!full && !reduces)
      return false;
  }
  // With reduces, a second result would be stored by a loop of its own, which
  // may read the argument again.
  if (reduces && fullSize != 1)
    return false;
  // The result is computed in order: walking back from it must not cross an
  // operation that reorders.
  llvm::SmallVector<Value> worklist{
      kernel.getBlock().getTerminator()->getOperand(result)};
  llvm::DenseSet<Value> seen;
  if (!isReadInPlace(argument, seen))
    return false;
  return llvm::is_contained(seen, worklist.front()) || reduces;
}

int plan::getAccumulatedArgument(KernelOp kernel, unsigned result) {
  if (kernel.getKind() != KernelKind::Contraction || result != 0)
    return -1;
  // Only a sum in f32 is of that form: most products need no closer look.
  Operation *last =
      kernel.getBlock().getTerminator()->getOperand(0).getDefiningOp();
  if (!isa_and_nonnull<train::AddOp>(last))
    return -1;
  std::optional<ProductEpilogue> product = foldProduct(kernel);
  return product && product->accumulated ? int(*product->accumulated) : -1;
}

bool plan::canWriteOver(KernelOp kernel, unsigned argument, unsigned result) {
  auto from = cast<RankedTensorType>(kernel.getArgumentTypes()[argument]);
  auto to = cast<RankedTensorType>(kernel.getResultTypes()[result]);
  if (getTensorBytes(from) != getTensorBytes(to) ||
      from.getNumElements() != to.getNumElements())
    return false;
  BlockArgument value = kernel.getBlock().getArgument(argument);
  switch (kernel.getKind()) {
  case KernelKind::Update:
    return from.getRank() == 1 && to.getRank() == 1;
  case KernelKind::Loop:
    return canLoopWriteOver(kernel, value, result);
  case KernelKind::Scatter: {
    auto scatter = cast<train::ScatterOp>(kernel.getAnchor());
    return scatter.getOperand() == value && value.hasOneUse() &&
           kernel.getBlock().getTerminator()->getOperand(result) ==
               scatter.getResult();
  }
  case KernelKind::Contraction:
    return getAccumulatedArgument(kernel, result) == int(argument);
  default:
    return false;
  }
}
