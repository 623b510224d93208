//===- AttentionForm.cpp - Attention for tensor-core kernels --------------===//
#include "dialects/plan/AttentionForm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

/// 16 bytes of bf16.
static constexpr int64_t kTileElements = 8;
static constexpr int64_t kMostColumns = 256;

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static std::optional<AttentionForm::Mask::Element> getMaskElement(Value mask) {
  using Element = AttentionForm::Mask::Element;
  Type type = getType(mask).getElementType();
  if (type.isInteger(1))
    return Element::Boolean;
  if (type.isF32())
    return Element::F32;
  if (type.isBF16())
    return Element::BFloat16;
  return std::nullopt;
}

template <typename Op> static bool isSuitable(Op op) {
  RankedTensorType query = getType(op.getQuery()), key = getType(op.getKey()),
                   value = getType(op.getValue());
  int64_t columns = query.getDimSize(3), queries = query.getDimSize(2),
          keys = key.getDimSize(2);
  for (RankedTensorType type : {query, key, value})
    if (!type.getElementType().isBF16() || type.getNumElements() == 0)
      return false;
  if (value.getDimSize(3) != columns || columns % kTileElements ||
      columns > kMostColumns || !op.getScale().isNormal() ||
      op.getScale().isNegative())
    return false;
  if (op.getWindow() && (!op.getCausal() || queries != keys))
    return false;
  return !op.getMask() || getMaskElement(op.getMask()).has_value();
}

bool plan::suitsAttentionTiles(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<train::AttentionOp, train::AttentionGradientOp>(
          [](auto op) { return isSuitable(op); })
      .Default([](Operation *) { return false; });
}

bool plan::suitsAttentionTiles(const StridedView &view) {
  if (!hasUnitInnermostStride(view) || view.offset % kTileElements)
    return false;
  for (auto [size, stride] :
       llvm::zip_equal(ArrayRef(view.shape).drop_back(),
                       ArrayRef(view.strides).drop_back()))
    if (size > 1 && (stride <= 0 || stride % kTileElements))
      return false;
  return true;
}

namespace {
class AttentionFolder {
public:
  explicit AttentionFolder(KernelOp kernel) : kernel(kernel) {}
  std::optional<AttentionForm> run();

private:
  template <typename Op> void foldCommon(Op op);
  void foldMask(Value mask);
  void fold(train::AttentionOp op);
  void fold(train::AttentionGradientOp op);

  /// Each notes in `failed` what strides cannot say.
  AttentionForm::Tensor getOperand(Value value);
  AttentionForm::Tensor getResult(Value value);
  AttentionForm::Tensor getTensor(const StridedView &view, unsigned operand);
  std::optional<unsigned> findArgument(const std::optional<StridedView> &view);
  std::optional<unsigned> findResult(const std::optional<StridedView> &view);
  unsigned getContiguous(const std::optional<StridedView> &view,
                         std::optional<unsigned> operand);

  KernelOp kernel;
  AttentionForm form;
  bool failed = false;
};
} // namespace

std::optional<unsigned>
AttentionFolder::findArgument(const std::optional<StridedView> &view) {
  auto argument = view ? dyn_cast<BlockArgument>(view->base) : BlockArgument();
  if (!argument)
    return std::nullopt;
  return argument.getArgNumber();
}

std::optional<unsigned>
AttentionFolder::findResult(const std::optional<StridedView> &view) {
  if (!view)
    return std::nullopt;
  auto returned = kernel.getBlock().getTerminator()->getOperands();
  auto found = llvm::find(returned, view->base);
  if (found == returned.end())
    return std::nullopt;
  return kernel.getArgumentTypes().size() + (found - returned.begin());
}

AttentionForm::Tensor AttentionFolder::getTensor(const StridedView &view,
                                                 unsigned operand) {
  if (!suitsAttentionTiles(view))
    failed = true;
  auto getStride = [&](size_t dim) {
    return view.shape[dim] > 1 ? view.strides[dim]
                               : static_cast<int64_t>(kMostColumns);
  };
  return {operand, view.offset, getStride(2), getStride(1), getStride(0)};
}

AttentionForm::Tensor AttentionFolder::getOperand(Value value) {
  std::optional<StridedView> view = foldOperandViews(value);
  std::optional<unsigned> argument = findArgument(view);
  if (argument)
    return getTensor(*view, *argument);
  failed = true;
  return {};
}

AttentionForm::Tensor AttentionFolder::getResult(Value value) {
  std::optional<StridedView> view = foldResultViews(value);
  std::optional<unsigned> result = findResult(view);
  if (result)
    return getTensor(*view, *result);
  failed = true;
  return {};
}

unsigned AttentionFolder::getContiguous(const std::optional<StridedView> &view,
                                        std::optional<unsigned> operand) {
  if (!operand || !view->isContiguous() || view->offset)
    failed = true;
  return operand.value_or(0);
}

template <typename Op> void AttentionFolder::foldCommon(Op op) {
  RankedTensorType query = getType(op.getQuery()), key = getType(op.getKey());
  form.batches = query.getDimSize(0);
  form.queryHeads = query.getDimSize(1);
  form.queries = query.getDimSize(2);
  form.headDim = query.getDimSize(3);
  form.keyHeads = key.getDimSize(1);
  form.keys = key.getDimSize(2);
  form.scale = op.getScale().convertToDouble();
  form.causal = op.getCausal();
  if (op.getWindow())
    form.window = *op.getWindow();
  form.query = getOperand(op.getQuery());
  form.key = getOperand(op.getKey());
  form.value = getOperand(op.getValue());
  if (op.getMask())
    foldMask(op.getMask());
}

void AttentionFolder::foldMask(Value value) {
  std::optional<StridedView> view = foldOperandViews(value);
  AttentionForm::Mask mask;
  mask.operand = getContiguous(view, findArgument(view));
  mask.element = *getMaskElement(value);
  int64_t *strides[] = {&mask.batch, &mask.head, &mask.row, &mask.column};
  int64_t stride = 1;
  for (int dim = 3; dim >= 0; --dim) {
    int64_t size = getType(value).getDimSize(dim);
    *strides[dim] = size > 1 ? stride : 0;
    stride *= size;
  }
  form.mask = mask;
}

void AttentionFolder::fold(train::AttentionOp op) {
  foldCommon(op);
  form.output = getResult(op.getResult());
  std::optional<StridedView> lse = foldResultViews(op.getLse());
  form.lse = getContiguous(lse, findResult(lse));
}

void AttentionFolder::fold(train::AttentionGradientOp op) {
  foldCommon(op);
  form.isGradient = true;
  form.output = getOperand(op.getOutput());
  form.outputGradient = getOperand(op.getCotangent());
  form.queryGradient = getResult(op.getDquery());
  form.keyGradient = getResult(op.getDkey());
  form.valueGradient = getResult(op.getDvalue());
  std::optional<StridedView> lse = foldOperandViews(op.getLse());
  form.lse = getContiguous(lse, findArgument(lse));
}

std::optional<AttentionForm> AttentionFolder::run() {
  Operation *anchor = kernel.getAnchor();
  if (!anchor || !suitsAttentionTiles(anchor))
    return std::nullopt;
  llvm::TypeSwitch<Operation *>(anchor)
      .Case<train::AttentionOp, train::AttentionGradientOp>(
          [&](auto op) { fold(op); });
  if (failed)
    return std::nullopt;
  return form;
}

std::optional<AttentionForm> plan::foldAttention(KernelOp kernel) {
  return AttentionFolder(kernel).run();
}
