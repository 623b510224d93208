//===- RowPick.cpp - Sums of which one element counts ---------------------===//
#include "compiler/emit/nvptx/RowPick.h"
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/LoopGrid.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

namespace {
struct Pick {
  Value number, element;
};
} // namespace

static bool isZero(Value value) {
  while (auto broadcast = value.getDefiningOp<train::BroadcastInDimOp>())
    value = broadcast.getOperand();
  auto constant = value.getDefiningOp<train::ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return dense && dense.isSplat() && isa<FloatType>(dense.getElementType()) &&
         dense.getSplatValue<APFloat>().isZero();
}

/// Whether all elements along `dimension` are the same, as far as views tell.
static bool isConstantAlong(Value value, int64_t dimension) {
  while (auto convert = value.getDefiningOp<train::ConvertOp>())
    value = convert.getOperand();
  auto broadcast = value.getDefiningOp<train::BroadcastInDimOp>();
  return broadcast && !llvm::is_contained(broadcast.getDimensions(), dimension);
}

static std::optional<Pick> findPick(const LoopAnalysis &domain,
                                    train::ReduceOp reduce) {
  auto select = reduce.getOperand().getDefiningOp<train::SelectOp>();
  if (reduce.getKind() != train::ReduceKind::Sum || !select ||
      !isZero(select.getOperand(2)) ||
      llvm::count_if(domain.runs, [](const Run &run) { return run.reduced; }) !=
          1)
    return std::nullopt;
  auto compare = select.getOperand(0).getDefiningOp<train::CompareOp>();
  auto iota = compare ? compare.getLhs().getDefiningOp<train::IotaOp>()
                      : train::IotaOp();
  if (!iota || compare.getDirection() != train::CompareDirection::EQ)
    return std::nullopt;
  auto type = cast<RankedTensorType>(iota.getType());
  int64_t dimension = iota.getDimension();
  // Positions count along the whole of the reduced run.
  if (!isa<IntegerType>(type.getElementType()) ||
      !llvm::is_contained(reduce.getDimensions(), dimension) ||
      type.getDimSize(dimension) != domain.runs.back().size ||
      !isConstantAlong(compare.getRhs(), dimension))
    return std::nullopt;
  return Pick{compare.getRhs(), select.getOperand(1)};
}

std::optional<Value> emit::emitRowPick(ElementEmitter &e,
                                       const LoopAnalysis &domain,
                                       llvm::ArrayRef<Index> kept,
                                       train::ReduceOp reduce) {
  std::optional<Pick> pick = findPick(domain, reduce);
  if (!pick)
    return std::nullopt;
  int64_t size = domain.runs.back().size;
  auto indexAt = [&](Digit position) {
    return joinRuns(domain, kept, {Index{position}});
  };
  Type type = getElementTypeOrSelf(pick->number.getType());
  Value number = e.emit(pick->number, indexAt(e.constantDigit(0, size)));
  Value nearest =
      e.isPlanning() ? Value() : clampIndex(e.scalars(), number, type, size);
  Value element =
      e.emit(pick->element, indexAt(e.makeDigit(e.toNumber(nearest), size)));
  if (e.isPlanning())
    return Value();
  ScalarBuilder &b = e.scalars();
  Value wide = convertScalar(b, number, type, b.builder.getI64Type());
  return b.select(b.compare(arith::CmpIPredicate::eq, wide, nearest), element,
                  b.constant(element.getType(), 0.0));
}
