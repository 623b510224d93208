//===- Vocabulary.cpp - Which integers an input may hold ------------------===//
#include "compiler/autodiff/Vocabulary.h"
#include "dialects/train/Train.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

Vocabulary Vocabulary::intersect(const Vocabulary &other) const {
  return {std::min(size, other.size),
          ignored == other.ignored ? ignored : std::nullopt,
          fromEnd && other.fromEnd};
}

static int64_t sizeOf(Value tensor, int64_t dim) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(dim);
}

/// The range of the index operand `use` of a gather or scatter.
template <typename Op>
static std::optional<Vocabulary> ofIndex(OpOperand &use) {
  auto op = cast<Op>(use.getOwner());
  for (auto [index, dim] :
       llvm::zip_equal(op.getIndicesMutable(), op.getDims()))
    if (index.getOperandNumber() == use.getOperandNumber())
      return Vocabulary{sizeOf(op.getOperand(), dim), std::nullopt};
  return std::nullopt;
}

/// The range that this use itself asks for.
static std::optional<Vocabulary> ofUse(OpOperand &use) {
  Operation *op = use.getOwner();
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return Vocabulary{sizeOf(embedding.getTable(), 0), std::nullopt};
  if (auto loss = dyn_cast<CrossEntropyOp>(op);
      loss && use.get() == loss.getLabels())
    return Vocabulary{sizeOf(loss.getLogits(), loss.getDimension()),
                      loss.getIgnoreIndex()};
  if (isa<GatherOp>(op))
    return ofIndex<GatherOp>(use);
  if (isa<ScatterOp>(op))
    return ofIndex<ScatterOp>(use);
  return std::nullopt;
}

/// Whether the elements of the result are those of the operand `use`, moved,
/// besides others; a conversion between integer types keeps them.
static bool isMovement(OpOperand &use) {
  return TypeSwitch<Operation *, bool>(use.getOwner())
      .Case<ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp, ReverseOp,
            ConcatenateOp>([](Operation *) { return true; })
      .Case<PadOp>([&](Operation *) { return use.getOperandNumber() == 0; })
      .Case<ConvertOp>([](ConvertOp op) {
        return getElementTypeOrSelf(op.getType()).isSignlessInteger() &&
               !getElementTypeOrSelf(op.getType()).isInteger(1);
      })
      .Default([](Operation *) { return false; });
}

/// Whether the value is this integer everywhere.
static bool isSplatOf(Value value, int64_t integer) {
  DenseIntElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat() &&
         constant.getSplatValue<APInt>().getSExtValue() == integer;
}

/// What import makes of indices that may count from the end: select(x < 0,
/// x + size, x). The range of x that the uses of the result allow, where `use`
/// is x as the last operand.
static std::optional<Vocabulary> ofIndexFromEnd(OpOperand &use) {
  auto select = dyn_cast<SelectOp>(use.getOwner());
  if (!select || use.getOperandNumber() != 2)
    return std::nullopt;
  auto isNegative = select.getPred().getDefiningOp<CompareOp>();
  auto moved = select.getOnTrue().getDefiningOp<AddOp>();
  DenseIntElementsAttr size;
  if (!isNegative || isNegative.getDirection() != CompareDirection::LT ||
      isNegative.getLhs() != use.get() || !isSplatOf(isNegative.getRhs(), 0) ||
      !moved || moved.getLhs() != use.get() ||
      !matchPattern(moved.getRhs(), m_Constant(&size)) || !size.isSplat())
    return std::nullopt;
  std::optional<Vocabulary> moves = findVocabulary(select.getResult());
  if (!moves || moves->size != size.getSplatValue<APInt>().getSExtValue())
    return std::nullopt;
  return Vocabulary{moves->size, std::nullopt, /*fromEnd=*/true};
}

std::optional<Vocabulary> autodiff::findVocabulary(Value integers) {
  std::optional<Vocabulary> found;
  llvm::SetVector<Value> holders;
  holders.insert(integers);
  for (size_t i = 0; i < holders.size(); ++i)
    for (OpOperand &use : holders[i].getUses()) {
      if (isMovement(use)) {
        holders.insert(use.getOwner()->getResult(0));
        continue;
      }
      std::optional<Vocabulary> own = ofUse(use);
      if (!own)
        own = ofIndexFromEnd(use);
      if (own)
        found = found ? found->intersect(*own) : *own;
    }
  return found;
}
