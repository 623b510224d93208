//===- LibraryKernels.cpp - Strides and sizes of library kernels ----------===//
//
// A library kernel's region is one operation with views before and behind it.
// The views fold into strides (dialects/plan/StridedView.h); what is left are
// the attributes that runtime/device/host/library/README.md lists.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/library/LibraryKernels.h"
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/ProductEpilogue.h"
#include "dialects/plan/StridedView.h"

using namespace mlir;

namespace lockstep::emit {
namespace {

using Ints = llvm::ArrayRef<int64_t>;

class Describer {
public:
  explicit Describer(plan::KernelOp kernel)
      : kernel(kernel), anchor(kernel.getAnchor()) {}

  FailureOr<LibraryCall> run();

private:
  // One per operation.
  LogicalResult describe(train::DotGeneralOp op);
  LogicalResult describe(train::AttentionOp op);
  LogicalResult describe(train::AttentionGradientOp op);
  LogicalResult describe(train::ConvolutionOp op);
  LogicalResult describe(train::ConvolutionInputGradientOp op);
  LogicalResult describe(train::ConvolutionFilterGradientOp op);
  LogicalResult describe(train::SortOp op);

  /// Where an operand or result of the anchor lies; adds it to the call's
  /// operands. Fails, with an error, where strides cannot say it.
  FailureOr<plan::StridedView> operand(Value value);
  FailureOr<plan::StridedView> result(Value value);
  LogicalResult dense(FailureOr<plan::StridedView> view);
  void place(const plan::StridedView &view, int position);
  LogicalResult rows(StringRef name, FailureOr<plan::StridedView> view);
  template <typename Op> LogicalResult describeMask(Op op);
  template <typename Op> void describeHeads(Op op);
  template <typename Op> void describeWindow(Op op);
  template <typename Op>
  LogicalResult describeConvolution(Op op, Value x, Value w, Value y);

  void ints(StringRef name, Ints values) {
    attribute(name).ints.assign(values.begin(), values.end());
  }
  void number(StringRef name, double value) {
    attribute(name).doubles = {value};
  }
  void text(StringRef name, StringRef value) {
    attribute(name).text = value.str();
  }
  artifact::AttributeT &attribute(StringRef name) {
    call.attributes.push_back(std::make_unique<artifact::AttributeT>());
    call.attributes.back()->name = name.str();
    return *call.attributes.back();
  }
  /// Adds the element type of `of`: f32, or one of `others`.
  LogicalResult elementType(Value of, ArrayRef<StringRef> others = {});

  plan::KernelOp kernel;
  Operation *anchor;
  LibraryCall call;
};

} // namespace

static int64_t elementBytes(Value value) {
  unsigned bits =
      cast<RankedTensorType>(value.getType()).getElementTypeBitWidth();
  return std::max(1u, bits / 8);
}

void Describer::place(const plan::StridedView &view, int position) {
  call.order.push_back(position);
  call.byteOffsets.push_back(view.offset * elementBytes(view.base));
}

FailureOr<plan::StridedView> Describer::operand(Value value) {
  std::optional<plan::StridedView> view = plan::foldOperandViews(value);
  auto argument = view ? dyn_cast<BlockArgument>(view->base) : BlockArgument();
  if (!argument)
    return kernel.emitError("an operand of ")
           << anchor->getName() << " is not a strided view of an argument";
  place(*view, argument.getArgNumber());
  return *view;
}

FailureOr<plan::StridedView> Describer::result(Value value) {
  std::optional<plan::StridedView> view = plan::foldResultViews(value);
  Operation *terminator = kernel.getBlock().getTerminator();
  if (view)
    for (auto [index, returned] : llvm::enumerate(terminator->getOperands()))
      if (returned == view->base) {
        place(*view, kernel.getArgumentTypes().size() + index);
        return *view;
      }
  return kernel.emitError("a result of ")
         << anchor->getName()
         << " is not a strided view of a result of the kernel";
}

LogicalResult Describer::dense(FailureOr<plan::StridedView> view) {
  if (failed(view))
    return failure();
  if (!view->isContiguous())
    return kernel.emitError("expected contiguous operands of ")
           << anchor->getName();
  return success();
}

LogicalResult Describer::elementType(Value of, ArrayRef<StringRef> others) {
  Type element = getElementTypeOrSelf(of.getType());
  if (element.isF32())
    return success(); // the default
  std::string name;
  llvm::raw_string_ostream(name) << element;
  if (!llvm::is_contained(others, name))
    return kernel.emitError("there is no library kernel of ")
           << anchor->getName() << " for " << element;
  text("dtype", name);
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult Describer::describe(train::DotGeneralOp op) {
  call.kernel = artifact::LibraryKernel::Gemm;
  // Fuse makes such kernels for targets that generate them.
  if (auto product = plan::foldProduct(kernel); product && product->hasWork())
    return kernel.emitError(
        "expected operands at multiples of 16 bytes, as a product with more "
        "than a conversion behind it needs them");
  // Sums are f32 anyway.
  train::ConvertOp wide;
  if (op.getResult().hasOneUse())
    wide = dyn_cast<train::ConvertOp>(*op->user_begin());
  FailureOr<plan::StridedView> a = operand(op.getLhs()),
                               b = operand(op.getRhs()),
                               c = result(wide ? wide.getResult()
                                               : op.getResult());
  if (failed(a) || failed(b) || failed(c) ||
      failed(elementType(op.getLhs(), {"f64", "bf16"})))
    return failure();
  if (wide && getElementTypeOrSelf(op.getLhs().getType()).isBF16() &&
      getElementTypeOrSelf(wide.getType()).isF32())
    text("c_dtype", "f32");
  else if (wide)
    return kernel.emitError("expected a product of bf16 before a conversion to "
                            "f32");
  std::optional<plan::GemmShape> gemm = plan::foldContraction(op, *a, *b, *c);
  if (!gemm)
    return kernel.emitError("the contracted dimensions have no common stride");
  ints("m", gemm->m), ints("n", gemm->n), ints("k", gemm->k);
  ints("a_strides", {gemm->aRow, gemm->aColumn}),
      ints("b_strides", {gemm->bRow, gemm->bColumn}),
      ints("c_strides", {gemm->cRow, gemm->cColumn});
  if (gemm->batch.empty())
    return success();
  ints("batch", gemm->batch);
  ints("a_batch_strides", gemm->aBatch), ints("b_batch_strides", gemm->bBatch),
      ints("c_batch_strides", gemm->cBatch);
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Strides of [batch, head, position] of an operand with unit innermost stride.
LogicalResult Describer::rows(StringRef name,
                              FailureOr<plan::StridedView> view) {
  if (failed(view))
    return failure();
  if (!plan::hasUnitInnermostStride(*view))
    return kernel.emitError("expected unit innermost strides of ")
           << anchor->getName();
  ints(name, Ints(view->strides).take_front(3));
  return success();
}

template <typename Op> void Describer::describeHeads(Op op) {
  auto query = cast<RankedTensorType>(op.getQuery().getType()),
       key = cast<RankedTensorType>(op.getKey().getType()),
       value = cast<RankedTensorType>(op.getValue().getType());
  ints("batch", query.getDimSize(0)), ints("heads", query.getDimSize(1)),
      ints("kv_heads", key.getDimSize(1));
  ints("queries", query.getDimSize(2)), ints("keys", key.getDimSize(2)),
      ints("head_dim", query.getDimSize(3)),
      ints("value_dim", value.getDimSize(3));
  number("scale", op.getScale().convertToDouble());
  if (op.getCausal())
    ints("causal", 1);
  if (op.getWindow())
    ints("window", static_cast<int64_t>(*op.getWindow()));
}

template <typename Op> LogicalResult Describer::describeMask(Op op) {
  Value mask = op.getMask();
  if (!mask)
    return success();
  FailureOr<plan::StridedView> view = operand(mask);
  if (failed(view))
    return failure();
  Type element = cast<RankedTensorType>(mask.getType()).getElementType();
  if (!element.isInteger(1) && !element.isF32())
    return kernel.emitError("there is no attention with a mask of ")
           << element << " on the CPU";
  text("mask", element.isInteger(1) ? "bool" : "add");
  SmallVector<int64_t> strides(view->strides);
  for (auto [stride, size] : llvm::zip_equal(strides, view->shape))
    stride = size == 1 ? 0 : stride;
  ints("mask_strides", strides);
  return success();
}

LogicalResult Describer::describe(train::AttentionOp op) {
  call.kernel = artifact::LibraryKernel::AttentionForward;
  describeHeads(op);
  if (failed(elementType(op.getQuery())) ||
      failed(rows("q_strides", operand(op.getQuery()))) ||
      failed(rows("k_strides", operand(op.getKey()))) ||
      failed(rows("v_strides", operand(op.getValue()))) ||
      failed(describeMask(op)) ||
      failed(rows("out_strides", result(op.getResult()))))
    return failure();
  FailureOr<plan::StridedView> lse = result(op.getLse());
  if (failed(lse))
    return failure();
  ints("lse_strides", lse->strides);
  return success();
}

LogicalResult Describer::describe(train::AttentionGradientOp op) {
  call.kernel = artifact::LibraryKernel::AttentionBackward;
  describeHeads(op);
  if (failed(elementType(op.getQuery())) ||
      failed(rows("q_strides", operand(op.getQuery()))) ||
      failed(rows("k_strides", operand(op.getKey()))) ||
      failed(rows("v_strides", operand(op.getValue()))) ||
      failed(describeMask(op)) ||
      failed(rows("out_strides", operand(op.getOutput()))))
    return failure();
  FailureOr<plan::StridedView> lse = operand(op.getLse());
  if (failed(lse))
    return failure();
  ints("lse_strides", lse->strides);
  return failure(failed(rows("dout_strides", operand(op.getCotangent()))) ||
                 failed(rows("dq_strides", result(op.getDquery()))) ||
                 failed(rows("dk_strides", result(op.getDkey()))) ||
                 failed(rows("dv_strides", result(op.getDvalue()))));
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

template <typename Op> void Describer::describeWindow(Op op) {
  ints("strides", op.getStrides()), ints("padding_low", op.getPaddingLow()),
      ints("padding_high", op.getPaddingHigh()),
      ints("dilation", op.getDilation());
  ints("groups", op.getGroups());
}

static Ints shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// x, w and y: input, filter and output of the convolution that `op` is or is
/// a gradient of.
template <typename Op>
LogicalResult Describer::describeConvolution(Op op, Value x, Value w, Value y) {
  describeWindow(op);
  ints("x_shape", shapeOf(x)), ints("w_shape", shapeOf(w)),
      ints("y_shape", shapeOf(y));
  return failure(failed(elementType(op.getResult())) ||
                 failed(dense(operand(op->getOperand(0)))) ||
                 failed(dense(operand(op->getOperand(1)))) ||
                 failed(dense(result(op.getResult()))));
}

LogicalResult Describer::describe(train::ConvolutionOp op) {
  call.kernel = artifact::LibraryKernel::ConvolutionForward;
  return describeConvolution(op, op.getInput(), op.getFilter(), op.getResult());
}

LogicalResult Describer::describe(train::ConvolutionInputGradientOp op) {
  call.kernel = artifact::LibraryKernel::ConvolutionInputGradient;
  return describeConvolution(op, op.getResult(), op.getFilter(),
                             op.getCotangent());
}

LogicalResult Describer::describe(train::ConvolutionFilterGradientOp op) {
  call.kernel = artifact::LibraryKernel::ConvolutionFilterGradient;
  return describeConvolution(op, op.getInput(), op.getResult(),
                             op.getCotangent());
}

LogicalResult Describer::describe(train::SortOp op) {
  call.kernel = artifact::LibraryKernel::Sort;
  Ints shape = shapeOf(op.getOperand());
  if (op.getDimension() + 1 != shape.size())
    return kernel.emitError("expected a sort along the last dimension");
  ints("rows", ShapedType::getNumElements(shape.drop_back())),
      ints("size", shape.back());
  if (op.getDescending())
    ints("descending", 1);
  return failure(failed(elementType(op.getOperand(), {"f64", "i64", "i32"})) ||
                 failed(dense(operand(op.getOperand()))) ||
                 failed(dense(result(op.getValues()))) ||
                 failed(dense(result(op.getIndices()))));
}

FailureOr<LibraryCall> Describer::run() {
  LogicalResult described =
      llvm::TypeSwitch<Operation *, LogicalResult>(anchor)
          .Case<train::DotGeneralOp, train::AttentionOp,
                train::AttentionGradientOp, train::ConvolutionOp,
                train::ConvolutionInputGradientOp,
                train::ConvolutionFilterGradientOp, train::SortOp>(
              [&](auto op) { return describe(op); })
          .Default([&](Operation *) {
            return kernel.emitError(
                "there is no library kernel for this region");
          });
  if (failed(described))
    return failure();
  return std::move(call);
}

bool isLibraryKind(plan::KernelKind kind) {
  switch (kind) {
  case plan::KernelKind::Contraction:
  case plan::KernelKind::Attention:
  case plan::KernelKind::AttentionGradient:
  case plan::KernelKind::Convolution:
  case plan::KernelKind::ConvolutionInputGradient:
  case plan::KernelKind::ConvolutionFilterGradient:
  case plan::KernelKind::Sort:
    return true;
  default:
    return false;
  }
}

FailureOr<LibraryCall> describeLibraryKernel(plan::KernelOp kernel) {
  return Describer(kernel).run();
}

} // namespace lockstep::emit
