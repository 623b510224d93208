//===- Operands.cpp - Where the operands of kernels come from -------------===//
#include "compiler/fuse/Operands.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/AttentionForm.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// Deeper masks than this are stored: computing them again would cost more than
/// reading them.
static constexpr int64_t kMaxSoftCost = 12;
/// A soft pointwise operation reads at most this part of its result's size, or
/// at most so many bytes (scalars).
static constexpr int64_t kSoftRatio = 8, kSoftBytes = 64;
/// Operations of a soft value that reads arguments of its own size.
static constexpr int64_t kMaxArgumentCost = 4;

int64_t fuse::getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}
int64_t fuse::getBytes(Value value) {
  return plan::getTensorBytes(cast<RankedTensorType>(value.getType()));
}

bool fuse::isCheap(Operation *op) {
  return op->hasTrait<train::Pointwise>() &&
         !isa<train::ExponentialOp, train::ExponentialMinusOneOp, train::LogOp,
              train::LogPlusOneOp, train::TanhOp, train::LogisticOp,
              train::SineOp, train::CosineOp, train::TanOp, train::AtanOp,
              train::Atan2Op, train::ErfOp, train::PowerOp>(op);
}

bool fuse::takesConstant(Operation *op, unsigned index) {
  bool isScatterBase = isa<train::ScatterOp>(op) && index == 0;
  bool isScalar =
      isa<train::SgdOp, train::AdamOp>(op) && index < op->getNumOperands() &&
      cast<RankedTensorType>(op->getOperand(index).getType()).getRank() == 0;
  return (isScatterBase || isScalar) &&
         op->getOperand(index).getDefiningOp<train::ConstantOp>();
}

bool Operands::isBoundary(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         isa<train::AccumulateOp, plan::JoinOp>(op) ||
         !isa<train::TrainDialect>(op->getDialect());
}

bool Operands::isAnchor(Operation *op) {
  return plan::getAnchorKind(op) || isa<train::SgdOp, train::AdamOp>(op);
}

//===----------------------------------------------------------------------===//
// Folding views into anchors
//===----------------------------------------------------------------------===//

/// Follows views up from `value` as far as `accept` takes the resulting view.
FoldedOperand Operands::foldViews(
    Value value, llvm::function_ref<bool(const plan::StridedView &)> accept) {
  SmallVector<Operation *> chain;
  Value root = value;
  while (Operation *op = root.getDefiningOp()) {
    if (!plan::isViewOp(op) || isAbsorbed(op))
      break;
    chain.push_back(op);
    root = op->getOperand(0);
  }
  std::reverse(chain.begin(), chain.end());
  for (size_t first = 0; first <= chain.size(); ++first) {
    ArrayRef<Operation *> views = ArrayRef(chain).drop_front(first);
    Value start = views.empty() ? value : views.front()->getOperand(0);
    std::optional<plan::StridedView> view = plan::getContiguousView(start);
    for (Operation *op : views)
      if (view)
        view = plan::applyView(op, *view);
    if (view && (views.empty() || accept(*view)))
      return {start, SmallVector<Operation *>(views)};
  }
  llvm_unreachable("the empty chain is always taken");
}

static plan::StridedView getView(const FoldedOperand &operand) {
  plan::StridedView view = plan::getContiguousView(operand.root);
  for (Operation *op : operand.views)
    view = *plan::applyView(op, view);
  return view;
}

/// Views are taken where the product still has one contracted dimension; each
/// operand gives way in turn.
void Operands::foldDot(train::DotGeneralOp dot,
                       SmallVectorImpl<FoldedOperand> &operands) {
  auto any = [](const plan::StridedView &) { return true; };
  FoldedOperand plain[2] = {{dot.getLhs(), {}}, {dot.getRhs(), {}}};
  FoldedOperand full[2] = {foldViews(dot.getLhs(), any),
                           foldViews(dot.getRhs(), any)};
  plan::StridedView result = plan::getContiguousView(dot.getResult());
  for (int choice = 3; choice >= 0; --choice) {
    const FoldedOperand &lhs = choice & 1 ? full[0] : plain[0],
                        &rhs = choice & 2 ? full[1] : plain[1];
    if (choice == 0 ||
        plan::foldContraction(dot, getView(lhs), getView(rhs), result)) {
      operands.assign({lhs, rhs});
      return;
    }
  }
}

/// Attention with kernels of tensor cores; the library's is of f32.
static bool isTileAttention(Operation *op) {
  return isa<train::AttentionOp, train::AttentionGradientOp>(op) &&
         getElementTypeOrSelf(op->getResult(0).getType()).isBF16();
}

/// Saved row statistics and masks have no innermost dimension of their own.
static bool isRowOperand(Operation *op, Value value) {
  if (auto attention = dyn_cast<train::AttentionOp>(op))
    return value == attention.getMask();
  auto gradient = cast<train::AttentionGradientOp>(op);
  return value == gradient.getMask() || value == gradient.getLse();
}

/// Whether the kernel of anchor `op` (not a product) reads an operand that lies
/// so.
static bool canRead(Operation *op, Value value, const plan::StridedView &view) {
  if (!isa<train::AttentionOp, train::AttentionGradientOp>(op))
    return view.isContiguous();
  if (isRowOperand(op, value))
    return !isTileAttention(op) || (view.isContiguous() && view.offset == 0);
  return isTileAttention(op) ? plan::suitsAttentionTiles(view)
                             : plan::hasUnitInnermostStride(view);
}

void Operands::foldOperands(Operation *op) {
  SmallVector<FoldedOperand, 2> &operands = folded[op];
  if (auto dot = dyn_cast<train::DotGeneralOp>(op)) {
    foldDot(dot, operands);
  } else {
    SmallVector<Value> values(op->getOperands());
    llvm::SetVector<Value> captured;
    if (op->getNumRegions())
      getUsedValuesDefinedAbove(op->getRegions(), captured);
    values.append(captured.begin(), captured.end());
    for (Value value : values)
      operands.push_back(foldViews(value, [&](const plan::StridedView &view) {
        return canRead(op, value, view);
      }));
  }
  for (auto [index, operand] : llvm::enumerate(operands))
    if (!takesConstant(op, index))
      required.insert(operand.root);
}

/// Whether the attention kernel of `op` writes a result that lies so.
static bool canWrite(Operation *op, const plan::StridedView &view) {
  if (!isTileAttention(op))
    return plan::hasUnitInnermostStride(view);
  bool isRows = view.shape.size() == 3; // lse
  return isRows ? view.isContiguous() : plan::suitsAttentionTiles(view);
}

/// Absorbs the views behind `result` up to its last transpose, if the library
/// can write in that layout as well as in the plain one.
void Operands::absorbResult(Operation *op, Value result) {
  SmallVector<Operation *> chain;
  size_t length = 0;
  for (Value value = result; value.hasOneUse();) {
    Operation *user = *value.user_begin();
    if (!isa<train::ReshapeOp, train::TransposeOp>(user) ||
        user->getBlock() != &block)
      break;
    chain.push_back(user);
    if (isa<train::TransposeOp>(user))
      length = chain.size();
    value = user->getResult(0);
  }
  chain.resize(length);
  if (chain.empty())
    return;
  std::optional<plan::StridedView> view = plan::invertViews(chain);
  if (!view)
    return;
  if (auto dot = dyn_cast<train::DotGeneralOp>(op)) {
    plan::StridedView lhs = getView(getFolded(op)[0]),
                      rhs = getView(getFolded(op)[1]);
    auto before = plan::foldContraction(dot, lhs, rhs,
                                        plan::getContiguousView(result)),
         after = plan::foldContraction(dot, lhs, rhs, *view);
    if (!after || (before && after->batch.size() > before->batch.size()) ||
        (after->cRow != 1 && after->cColumn != 1))
      return;
  } else if (!canWrite(op, *view)) {
    return;
  }
  absorbed.insert(chain.begin(), chain.end());
  written[result] = chain.back()->getResult(0);
}

/// Absorbs a concatenation of exactly the results, behind views: gradients of
/// the parts of one projection.
bool Operands::absorbJoined(Operation *op) {
  llvm::SetVector<Operation *> views;
  Operation *joined = nullptr;
  for (Value result : op->getResults()) {
    plan::ResultViews found = plan::getResultViews(result);
    if (!found.part || (joined && found.part->getOwner() != joined))
      return false;
    joined = found.part->getOwner();
    views.insert(found.chain.begin(), found.chain.end());
    std::optional<plan::StridedView> view = plan::foldResultViews(result);
    if (!view || !canWrite(op, *view))
      return false;
  }
  if (joined->getNumOperands() != op->getNumResults() ||
      joined->getBlock() != &block)
    return false;
  absorbed.insert(views.begin(), views.end());
  absorbed.insert(joined);
  for (Value result : op->getResults())
    written[result] = joined->getResult(0);
  return true;
}

//===----------------------------------------------------------------------===//
// Soft operations and leaves
//===----------------------------------------------------------------------===//

/// An argument of the block, or a part of one.
static bool isArgument(Value value) {
  while (auto view = value.getDefiningOp<plan::ViewOp>())
    value = view.getOperand();
  return isa<BlockArgument>(value);
}

bool Operands::classifySoft(Operation *op) {
  if (op->getNumResults() != 1 || isRequired(op->getResult(0)))
    return false;
  Value result = op->getResult(0);
  if (isa<train::ConstantOp, train::IotaOp>(op) || plan::isViewOp(op))
    return true;
  if (!isCheap(op))
    return false;
  if (auto convert = dyn_cast<train::ConvertOp>(op);
      convert && getBytes(convert.getOperand()) <= getBytes(result))
    return true;
  int64_t cost = 1, read = 0;
  bool fromArguments = true;
  for (Value operand : op->getOperands()) {
    cost += softCost.lookup(operand);
    for (const Leaf &leaf : getLeaves(operand)) {
      read = std::max(read, getBytes(leaf.root));
      fromArguments &= isArgument(leaf.root);
    }
  }
  bool small = read * kSoftRatio <= getBytes(result) ||
               read + getBytes(result) <= kSoftBytes;
  // Arguments (labels, ids) stay in memory anyway: a mask of them, used forward
  // and backward, ties no kernels together.
  bool ofArguments = fromArguments && cost <= kMaxArgumentCost &&
                     read <= kSoftRatio * getBytes(result);
  if (cost > kMaxSoftCost || !(small || ofArguments))
    return false;
  softCost[result] = cost;
  return true;
}

Operands::Operands(Block &block) : block(block) {
  // In program order, so that what an anchor absorbs is known when a later one
  // folds its operands.
  for (Operation &op : block) {
    if (isBoundary(&op) || isAnchor(&op))
      foldOperands(&op);
    if (isa<train::AttentionGradientOp>(op) && absorbJoined(&op))
      continue;
    if (isa<train::DotGeneralOp, train::AttentionOp,
            train::AttentionGradientOp>(op))
      for (Value result : op.getResults())
        absorbResult(&op, result);
  }
  for (Operation &op : block)
    if (!isBoundary(&op) && !isAnchor(&op) && !isAbsorbed(&op) &&
        classifySoft(&op))
      soft.insert(&op);
}

ArrayRef<Leaf> Operands::getLeaves(Value value) {
  if (auto it = leaves.find(value.getAsOpaquePointer()); it != leaves.end())
    return it->second;
  SmallVector<Leaf, 1> result;
  Operation *op = value.getDefiningOp();
  // A constant from outside an accumulation's body is as good as one inside.
  if (op && isa<train::ConstantOp>(op) && op->getBlock() != &block) {
  } else if (!op || !isSoft(op)) {
    result.push_back({value, plan::getContiguousView(value)});
  } else if (plan::isViewOp(op)) {
    for (const Leaf &leaf : getLeaves(op->getOperand(0)))
      result.push_back({leaf.root, leaf.view ? plan::applyView(op, *leaf.view)
                                             : std::nullopt});
  } else {
    for (Value operand : op->getOperands())
      result.append(llvm::to_vector<1>(getLeaves(operand)));
  }
  return leaves.emplace(value.getAsOpaquePointer(), std::move(result))
      .first->second;
}
